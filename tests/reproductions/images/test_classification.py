import pytest

from bdl_lessons.datasets.records import CHOSEN_ON, where
from reproductions.images import classification as report
from reproductions.images import tables
from reproductions.report import recorded

RECORDS = recorded(report.EXPERIMENT)


@pytest.mark.parametrize("method", report.GRID)
def test_the_chosen_setting_has_the_smallest_validation_nll_in_the_records(method):
    configs = [report._config(CHOSEN_ON, method, one) for one in report.GRID[method]]
    tried = [where(RECORDS, **config, seed=0) for config in configs]
    if all(tried):
        losses = [record["metrics"]["val_nll"] for (record,) in tried]
        assert losses.index(min(losses)) == report.CHOSEN[method]


def test_settings_are_tried_before_they_are_used_and_then_start_anew():
    grid = report.GRID
    trials = report.trials("paper")
    for method, settings in grid.items():
        mine = [u for u in trials if u.config["method"] == method]
        assert {(u.config["data"], u.seed) for u in mine[: len(settings)]} == {("fashion-mnist", 0)}
        assert len(mine) == len(settings) - 1 + 2 * report.SEEDS[method]  # on both sets
        assert len({(u.config["data"], u.seed) for u in mine}) == 2 * report.SEEDS[method]
    assert all(u.config["ood"][1] != u.config["data"] for u in trials)


def test_what_is_made_of_plain_networks_has_the_prior_chosen_for_map(monkeypatch):
    monkeypatch.setitem(report.CHOSEN, "MAP", 4)
    wanted = report.GRID["MAP"][4]
    for method in report.AS_MAP:
        mine = [u for u in report.trials("paper") if u.config["method"] == method]
        assert all(wanted.items() <= u.config.items() for u in mine)


def whole_record(method, seed, nll, data="fashion-mnist", **changes):
    """A record with everything that the report shows."""
    config = report._config(data, method, report.GRID[method][report.CHOSEN[method]])
    metrics = {"nll": nll, "val_nll": nll, "accuracy_percent": 90.0 + nll, "ece": 0.01}
    metrics |= {"epochs": 9.0, "best_epoch": 4.0, "no_better": 1.0, **changes}
    for other in config["ood"]:
        for score in report.SCORE_NAMES:
            metrics |= {f"{other}/{score}/{name}": 0.9 for name in tables.MEASURES}
    counts = [3, 1, *[0] * 18]
    arrays = {f"entropy/{name}": counts for name in (data, *config["ood"])}
    arrays["val_nll"] = [[1.0, 0.5, 0.4, 0.4, 0.399]]
    return {"config": config, "seed": seed, "metrics": metrics, "arrays": arrays}


def test_differences_are_paired_by_seed_and_clear_beyond_students_interval():
    values = {"VSD T=2": [0.31, 0.42, 0.53], "MAP": [0.30, 0.40, 0.50], "VD": [0.4, 0.42, 0.4]}
    rows = [whole_record(m, seed, v) for m, nlls in values.items() for seed, v in enumerate(nlls)]
    rows.append(whole_record("MAP", 7, 9.0))  # no such seed of VSD: left out
    rows.insert(0, whole_record("VSD T=2", -1, 9.0))  # no such seed of the others
    gaps = tables.differences(rows, "VSD T=2", ("MAP", "VD", "D.E"), ["nll"])
    assert set(gaps) == {("nll", "MAP"), ("nll", "VD")}
    gap = gaps["nll", "MAP"]
    assert (gap.mean, gap.error, gap.n) == pytest.approx((0.02, 0.01 / 3**0.5, 3))
    assert not gap.is_clear  # 3.5 errors: two errors would not do for three seeds
    assert tables.Gap(4.4, 1.0, 3).is_clear
    assert not tables.Gap(4.2, 1.0, 3).is_clear
    assert not tables.Gap(9.0, None, 1).is_clear


def test_the_conclusion_names_clear_differences_on_their_side():
    values = {"VSD T=2": [0.30, 0.40, 0.50], "MAP": [0.201, 0.30, 0.40], "VD": [0.5, 0.6, 0.701]}
    rows = [whole_record(m, seed, v) for m, nlls in values.items() for seed, v in enumerate(nlls)]
    text = report._differences_of_vsd("fashion-mnist", rows)
    better, worse = text.split("There VSD T=2 is better than: ")[1].split(". It is worse than: ")
    assert "VD in NLL (nats) (-0.2003 ± 0.0003)" in better
    assert "MAP in accuracy (%) (+0.10 ± 0.00)" in better
    assert "MAP in NLL (nats) (+0.0997 ± 0.0003)" in worse
    assert "VD in accuracy (%)" in worse
    assert "ECE" not in better + worse
    assert "Of these 14 differences 4 exclude 0" in text


def test_the_report_says_which_trainings_had_not_stopped_improving():
    rows = [whole_record("MAP", seed, 0.3) for seed in range(3)]
    assert "In 3 of 3 trials every network stopped" in report._stopped(rows)
    rows.append(whole_record("VD", 0, 0.3, no_better=0.0))
    assert "In 3 of 4 trials" in report._stopped(rows)
    assert "in the others (VD) the epochs ran out" in report._stopped(rows)
    assert "| MAP | 9.0 ± 0.0 | 4.0 ± 0.0 | 100 | 0.25 |" in tables.endings(rows)


def test_the_figure_shows_the_shares_of_entropies():
    rows = [
        whole_record(method, seed, 0.3 + seed / 10, data)
        for data in ("mnist", "fashion-mnist")
        for method in report.SHOWN
        for seed in range(3)
    ]
    picture = report.figure(rows)
    assert len(picture.axes) == 4
    lines = picture.axes[0].lines
    assert [line.get_label() for line in lines] == list(report.SHOWN)
    assert lines[0].get_ydata()[:3].tolist() == [0, 75, 100]
