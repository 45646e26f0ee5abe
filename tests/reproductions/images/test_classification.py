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
    settings = classification.GRID[method]
    configs = [classification._config(CHOSEN_ON, method, one) for one in settings]
    tried = [where(RECORDS, **config, seed=0) for config in configs]
    if all(tried):
        losses = [record["metrics"]["val_nll"] for (record,) in tried]
        assert losses.index(min(losses)) == classification.CHOSEN[method]


def test_differences_are_paired_by_seed_and_clear_beyond_students_interval():
    values = {"VSD T=2": [0.31, 0.42, 0.53], "MAP": [0.30, 0.40, 0.50], "VD": [0.4, 0.42, 0.4]}
    runs = [(m, seed, value) for m, values in values.items() for seed, value in enumerate(values)]
    runs += [("MAP", 7, 9.0), ("VSD T=2", -1, 9.0)]  # seeds of one of them: left out
    rows = [{"config": {"method": m}, "seed": s, "metrics": {"nll": v}} for m, s, v in runs]
    assert classification.vsd_minus(rows, "D.E", "nll") is None
    gap = classification.vsd_minus(rows, "MAP", "nll")
    assert (gap.mean, gap.error, gap.n) == pytest.approx((0.02, 0.01 / 3**0.5, 3))
    assert not gap.is_clear  # 3.5 errors: two errors would not do for three seeds
    assert classification.Gap(4.4, 1.0, 3).is_clear
    assert not classification.Gap(4.2, 1.0, 3).is_clear


def test_the_figure_shows_the_shares_of_entropies():
    lines = classification.figure(RECORDS).axes[0].lines
    assert [line.get_label() for line in lines] == list(classification.SHOWN)
    for line in lines:
        shares = line.get_ydata()
        assert shares[0] == 0
        assert shares[-1] == pytest.approx(100)
        assert (shares[1:] >= shares[:-1]).all()


def test_there_are_trials_of_networks_that_fit_for_every_published_row():
    trials = {}
    for trial in colour.trials("paper"):
        trials.setdefault((trial.config["architecture"], trial.config["data"]), []).append(trial)
    names = {title: name for name, title in colour.PRINTED_AS.items()}
    for row in published_table("image_classification"):
        config = trials[row["architecture"], names[row["dataset"]]][0].config
        size = 96 if config["data"] == "stl10" else 32
        net = make_network(config, 3, size, 10).eval()
        assert net(torch.zeros(1, 3, size, size), "mean").shape == (1, 10)
    for row in published_table("ood_detection"):
        here = trials[row["architecture"], names[row["in_distribution"]]]
        assert any(trial.config["method"].startswith(row["method"]) for trial in here)
        assert all(names[row["out_of_distribution"]] in trial.config["ood"] for trial in here)


def test_a_record_of_the_published_size_has_its_published_rows_beside_it():
    metrics = defaultdict(lambda: 0.5, nll=1.25)
    config = {"architecture": "AlexNet", "data": "cifar10", "method": "VSD T=2", "ood": ["svhn"]}
    text = colour.table([{"config": {**config, "epochs": 1}, "metrics": metrics}])
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


def test_the_published_pairs_are_those_of_the_printed_tables():
    def ahead(name, column, sign):
        found = defaultdict(list)  # place -> VSD minus a rival
        for row in published_table(name):
            place = [v for k, v in row.items() if k.startswith(("arch", "data", "in_", "out_"))]
            found[tuple(place)].append((row["method"], sign * row[column]))
        rivals = {"MAP", "BBB", "MCD", "VD", "D.E"}
        return {at: [dict(s)["VSD"] > v for m, v in s if m in rivals] for at, s in found.items()}

    printed = [claim.published for claim in classification.claims(RECORDS)]
    for said, found in zip(
        printed, (ahead("image_classification", "nll", -1), ahead("ood_detection", "auroc", 1)),
        strict=True,
    ):  # fmt: skip
        wins = [win for wins in found.values() for win in wins]
        assert said == f"better in {sum(wins)} of {len(wins)} pairs, on other images"
    colours = [wins for at, wins in found.items() if at[0] != "LeNet5"]
    assert len(colours) == 4
    assert all(map(all, colours))
