"""AlexNet and ResNet18 on colour images, and LeNet5 on SVHN.

Nguyen et al. (NeurIPS 2021), Tables 4 and 5 and their table of out-of-distribution detection.
There are three grids of trials: networks on 4,000 images, which a processor trains in minutes;
AlexNet on all of CIFAR-10, each training stopped by the same rule on validation images, which takes
a processor about twenty hours; and the published sizes, which need a GPU. Lesson 13.
"""

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import Figure

from bdl_lessons.datasets.records import (
    Record,
    chosen_settings,
    group_by,
    setting,
    where,
    with_settings,
)
from reproductions import markdown
from reproductions.experiment import Claim, Experiment, Trial
from reproductions.figures import ours_and_published
from reproductions.images.classification import QUALITY, measured, published, setting_of
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
_SMALL_SETTINGS = {
    **SETTINGS,
    "SWAG": {"learning_rate": 0.05, "swag_epochs": 12},
}
SMALL_GRID = {
    "AlexNet": (12, tuple(SETTINGS)),
    "ResNet18": (6, ("MAP", "VSD T=2", "VD", "MCD")),
}
"""Epochs and methods of the networks on few images."""
GRID = (
    *(("AlexNet", data) for data in PRINTED_AS),
    *(("ResNet18", data) for data in PRINTED_AS),
    ("LeNet5", "svhn"),
)
"""The published architectures and data sets."""
OTHERS = ("cifar10", "cifar100", "svhn")  # each for the two that are not trained on
SHEETS = "cifar10-sheets"
"""All of CIFAR-10, from sheets of pictures; for those without a connection."""
OTHER_SHEETS = ("cifar100-sheets", "svhn-sheets")
_BY_VALIDATION = {
    "epochs": 30,
    "patience": 2,
    "n_draws_per_epoch": 4,
    "batch_size": 128,
    "learning_rate": 1e-3,
    "warm_up_epochs": 1,
    "kl_weight": 1.0,
    "n_val": 1000,
    "n_val_samples": 20,
    "n_samples": 20,
}
_NOISE_ON_UNITS = [
    {"p_drop": 0.1, "kl_weight": 0.01},
    {"p_drop": 0.1, "kl_weight": 0.1},
]
_NOISE_ON_WEIGHTS = [
    {"prior_var": 0.1, "init_log_sigma2": -8.0, "kl_weight": 0.01},
    {"prior_var": 0.1, "init_log_sigma2": -8.0, "kl_weight": 0.1},
]
TRIED = {
    "MAP": [{"prior_precision": 30.0}, {"prior_precision": 300.0}],
    "MCD": [{"p_drop": 0.2}, {"p_drop": 0.1}],
    "VD": _NOISE_ON_UNITS,
    "VSD T=0": _NOISE_ON_UNITS,
    "VSD T=2": _NOISE_ON_UNITS,
    "BBB-LRT": _NOISE_ON_WEIGHTS,
}
"""Two settings of each method for all of CIFAR-10, the likelier one first. The smaller validation
NLL with the first seed decides between them."""
_PUBLISHED_SIZE = {
    "epochs": 160,
    "batch_size": 128,
    "learning_rate": 5e-4,
    "kl_weight": 1.0,
    "warm_up_epochs": 20,
    "n_val": 1000,
    "n_val_samples": 20,
    "n_samples": 100,
}
_SMALL = {
    "epochs": 160,
    "batch_size": 64,
    "learning_rate": 1e-3,
    "kl_weight": 1.0,
    "warm_up_epochs": 2,
    "n_val": 500,
    "n_val_samples": 10,
    "n_samples": 10,
}
_QUICK = {
    "epochs": 1,
    "n_train": 48,
    "n_test": 20,
    "n_val": 16,
    "batch_size": 16,
    "n_samples": 2,
}


def trials(scale: str) -> list[Trial]:
    """The small grid, then AlexNet on all of CIFAR-10, then the published grid."""
    few_images = []
    for architecture, (epochs, methods) in SMALL_GRID.items():
        for method in methods:
            settings = {**_SMALL, "epochs": epochs, **_SMALL_SETTINGS[method]}
            few_images.append(_trial(architecture, "cifar10-subset", method, settings))
    if scale == "quick":
        return [Trial({**trial.config, **_QUICK}, seed=0) for trial in few_images[:2]]
    all_images = []
    for k in range(2):
        for method, tried in TRIED.items():
            settings = {**_BY_VALIDATION, **tried[k]}
            all_images.append(_trial("AlexNet", SHEETS, method, settings))
    published_sizes = []
    for seed in range(5):
        for architecture, data in GRID:
            for method in SETTINGS:
                settings = {**_PUBLISHED_SIZE, **SETTINGS[method]}
                published_sizes.append(_trial(architecture, data, method, settings, seed))
    return few_images + all_images + published_sizes


def _trial(architecture: str, data: str, method: str, settings: dict, seed: int = 0) -> Trial:
    """A trial with the images that are not trained on."""
    if data == SHEETS:
        ood = list(OTHER_SHEETS)
    elif data in OTHERS:
        ood = [other for other in OTHERS if other != data]
    else:
        ood = []
    config = {
        "data": data,
        "architecture": architecture,
        "method": method,
        "ood": ood,
        **settings,
    }
    return Trial(config, seed)


def table(records: Sequence[Record]) -> str:
    """What was measured of each network and data set, beside published rows; what is missing."""
    parts = []
    missing = [f"{name} on {PRINTED_AS[data]}" for name, data in GRID]
    for (name, data), group in group_by(records, "architecture", "data").items():
        if data == SHEETS:
            parts += _on_sheets(group)
            continue
        printed = PRINTED_AS.get(data)
        parts += [f"### {name} on {printed or '4,000 images of CIFAR-10'}", *measured(group)]
        if not printed:
            parts.append(_FEW.format(**group[0]["config"]))
            continue
        missing.remove(f"{name} on {printed}")
        parts += _published_rows(name, printed)
    parts.append(_MISSING.format(missing=", ".join(missing) or "none of them"))
    return "\n\n".join(parts)


def _on_sheets(records: Sequence[Record]) -> list[str]:
    """AlexNet on all of CIFAR-10: each method at its chosen setting; set-up; what was tried."""
    chosen = chosen_settings(records, SHEETS)
    first_seed = where(records, seed=min(record["seed"] for record in records))
    rows = []
    for record in first_seed:
        method = record["config"]["method"]
        metrics = record["metrics"]
        rows.append(
            {
                "method": method,
                "setting": setting_of(record),
                "validation NLL (nats)": f"{metrics['val_nll']:.4f}",
                "epochs": f"{metrics['epochs']:.0f}",
                "best epoch": f"{metrics['best_epoch']:.0f}",
                "ended by": "the rule" if metrics["no_better"] else "the limit of epochs",
                "": "chosen" if setting(record) == chosen[method] else "",
            }
        )
    n_settings = sum(map(len, TRIED.values()))
    return [
        "### AlexNet on all of CIFAR-10, stopped by validation images",
        _SHEETS_SET_UP.format(**records[0]["config"]),
        *measured(with_settings(records, SHEETS, chosen)),
        *_published_rows("AlexNet", "CIFAR10"),
        f"Settings that were tried, {len(first_seed)} of {n_settings}; those of a method are "
        "compared by the validation NLL with the first seed, and no test image has a part in it:",
        markdown.frame_table(pd.DataFrame(rows)),
    ]


def _published_rows(architecture: str, printed: str) -> list[str]:
    """The published tables of a network on a data set: quality, OOD."""
    quality = published("image_classification", {"architecture": architecture, "dataset": printed})
    detection = published(
        "ood_detection", {"architecture": architecture, "in_distribution": printed}
    )
    return ["Published:", quality, detection]


def claims(records: Sequence[Record]) -> list[Claim]:
    """Not decided before several seeds of VSD and its rivals are there."""
    n_trials = len(trials("paper"))
    n_whole = len(where(records, data=SHEETS))
    return [
        Claim(
            statement="VSD tells other colour images best (AUROC), in AlexNet and ResNet18",
            published="in all four pairs of data sets",
            ours="–",
            holds=0,
            of=0,
            condition=(
                f"{len(records)} of {n_trials} trials, {n_whole} of them on all of CIFAR-10, "
                "with one seed, the others on 4,000 images; the published sizes need a GPU"
            ),
        )
    ]


def figure(records: Sequence[Record]) -> Figure:
    """NLL, accuracy and ECE of every method in each network on each data set."""
    panels = {}
    for (name, data), group in group_by(records, "architecture", "data").items():
        if data == SHEETS:
            group = with_settings(group, SHEETS, chosen_settings(group, SHEETS))
        for label, measure in QUALITY.items():
            dots = [(record["config"]["method"], record["metrics"][measure], 0) for record in group]
            panels[f"{name}, {data}\n{label}"] = (dots, ())
    recorded = group_by(records, "method")
    methods = [method for method in (SETTINGS | TRIED) if method in recorded]
    return ours_and_published(methods, panels)


_FEW = """\
{epochs} epochs on all but {n_val} images, batches of {batch_size}, no augmentation; 7 % of the data
and few steps, KL weights not tuned, 1,000 test images: not comparable with the published rows."""
_SHEETS_SET_UP = """\
The images come from sheets of pictures, not from the official archives: 75 training and 20 test
images of CIFAR-10, nearly all of them ships, were to be had as JPEG alone and are not exact. No
augmentation. The last {n_val:,} training images are for validation. One rule for all: Adam at
{learning_rate}, in batches of {batch_size}; after each epoch the NLL of the method's own prediction
({n_draws_per_epoch} draws) on the validation images; after {patience} epochs in a row without an
improvement by 0.1 % back to the best state with a fifth of the learning rate, twice; then the best
state is kept. At most {epochs} epochs, so that all methods take a processor about twenty hours. The
weight of the KL grows from 0 over the first epoch. Predictions average {n_samples} draws of the
whole network. Each of the three test sets has 10,000 images. Those of SVHN are the first of 26,032;
areas under precision-recall curves depend on these numbers and cannot be compared with published
ones of all its images. The other measures can."""
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
