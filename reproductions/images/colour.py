"""AlexNet and ResNet18 on colour images, and LeNet5 on SVHN: the published grid, and a small one.

Nguyen et al. (NeurIPS 2021), Tables 4 and 5 and their table of out-of-distribution detection. The
published sizes need a GPU and the data sets, the first trials neither. Lesson 12.
"""

from collections.abc import Sequence

from matplotlib.figure import Figure

from bdl_lessons.datasets.records import Record, group_by
from reproductions.experiment import Claim, Experiment, Trial
from reproductions.figures import ours_and_published
from reproductions.images.classification import QUALITY, measured, published
from reproductions.images.training import measure_network

PRINTED_AS = {"cifar10": "CIFAR10", "svhn": "SVHN", "cifar100": "CIFAR100", "stl10": "STL10"}
_LEARNED = {"p_drop": 0.1, "kl_weight": 0.1}
_GAUSSIAN = {"prior_var": 0.1, "init_log_sigma2": -8.0, "kl_weight": 0.1}
SETTINGS = {
    "MAP": {},
    "VSD T=2": _LEARNED,
    "VD": _LEARNED,
    "MCD": {"p_drop": 0.1},
    "VSD T=1": _LEARNED,
    "BBB-LRT": _GAUSSIAN,
    "BBB": _GAUSSIAN,
    "ELRG": {"rank": 5, "kl_weight": 0.1},
    "D.E": {"n_networks": 5},
    "SWAG": {"learning_rate": 0.05, "swag_epochs": 40},
}
_SMALL_SETTINGS = SETTINGS | {"SWAG": {**SETTINGS["SWAG"], "swag_epochs": 12}}
SMALL_GRID = {"AlexNet": (12, tuple(SETTINGS)), "ResNet18": (6, ("MAP", "VSD T=2", "VD", "MCD"))}
"""Epochs and methods of the networks on few images."""
GRID = [(name, data) for name in ("AlexNet", "ResNet18") for data in PRINTED_AS]
GRID += [("LeNet5", "svhn")]
OTHERS = ("cifar10", "cifar100", "svhn")  # each for the two that are not trained on
_FOLLOWED = {"epochs": 30, "patience": 2, "n_draws_per_epoch": 4, "n_val": 1000}
_FOLLOWED |= {"n_val_samples": 20, "n_samples": 20, "batch_size": 128, "learning_rate": 1e-3}
_FOLLOWED |= {"warm_up_epochs": 1, "kl_weight": 1.0}
_KL_WEIGHTS = ({"kl_weight": 0.01}, {"kl_weight": 0.1})
_NOISE_LEARNED = [{"p_drop": 0.1, **weight} for weight in _KL_WEIGHTS]
_NOISE_ON_WEIGHTS = [{"prior_var": 0.1, "init_log_sigma2": -8.0, **w} for w in _KL_WEIGHTS]
TRIED = {
    "MAP": [{"prior_precision": 30.0}, {"prior_precision": 300.0}],
    "MCD": [{"p_drop": 0.2}, {"p_drop": 0.1}],
    "VD": _NOISE_LEARNED,
    "VSD T=0": _NOISE_LEARNED,
    "VSD T=2": _NOISE_LEARNED,
    "BBB-LRT": _NOISE_ON_WEIGHTS,
}
_PUBLISHED_SIZE = {"epochs": 160, "batch_size": 128, "learning_rate": 5e-4, "kl_weight": 1.0}
_PUBLISHED_SIZE |= {"warm_up_epochs": 20, "n_val": 1000, "n_val_samples": 20, "n_samples": 100}
_SMALL = _PUBLISHED_SIZE | {"batch_size": 64, "learning_rate": 1e-3, "warm_up_epochs": 2}
_SMALL |= {"n_val": 500, "n_val_samples": 10, "n_samples": 10}
_QUICK = {"epochs": 1, "n_train": 48, "n_test": 20, "n_val": 16, "batch_size": 16, "n_samples": 2}


def trials(scale: str) -> list[Trial]:
    """The small grid, then the published one."""
    small = [
        _trial(name, "cifar10-subset", m, _SMALL | {"epochs": epochs} | _SMALL_SETTINGS[m])
        for name, (epochs, methods) in SMALL_GRID.items()
        for m in methods
    ]
    if scale == "quick":
        return [Trial({**trial.config, **_QUICK}, 0) for trial in small[:2]]
    followed = [
        _trial("AlexNet", "cifar10-sheets", method, _FOLLOWED | settings[k])
        for k in range(2)
        for method, settings in TRIED.items()
    ]
    return small + followed + [
        _trial(name, data, method, _PUBLISHED_SIZE | SETTINGS[method], seed)
        for seed in range(5)
        for name, data in GRID
        for method in SETTINGS
    ]


def _trial(architecture: str, data: str, method: str, setting: dict, seed: int = 0) -> Trial:
    ood = [other for other in OTHERS if other != data] if data in OTHERS else []
    if data == "cifar10-sheets":
        ood = ["cifar100-sheets", "svhn-sheets"]
    config = {"data": data, "architecture": architecture, "method": method, "ood": ood}
    return Trial({**config, **setting}, seed)


def table(records: Sequence[Record]) -> str:
    """What was measured of each network and data set, beside published rows; what is missing."""
    parts = []
    missing = [f"{name} on {PRINTED_AS[data]}" for name, data in GRID]
    for (name, data), group in group_by(records, "architecture", "data").items():
        printed = PRINTED_AS.get(data)
        parts += [f"### {name} on {printed or '4,000 images of CIFAR-10'}", *measured(group)]
        if not printed:
            parts += [_FEW.format(**group[0]["config"])]
            continue
        missing.remove(f"{name} on {printed}")
        row = {"architecture": name}
        parts += ["Published:", published("image_classification", row | {"dataset": printed})]
        parts += [published("ood_detection", row | {"in_distribution": printed})]
    return "\n\n".join([*parts, _MISSING.format(missing=", ".join(missing) or "none of them")])


def claims(records: Sequence[Record]) -> list[Claim]:
    """Nothing of this size was run."""
    statement = "VSD tells other colour images best (AUROC), in AlexNet and ResNet18"
    how = f"{len(records)} of {len(trials('paper'))} trials, on 4,000 images; the others need a GPU"
    return [Claim(statement, "in all four pairs of data sets", "–", 0, 0, how)]


def figure(records: Sequence[Record]) -> Figure:
    """NLL, accuracy and ECE of every method in each network on each data set."""
    panels = {}
    for (name, data), group in group_by(records, "architecture", "data").items():
        for label, measure in QUALITY.items():
            dots = [(record["config"]["method"], record["metrics"][measure], 0) for record in group]
            panels[f"{name}, {data}\n{label}"] = dots, ()
    return ours_and_published([*SETTINGS], panels)


_FEW = """\
{epochs} epochs on all but {n_val} images, batches of {batch_size}, no augmentation; 7 % of the data
and few steps, KL weights not tuned, 1,000 test images: not comparable with the published rows."""
_MISSING = """\
Published rows that need a GPU, all their seeds and their other images: {missing}. The command
fetches the sets, or finds them in the folder that `BDL_DATA_DIR` names. Set-up where the published
one is not known: AlexNet is the version common on CIFAR (2.47 million weights, no dropout, no batch
norm), ResNet18 has the stem made for ImageNet, on 32 x 32 pixels too (the published accuracies fit
that one), LeNet5 is that on MNIST; 160 epochs of Adam in batches of 128 with a rate that falls to 0
in a straight line, no augmentation, the last 1,000 training images kept apart."""
TITLE = "AlexNet and ResNet18 on colour images (Nguyen et al. 2021, Tables 4 and 5, OOD table)"
EXPERIMENT = Experiment(
    "image_classification_colour", TITLE, trials, measure_network, table, figure, claims
)
