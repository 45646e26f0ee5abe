"""AlexNet and ResNet18 on colour images, and LeNet5 on SVHN: the published grid, and a small one.

Nguyen et al. (NeurIPS 2021), Tables 4 and 5 and their table of out-of-distribution detection. The
published sizes need a GPU and the data sets. The first trials need neither: few images of CIFAR-10,
few epochs. Lesson 12.
"""

from __future__ import annotations

from bdl_lessons.experiments.experiment import Experiment, Trial
from bdl_lessons.experiments.images.colour_report import figure, table
from bdl_lessons.experiments.images.measures import measure_network

SETTINGS = {
    "MAP": {},
    "VSD T=2": {"p_drop": 0.1, "kl_weight": 0.1},
    "VD": {"p_drop": 0.1, "kl_weight": 0.1},
    "MCD": {"p_drop": 0.1},
    "VSD T=1": {"p_drop": 0.1, "kl_weight": 0.1},
    "BBB-LRT": {"prior_var": 0.1, "init_log_sigma2": -8.0, "kl_weight": 0.1},
    "BBB": {"prior_var": 0.1, "init_log_sigma2": -8.0, "kl_weight": 0.1},
    "ELRG": {"rank": 5, "kl_weight": 0.1},
    "D.E": {"n_networks": 5},
    "SWAG": {"learning_rate": 0.05, "swag_epochs": 40},
}
SMALL_SETTINGS = SETTINGS | {"SWAG": {**SETTINGS["SWAG"], "swag_epochs": 12}}
SMALL_METHODS = {"AlexNet": tuple(SETTINGS), "ResNet18": ("MAP", "VSD T=2", "VD", "MCD")}
OTHERS = {
    ("LeNet5", "svhn"): ["cifar10", "cifar100"],
    ("AlexNet", "cifar10"): ["cifar100", "svhn"],
    ("ResNet18", "cifar100"): ["cifar10", "svhn"],
}
"""Published pairs of training set and other images, of one architecture each."""
_PUBLISHED_SIZE = {
    "epochs": 160,
    "batch_size": 128,
    "learning_rate": 5e-4,
    "warm_up_epochs": 20,
    "kl_weight": 1.0,
    "n_val": 1000,
    "n_val_samples": 20,
    "n_samples": 100,
}
_SMALL = {
    **_PUBLISHED_SIZE,
    "batch_size": 64,
    "learning_rate": 1e-3,
    "warm_up_epochs": 2,
    "n_val": 500,
    "n_val_samples": 10,
    "n_samples": 10,
}
_SMALL_EPOCHS = {"AlexNet": 12, "ResNet18": 6}
_QUICK = {"epochs": 1, "n_train": 48, "n_test": 20, "n_val": 16, "batch_size": 16, "n_samples": 2}


def trials(scale: str) -> list[Trial]:
    """The small grid, then the published one, seed by seed."""
    small = [
        _trial(
            *(name, "cifar10-subset", method),
            {**_SMALL, "epochs": _SMALL_EPOCHS[name], **SMALL_SETTINGS[method]},
        )
        for name, methods in SMALL_METHODS.items()
        for method in methods
    ]
    if scale == "quick":
        return [Trial({**trial.config, **_QUICK}, 0) for trial in small[:2]]
    grid = [
        (name, data)
        for name in ("AlexNet", "ResNet18")
        for data in ("cifar10", "svhn", "cifar100", "stl10")
    ]
    published = [
        _trial(name, data, method, {**_PUBLISHED_SIZE, **SETTINGS[method]}, seed)
        for seed in range(5)
        for name, data in [*grid, ("LeNet5", "svhn")]
        for method in SETTINGS
    ]
    return small + published


def _trial(architecture: str, data: str, method: str, setting: dict, seed: int = 0) -> Trial:
    config = {"data": data, "architecture": architecture, "method": method}
    return Trial({**config, "ood": OTHERS.get((architecture, data), []), **setting}, seed)


TITLE = "AlexNet and ResNet18 on colour images (Nguyen et al. 2021, Tables 4 and 5, OOD table)"
EXPERIMENT = Experiment(
    "image_classification_colour", TITLE, trials, measure_network, table, figure
)
