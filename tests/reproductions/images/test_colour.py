import torch

from bdl_lessons.datasets.records import published_table
from reproductions.images import colour
from reproductions.images.training import make_network


def record(architecture, data, method="MAP", ood=()):
    metrics = {"nll": 1.25, "accuracy_percent": 60.0, "ece": 0.1}
    for other in ood:
        metrics |= {
            f"{other}/max softmax/{name}": 0.5
            for name in ("fpr_at_95_tpr", "detection_error", "auroc", "aupr_in", "aupr_out")
        }
    config = {"architecture": architecture, "data": data, "method": method, "ood": list(ood)}
    return {"config": {**config, "epochs": 1, "n_val": 500, "batch_size": 8}, "metrics": metrics}


def test_there_are_trials_for_every_published_row():
    trials = colour.trials("paper")
    have = {(u.config["architecture"], u.config["data"], u.config["method"]) for u in trials}
    names = {title: name for name, title in colour.PRINTED_AS.items()}
    for row in published_table("image_classification"):
        methods = {m for m in colour.SETTINGS if m.startswith(row["method"])}
        assert methods
        assert all((row["architecture"], names[row["dataset"]], m) in have for m in methods)
    n_small = sum(map(len, colour.SMALL_METHODS.values()))
    small = [u.config["data"] == "cifar10-subset" for u in trials]
    assert small == [True] * n_small + [False] * (len(trials) - n_small)
    pairs = {(u.config["architecture"], u.config["data"]): u.config["ood"] for u in trials}
    for row in published_table("ood_detection"):
        others = pairs[row["architecture"], names[row["in_distribution"]]]
        assert names[row["out_of_distribution"]] in others


def test_every_trial_has_a_network_that_fits_its_images():
    shapes = {}
    for trial in colour.trials("paper"):
        config = trial.config
        size = 96 if config["data"] == "stl10" else 32
        if config["method"] == "VSD T=2":
            shapes[config["architecture"], size] = config
    for (_, size), config in shapes.items():
        net = make_network(config, 3, size, 10).eval()
        assert net(torch.zeros(1, 3, size, size), "mean").shape == (1, 10)


def test_a_small_record_has_no_published_row_beside_it_and_all_rows_wait():
    text = colour.table([record("AlexNet", "cifar10-subset")])
    assert "Published:" not in text
    assert text.count("| `python -m reproductions run") == 9  # 2 networks x 4 sets, LeNet5


def test_a_record_of_the_published_size_has_its_published_rows_beside_it():
    text = colour.table([record("AlexNet", "cifar10", "VSD T=2", ["svhn"])])
    assert "| VSD | 0.656 | 78.21 | 0.046 |" in text
    assert "| VSD | 0.91 | 0.30 | 0.73 | 0.65 | 0.83 |" in text
    assert text.count("| `python -m reproductions run") == 8
