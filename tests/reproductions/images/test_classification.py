"""Both experiments on images: which trials there are, and what stands beside each other."""

from collections import Counter, defaultdict

import pytest
import torch

from bdl_lessons.datasets.records import CHOSEN_ON, RESULTS_FOLDER, published_table, where
from reproductions.images import classification, colour
from reproductions.images.training import make_network
from reproductions.report import recorded

RECORDS = recorded(classification.EXPERIMENT, "paper", RESULTS_FOLDER)


@pytest.mark.parametrize("method", classification.GRID)
def test_the_chosen_setting_has_the_smallest_validation_nll_in_the_records(method):
    nlls = []
    for setting in classification.GRID[method]:
        config = classification._config(CHOSEN_ON, method, setting)
        for record in where(RECORDS, **config, seed=0):
            nlls.append(record["metrics"]["val_nll"])
    if len(nlls) == len(classification.GRID[method]):
        assert nlls.index(min(nlls)) == classification.CHOSEN[method]


def test_differences_are_paired_by_seed_and_clear_beyond_students_interval():
    seeds_of_one = [("MAP", 7, 9.0), ("VSD T=2", -1, 9.0)]  # left out
    records = [
        {"config": {"method": method}, "seed": seed, "metrics": {"nll": nll}}
        for method, seed, nll in (
            ("VSD T=2", 0, 0.31),
            ("VSD T=2", 1, 0.42),
            ("VSD T=2", 2, 0.53),
            ("MAP", 0, 0.30),
            ("MAP", 1, 0.40),
            ("MAP", 2, 0.50),
            *seeds_of_one,
        )
    ]
    assert classification.vsd_minus(records, "D.E", "nll") is None
    gap = classification.vsd_minus(records, "MAP", "nll")
    assert gap.mean == pytest.approx(0.02)
    assert gap.error == pytest.approx(0.01 / 3**0.5)
    assert gap.n == 3
    assert not gap.is_clear  # 3.5 errors: two errors would not do for three seeds
    assert classification.Gap(4.4, 1.0, 3).is_clear
    assert not classification.Gap(4.2, 1.0, 3).is_clear


def test_the_figure_shows_the_shares_of_entropies():
    lines = classification.figure(RECORDS).axes[0].lines
    assert [line.get_label() for line in lines] == list(classification.SHOWN)
    for line in lines:
        percent = line.get_ydata()
        assert percent[0] == 0
        assert percent[-1] == pytest.approx(100)
        assert (percent[1:] >= percent[:-1]).all()


def test_there_are_trials_of_networks_that_fit_for_every_published_row():
    configs = defaultdict(list)
    for trial in colour.trials("paper"):
        config = trial.config
        configs[config["architecture"], config["data"]].append(config)
    names = {title: name for name, title in colour.PRINTED_AS.items()}
    for row in published_table("image_classification"):
        config = configs[row["architecture"], names[row["dataset"]]][0]
        size = 96 if config["data"] == "stl10" else 32
        net = make_network(config, n_channels=3, size=size, n_classes=10).eval()
        assert net(torch.zeros(1, 3, size, size), "mean").shape == (1, 10)
    for row in published_table("ood_detection"):
        of_row = configs[row["architecture"], names[row["in_distribution"]]]
        assert any(config["method"].startswith(row["method"]) for config in of_row)
        other = names[row["out_of_distribution"]]
        assert all(other in config["ood"] for config in of_row)


def test_a_record_of_the_published_size_has_its_published_rows_beside_it():
    metrics = defaultdict(lambda: 0.5, nll=1.25)
    config = {
        "architecture": "AlexNet",
        "data": "cifar10",
        "method": "VSD T=2",
        "ood": ["svhn"],
        "epochs": 1,
    }
    text = colour.table([{"config": config, "metrics": metrics}])
    assert "| VSD | 0.656 | 78.21 | 0.046 |" in text
    assert "| SVHN | VSD | 0.91 | 0.30 | 0.73 | 0.65 | 0.83 |" in text
    assert "images: AlexNet on SVHN, AlexNet on CIFAR100" in text  # without the one that is done


def test_of_all_of_cifar10_the_setting_with_the_best_validation_nll_is_shown():
    """Two settings of MAP, the one that is worse on validation images better on test images."""
    trials = [trial for trial in colour.trials("paper") if trial.config["data"] == colour.SHEETS]
    chosen, other = (trial for trial in trials if trial.config["method"] == "MAP")
    scores = {"epochs": 12, "best_epoch": 7, "no_better": 1.0}
    records = []
    for trial, val_nll, nll in ((other, 1.5, 0.5), (chosen, 1.25, 0.75)):
        metrics = defaultdict(lambda: 0.5, scores, val_nll=val_nll, nll=nll)
        records.append({"config": trial.config, "seed": 0, "metrics": metrics})
    text = colour.table(records)
    assert "prior precision 30, kl weight 1, learning rate 0.001 | 1 | 0.7500 |" in text
    assert "| 1 | 0.5000 |" not in text
    assert "| 1.2500 | 12 | 7 | the rule | chosen |" in text
    assert "| 1.5000 | 12 | 7 | the rule |  |" in text
    assert "| VSD | 0.656 | 78.21 | 0.046 |" in text
    assert "Told from CIFAR-100 by the" in text
    lines = colour.figure(records).axes[0].lines
    assert [line.get_xdata().tolist() for line in lines if len(line.get_xdata())] == [[0.75]]


def test_all_methods_have_the_same_rule_on_all_of_cifar10():
    trials = [trial for trial in colour.trials("paper") if trial.config["data"] == colour.SHEETS]
    for name in ("epochs", "patience", "batch_size", "learning_rate", "n_val", "n_samples", "ood"):
        first = trials[0].config[name]
        assert all(trial.config[name] == first for trial in trials)
    numbers = Counter(trial.config["method"] for trial in trials)
    assert numbers == dict.fromkeys(colour.TRIED, 2)


def printed_comparisons(table, score, sign):
    """Place -> for each published rival whether the printed VSD is ahead of it."""
    places = defaultdict(dict)
    for row in published_table(table):
        place = tuple(row[column] for column in row if column.startswith(PLACE_COLUMNS))
        places[place][row["method"]] = sign * row[score]
    wins = {}
    for place, scores in places.items():
        wins[place] = [scores["VSD"] > scores[rival] for rival in scores.keys() & PUBLISHED_RIVALS]
    return wins


PLACE_COLUMNS = ("architecture", "dataset", "in_distribution", "out_of_distribution")
PUBLISHED_RIVALS = {"MAP", "BBB", "MCD", "VD", "D.E"}


def test_the_published_pairs_are_those_of_the_printed_tables():
    of_nll, of_auroc = classification.claims(RECORDS)
    by_nll = printed_comparisons("image_classification", "nll", sign=-1)
    by_auroc = printed_comparisons("ood_detection", "auroc", sign=1)
    for claim, places in ((of_nll, by_nll), (of_auroc, by_auroc)):
        wins = [win for of_place in places.values() for win in of_place]
        expected = f"better in {sum(wins)} of {len(wins)} pairs, on other images"
        assert claim.published == expected
    in_colour = [wins for place, wins in by_auroc.items() if place[0] != "LeNet5"]
    assert len(in_colour) == 4
    assert all(all(wins) for wins in in_colour)
