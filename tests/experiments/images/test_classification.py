import pytest

from bdl_lessons.experiments import markdown
from bdl_lessons.experiments.images import classification, tables
from bdl_lessons.experiments.images import classification as report
from bdl_lessons.experiments.records import RESULTS_FOLDER, load_records

RECORDS = load_records(RESULTS_FOLDER / "image_classification.jsonl")


def record(method, value, seed=0, data="fashion-mnist", **setting):
    config = {"data": data, "ood": ["notmnist-small", "mnist"], "method": method, **setting}
    return {"config": config, "seed": seed, "metrics": {"val_nll": value, "nll": value}}


def test_the_setting_with_the_smallest_validation_nll_of_the_first_seed_is_chosen():
    records = [
        record("VD", 0.3, kl_weight=0.1),
        record("VD", 0.2, kl_weight=1.0),
        record("VD", 0.1, kl_weight=0.1, data="mnist"),
        record("VD", 0.1, kl_weight=0.1, seed=1),
        record("MAP", 0.5),
    ]
    picked = tables.chosen(records, "fashion-mnist")
    assert picked == {"VD": tables.setting(records[1]), "MAP": tables.setting(records[4])}


@pytest.mark.skipif(not RECORDS, reason="no records")
def test_the_chosen_settings_are_those_of_the_records():
    picked = tables.chosen(RECORDS, report.CHOICE)
    for method, index in classification.CHOSEN.items():
        trial = classification._config(report.CHOICE, method, classification.GRID[method][index])
        assert picked[method] == tables.setting({"config": trial})


def test_settings_are_tried_before_they_are_used_and_seeds_come_last(monkeypatch):
    grid = classification.GRID
    monkeypatch.setattr(classification, "CHOSEN", dict.fromkeys(grid, 0))
    trials = classification.trials("paper")
    for method, settings in grid.items():
        mine = [u for u in trials if u.config["method"] == method]
        assert {u.config["data"] for u in mine[: len(settings)]} == {"fashion-mnist"}
        assert len(mine) == len(settings) + 5  # MNIST, then both sets with two more seeds
    seeds = [u.seed for u in trials]
    assert seeds == sorted(seeds)
    assert all(u.config["ood"][1] != u.config["data"] for u in trials)


def test_with_several_values_the_standard_error_is_shown():
    assert markdown.mean_and_error([0.5], 2) == "0.50"
    assert markdown.mean_and_error([1.0, 2.0, 3.0], 3) == "2.000 ± 0.577"


def test_comparing_counts_a_small_nll_and_a_large_accuracy_as_good():
    def one(method, nll, accuracy):
        found = record(method, 0.1)
        found["metrics"] = {"nll": nll, "accuracy_percent": accuracy, "ece": 0.1}
        found["metrics"] |= {f"{o}/max softmax/auroc": 0.9 for o in found["config"]["ood"]}
        return found

    rows = [one("VD", 0.3, 90.0), one("VSD T=2", 0.2, 80.0), one("VSD T=2", 0.3, 81.0)]
    lines = tables.compare(rows, "VSD T=2", ["VD"])
    assert lines[0] == ["fashion-mnist: NLL", "VSD T=2", "better"]
    assert lines[1] == ["fashion-mnist: accuracy", "VD", "worse"]
    assert lines[2] == ["fashion-mnist: ECE", "VD", "equal"]
    assert len(lines) == 5


def test_published_rows_are_named_as_other_data():
    text = report._published()
    assert "SVHN" in text
    assert "| VSD | CIFAR10 | 0.45 | 0.14 | 0.93 | 0.97 | 0.81 |" in text
