import pytest

from reproductions.experiment import PUBLISHED, published_table


def test_columns_are_text_or_numbers():
    rows = {row["estimator"]: row for row in published_table("lrt_gradient_variance")}
    assert rows["local reparameterization"]["top_layer_10_epochs"] == 7800.0
    assert rows["no dropout noise"]["bottom_layer_100_epochs"] == 9.0


def test_a_table_may_have_several_columns_of_text():
    first = published_table("image_classification")[0]
    assert (first["dataset"], first["method"]) == ("CIFAR10", "MAP")
    assert first["nll"] == 1.038
    assert published_table("complexity_per_layer")[0]["time"] == "K L B"


@pytest.mark.parametrize("path", sorted(PUBLISHED.glob("*.csv")), ids=lambda path: path.stem)
def test_every_table_can_be_read(path):
    rows = published_table(path.stem)
    assert rows
    assert len({tuple(row) for row in rows}) == 1


def test_an_unknown_table_is_an_error_that_names_those_there_are():
    with pytest.raises(ValueError, match=r"'nothing'.*lrt_seconds_per_epoch"):
        published_table("nothing")
