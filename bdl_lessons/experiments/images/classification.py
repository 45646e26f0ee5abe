"""LeNet5 on MNIST and Fashion-MNIST under every method: likelihood, calibration, other data.

Nguyen et al. (NeurIPS 2021), Tables 4 and 5, their table of out-of-distribution detection and their
histograms of predictive entropy, on the sets that can be had here. One training of a network gives
its row in all of them. Lessons 10 and 12.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from bdl_lessons.core import CYCLE, DASHES
from bdl_lessons.core.plot_style import new_figure, style
from bdl_lessons.experiments import markdown
from bdl_lessons.experiments.experiment import Experiment, Trial, published_table
from bdl_lessons.experiments.images import tables
from bdl_lessons.experiments.images.measures import measure_network
from bdl_lessons.experiments.records import Record, group_by

CHOICE = "fashion-mnist"
"""The set on whose validation rows the settings are chosen."""
SHOWN = ("MAP", "MCD", "VD", "VSD T=2", "BBB-LRT", "D.E")
_TITLES = {
    "mnist": "MNIST",
    "fashion-mnist": "Fashion-MNIST",
    "notmnist-small": "notMNIST (letters)",
}
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


def table(records: Sequence[Record]) -> str:
    """For each data set: quality, detection of other images, entropy; then what was tried."""
    picked = tables.chosen(records, CHOICE)
    parts = [_reading(records[0]["config"])]
    for data in _data_sets(records):
        rows = tables.select(records, data, picked)
        parts += [f"### Trained on {_TITLES[data]}", tables.quality(rows)]
        ood = rows[0]["config"]["ood"]
        for other in ood:
            parts += [
                f"{_TITLES[data]} against {_TITLES[other]}, by the largest averaged probability:",
                tables.detections(rows, other, "max softmax"),
            ]
        parts += [
            "The same by predictive entropy, AUROC alone:",
            tables.by_method(rows, {f"{name}/entropy/auroc": _TITLES[name] for name in ood}),
            "Percentage of rows of each set with a predictive entropy below a fifth of log 10:",
            tables.low_entropy_share(rows),
        ]
    parts += [_vsd_against_relatives(records, picked)]
    first_seed = min(record["seed"] for record in records)
    parts += [
        "### Settings that were tried",
        f"On the last {records[0]['config']['n_val']:,} training images of {_TITLES[CHOICE]}, with "
        "the first seed. Both data sets then use the setting with the smallest NLL there; no test "
        "image has a part in it.",
        tables.grid(tables.where(records, data=CHOICE, seed=first_seed), picked),
        "### Published",
        _published(),
    ]
    return "\n\n".join(parts)


def figure(records: Sequence[Record]) -> Figure:
    """How many rows have at most a given predictive entropy: a row of curves for each data set."""
    picked = tables.chosen(records, CHOICE)
    sets = _data_sets(records)
    picture = new_figure(9.0, 0.6 + 2.5 * len(sets), layout="constrained")
    with style():
        axes = picture.subplots(len(sets), 3, sharex=True, sharey=True, squeeze=False)
        for row, data in zip(axes, sets, strict=True):
            groups = group_by(tables.select(records, data, picked), "method")
            for ax, name in zip(row, (data, *records[0]["config"]["ood"][:1], None), strict=True):
                name = name or next(iter(groups.values()))[0]["config"]["ood"][1]
                for k, method in enumerate(m for m in SHOWN if m in groups):
                    counts = sum(np.array(r["arrays"][f"entropy/{name}"]) for r in groups[method])
                    share = 100 * np.cumsum([0, *counts]) / counts.sum()
                    edges = np.linspace(0, np.log(10), len(share))
                    ax.plot(edges, share, color=CYCLE[k], ls=DASHES[k], lw=1.4, label=method)
                ax.set_title(f"{_TITLES[data]} network,\n{_TITLES[name]}", fontsize=9)
            row[0].set_ylabel("at most as uncertain (%)")
        for ax in axes[-1]:
            ax.set_xlabel("predictive entropy (nats)")
        axes[0, 1].legend(fontsize=8)
    return picture


def _data_sets(records: Sequence[Record]) -> list[str]:
    found = {record["config"]["data"] for record in records}
    return [name for name in _TITLES if name in found]


def _vsd_against_relatives(records: Sequence[Record], picked: dict[str, str]) -> str:
    """VSD T=2 against its simpler relatives, where all of them are recorded."""
    rivals = ("MAP", "MCD", "VD", "VSD T=1")
    rows = []
    for data in _data_sets(records):
        group = tables.select(records, data, picked)
        if {"VSD T=2", *rivals} <= set(group_by(group, "method")):
            rows += tables.compare(group, "VSD T=2", rivals)
    return (
        "### Where VSD stands\n\n"
        "VSD T=2 is better or worse than the others in the means above, however small the "
        "difference. AUROC is by the largest averaged probability.\n\n"
        + markdown.table(["measure", "best of all", *(f"than {rival}" for rival in rivals)], rows)
    )


def _reading(config: dict) -> str:
    return (
        "Set-up: LeNet-5 with 6, 16, 120, 84 units and ReLU (61,706 weights); which LeNet5 was "
        "used for the published rows is not known, and they are for other data. Adam, "
        f"{config['epochs']} epochs in batches of {config['batch_size']}, learning rate "
        f"{config['learning_rate']:g} falling to 0 in a straight line, all methods alike but SWAG "
        "(descent with momentum, and as many epochs again in which it collects) and SLANG (two "
        "epochs of natural-gradient steps on batches of 32 after those of MAP); no augmentation. "
        "So few epochs that plain networks have hardly begun to overfit, and noise slows learning: "
        "this favours MAP in NLL and accuracy. "
        "The weight of the KL grows from 0 over the first "
        f"{config['warm_up_epochs']} epoch(s). {config['n_val']:,} of the training images are kept "
        f"apart. Predictions average {config['n_samples']} draws of the whole network. In MCD, VD "
        "and VSD the first layer, which sees the pixels, has no noise. VD and VSD count the KL for "
        "every weight and start at p = 0.1; VD has an alpha for each unit or channel, and the "
        "log-uniform prior; VSD has free vectors. BBB draws its weights once a minibatch, all "
        "others for every image; MNF starts as a plain network. D.E averages networks trained like "
        "MAP. NLL is that of the averaged probabilities, ECE has 15 bins, ± is one standard error "
        "over seeds (weights, minibatches and draws differ, the split does not); a row without ± "
        "is one run, and small differences may be the seed's. "
        "Areas under precision-recall curves are from counts; MNIST, Fashion-MNIST and notMNIST "
        "have 10,000 test images each."
    )


def _published() -> str:
    rows = [
        [r["method"], r["out_of_distribution"], *(f"{r[name]:.2f}" for name in tables.MEASURES)]
        for r in published_table("ood_detection")
        if r["architecture"] == "LeNet5"
    ]
    return (
        "The only published rows of LeNet5 are for networks trained on SVHN, colour photographs of "
        "house numbers, which could not be had here. Other images, so other numbers; what can be "
        "compared is the order of the methods. T of the published VSD is not known.\n\n"
        + markdown.table(["method", "other images", *tables.MEASURES.values()], rows)
    )


TITLE = (
    "LeNet5 on MNIST and Fashion-MNIST, and what it says of other images (Nguyen et "
    "al. 2021, Tables 4 and 5, OOD table, figure 4)"
)
EXPERIMENT = Experiment("image_classification", TITLE, trials, measure_network, table, figure)
