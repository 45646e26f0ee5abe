import pytest

from bdl_lessons.published import FOLDER, table


def test_the_first_column_is_text_and_the_rest_are_numbers():
    rows = {row["estimator"]: row for row in table("lrt_gradient_variance")}
    assert rows["local reparameterization"]["top_layer_10_epochs"] == 7800.0
    assert rows["no dropout noise"]["bottom_layer_100_epochs"] == 9.0


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.csv")), ids=lambda path: path.stem)
def test_every_table_can_be_read(path):
    rows = table(path.stem)
    assert rows
    assert len({tuple(row) for row in rows}) == 1


def test_an_unknown_table_is_an_error_that_names_those_there_are():
    with pytest.raises(ValueError, match=r"'nothing'.*lrt_seconds_per_epoch"):
        table("nothing")
