"""LeNet5 on MNIST and Fashion-MNIST under every method: likelihood, calibration, other data.

Nguyen et al. (NeurIPS 2021), Tables 4 and 5, their table of out-of-distribution detection and their
histograms of predictive entropy, on the sets that can be had here. One training of a network gives
its row in all of them. Lessons 10 and 12.
"""

from __future__ import annotations

from bdl_lessons.experiments.experiment import Experiment, Trial
from bdl_lessons.experiments.images.classification_report import figure, table
from bdl_lessons.experiments.images.measures import measure_network

OTHER = {"fashion-mnist": "mnist", "mnist": "fashion-mnist"}
_COMMON = {
    "architecture": "LeNet5",
    "epochs": 4,
    "batch_size": 128,
    "learning_rate": 1e-3,
    "warm_up_epochs": 1,
    "kl_weight": 1.0,
    "n_val": 5000,
    "n_val_samples": 20,
    "n_samples": 20,
}
_QUICK = {
    "epochs": 1,
    "batch_size": 32,
    "n_train": 96,
    "n_test": 40,
    "n_val": 32,
    "n_val_samples": 2,
    "n_samples": 2,
    "swag_epochs": 2,
}
_SLANG = {
    "rank": 5,
    "prior_precision": 10.0,
    "slang_epochs": 2,
    "slang_lr": 1e-3,
    "slang_batch_size": 32,
}
_GAUSSIAN = {"prior_var": 0.1, "init_log_sigma2": -8.0}
GRID: dict[str, list[dict]] = {
    "MAP": [{}],
    "MCD": [{"p_drop": 0.05}, {"p_drop": 0.1}],
    "VD": [{"p_drop": 0.1, "kl_weight": w} for w in (0.1, 0.01)],
    "VSD T=1": [{"p_drop": 0.1, "kl_weight": w} for w in (0.1, 0.01)],
    "VSD T=2": [{"p_drop": 0.1, "kl_weight": w} for w in (0.1, 0.01)],
    "BBB-LRT": [{**_GAUSSIAN, "kl_weight": w} for w in (0.1, 1.0)],
    "D.E": [{"n_networks": 5}],
    "BBB": [{**_GAUSSIAN, "kl_weight": w} for w in (0.1, 1.0)],
    "SWAG": [{"learning_rate": 0.05, "swag_epochs": 4}],
    "ELRG": [{"rank": 5, "kl_weight": w} for w in (0.1, 1.0)],
    "VMG": [{"n_pseudo": 5, "kl_weight": w} for w in (0.1, 1.0)],
    "MNF": [{"n_flows": 2, "z_mean": 1.0, "kl_weight": w} for w in (0.1, 1.0)],
    "SLANG": [{**_SLANG, "kl_weight": w} for w in (0.1, 1.0)],
}
"""The settings that are tried of each method, on the validation rows of Fashion-MNIST, seed 0."""
CHOSEN: dict[str, int] = dict.fromkeys(GRID, 0) | {"VD": 1, "VSD T=1": 1, "VSD T=2": 1}
"""Which of them has the smallest ``val_nll``; a test compares this with the records."""
_GROUPS = (list(GRID)[:5], list(GRID)[5:8], list(GRID)[8:])


def trials(scale: str) -> list[Trial]:
    """For a few methods at a time: the grid on Fashion-MNIST, then the chosen setting on MNIST.

    Further seeds of all methods come last.
    """
    if scale == "quick":
        return [
            Trial(_config("fashion-mnist", method, settings[0]) | _QUICK, seed=0)
            for method, settings in GRID.items()
        ]
    found = []
    for group in _GROUPS:
        found += [Trial(_config("fashion-mnist", m, s), 0) for m in group for s in GRID[m]]
        found += _chosen("mnist", group, seed=0)
    for seed in (1, 2):
        for data in ("mnist", "fashion-mnist"):
            found += _chosen(data, list(GRID), seed)
    return found


def _chosen(data: str, methods: list[str], seed: int) -> list[Trial]:
    return [Trial(_config(data, m, GRID[m][CHOSEN[m]]), seed) for m in methods if m in CHOSEN]


def _config(data: str, method: str, setting: dict) -> dict:
    ood = ["notmnist-small", OTHER[data]]
    return {"data": data, "method": method, "ood": ood, **_COMMON, **setting}


TITLE = (
    "LeNet5 on MNIST and Fashion-MNIST, and what it says of other images (Nguyen et "
    "al. 2021, Tables 4 and 5, OOD table, figure 4)"
)
EXPERIMENT = Experiment("image_classification", TITLE, trials, measure_network, table, figure)
