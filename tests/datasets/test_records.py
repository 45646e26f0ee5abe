import itertools

import pytest

from bdl_lessons.datasets import records
from bdl_lessons.datasets.records import (
    PUBLISHED,
    UCIResults,
    chosen_settings,
    group_by,
    load_records,
    published_table,
    setting,
    where,
    with_settings,
)


@pytest.mark.parametrize("path", sorted(PUBLISHED.glob("*.csv")), ids=lambda path: path.stem)
def test_every_table_can_be_read(path):
    rows = published_table(path.stem)
    assert len({tuple(row) for row in rows}) == 1
    assert any(isinstance(cell, str) for cell in rows[0].values())


def test_an_unknown_name_is_an_error_that_names_those_there_are():
    with pytest.raises(ValueError, match=r"'nothing'.*lrt_seconds_per_epoch"):
        published_table("nothing")
    with pytest.raises(ValueError, match=r"'nothing'.*image_classification"):
        load_records("nothing")


def test_a_line_that_is_cut_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "RESULTS_FOLDER", tmp_path)
    (tmp_path / "toy.jsonl").write_text('{"seed": 0}\n{"seed":')
    with pytest.raises(ValueError, match=r"toy\.jsonl, line 2 is not a record"):
        load_records("toy")


def record(method, val_nll, nll=0.0, seed=0, data="fashion-mnist", **setting):
    config = {"data": data, "ood": ["notmnist-small"], "method": method, **setting}
    return {"config": config, "seed": seed, "metrics": {"val_nll": val_nll, "nll": nll}}


TRIED = [
    record("VD", 0.3, nll=0.1, kl_weight=0.1),
    record("VD", 0.2, nll=0.4, kl_weight=1.0),  # the best by validation, not by test images
    record("VD", 0.1, kl_weight=0.1, data="mnist"),
    record("VD", 0.1, kl_weight=0.1, seed=1),
    record("MAP", 0.5),
    record("VD", 0.6, kl_weight=1.0, seed=1),
    record("VD", 0.7, kl_weight=1.0, data="mnist"),
]


def test_the_setting_with_the_smallest_validation_nll_of_the_first_seed_is_chosen():
    settings = chosen_settings(TRIED)
    assert settings == {"VD": setting(TRIED[1]), "MAP": setting(TRIED[4])}
    assert with_settings(TRIED, "fashion-mnist", settings) == [TRIED[1], TRIED[5], TRIED[4]]
    assert with_settings(TRIED, "mnist", settings) == [TRIED[6]]


def test_records_are_found_and_grouped_by_their_configuration():
    assert where(TRIED, data="mnist", seed=0) == [TRIED[2], TRIED[6]]
    groups = group_by(TRIED, "data", "method")
    assert list(groups) == [("fashion-mnist", "VD"), ("mnist", "VD"), ("fashion-mnist", "MAP")]
    assert [len(group) for group in group_by(TRIED, "method").values()] == [6, 1]


def test_regression_results_stand_beside_the_published_ones():
    uci = UCIResults(load_records("uci"))
    assert len(uci.sets) == 8
    for data, method in itertools.product(uci.sets, uci.rows[:8]):
        assert uci.published(data, method, "rmse")
        assert uci.published(data, method, "log_likelihood")
    assert uci.published("yacht", "VD", "log_likelihood")[0] == pytest.approx(-1.42)
    assert uci.published("yacht", "MAP", "rmse") is None
    map_on_wine = uci.record("wine-quality-red", "MAP")
    metrics = map_on_wine["metrics"]
    assert uci.ours("wine-quality-red", "MAP", "rmse") == (metrics["rmse"], metrics["rmse_error"])
    assert uci.ours("kin8nm", "GP", "rmse") is None
    assert map_on_wine in uci.of("MAP")
    assert [r["config"]["data"] for r in uci.of("MAP")][:8] == uci.sets


def test_a_set_that_no_paper_has_stands_after_the_others():
    new = {"config": {"data": "protein", "method": "MAP"}, "metrics": {"rmse": 4, "rmse_error": 1}}
    printed = UCIResults(load_records("uci")).sets
    known = [one for data in printed for one in where(load_records("uci"), data=data)]
    uci = UCIResults([new, *known])
    assert uci.recorded_sets == [*printed, "protein"]
    assert uci.ours("protein", "MAP", "rmse") == (4, 1)
    assert uci.published("protein", "VD", "rmse") is None
    assert uci.of("MAP")[-1] is new
