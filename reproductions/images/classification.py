"""LeNet5 on MNIST and Fashion-MNIST under every method: likelihood, calibration, other data.

Nguyen et al. (NeurIPS 2021), Tables 4 and 5, their table of out-of-distribution detection and their
histograms of predictive entropy, on the sets that can be had here. One training of a network gives
its row in all of them. Lesson 12.
"""

import itertools
import math
from collections.abc import Sequence
from statistics import median

import numpy as np
from matplotlib.figure import Figure

from bdl_lessons.core import CYCLE, DASHES
from bdl_lessons.core.plot_style import new_figure
from bdl_lessons.datasets import display_name
from bdl_lessons.datasets.records import (
    CHOSEN_ON,
    Record,
    chosen_settings,
    group_by,
    where,
    with_settings,
)
from reproductions import markdown
from reproductions.experiment import Claim, Experiment, Trial
from reproductions.images import tables, training

SHOWN = ("MAP", "D.E", "MCD", "VD", "VSD T=0", "VSD T=2")
RIVALS = ("VSD T=0", "VSD T=1", "MAP", "VD", "D.E")
"""What VSD T=2 is compared with, seed by seed."""
SCORE_NAMES = {"max softmax": "largest averaged probability", "entropy": "predictive entropy"}
OTHER = {"fashion-mnist": "mnist", "mnist": "fashion-mnist"}
_COMMON = {"architecture": "LeNet5", "n_train": 25_000, "n_val": 5000, "n_val_samples": 20}
_COMMON |= {"epochs": 80, "patience": 5, "n_draws_per_epoch": 4, "warm_up_epochs": 1}
_COMMON |= {"batch_size": 128, "learning_rate": 1e-3, "kl_weight": 1.0, "n_samples": 20}
_QUICK = {"n_train": 96, "n_test": 40, "n_val": 32, "n_val_samples": 2, "n_samples": 2}
_QUICK |= {"epochs": 2, "patience": 1, "batch_size": 32, "swag_epochs": 2}


def _grid(**values: float | tuple[float, ...]) -> list[dict]:
    """All settings with one of the values for each name, those of the last name in turn."""
    each = (value if isinstance(value, tuple) else (value,) for value in values.values())
    return [dict(zip(values, setting, strict=True)) for setting in itertools.product(*each)]


_KL_WEIGHTS, _RATES, _FASTER = (0.1, 1.0), (1e-3, 3e-3), 1e-2
_VD_AND_VSD = ("VD", "VSD T=0", "VSD T=1", "VSD T=2")
_VD_GRID = _grid(p_drop=0.1, kl_weight=(0.01, *_KL_WEIGHTS), learning_rate=_RATES)
_VD_GRID += _grid(p_drop=0.1, kl_weight=0.1, learning_rate=_FASTER)
_SLANG = {"rank": 5, "slang_epochs": 4, "slang_batch_size": 32}
GRID: dict[str, list[dict]] = {
    "MAP": _grid(prior_precision=(30.0, 100.0, 300.0), learning_rate=_RATES),
    "D.E": _grid(n_networks=5),
    "MCD": _grid(p_drop=(0.05, 0.1, 0.2, 0.3), learning_rate=_RATES)
    + _grid(p_drop=0.2, learning_rate=_FASTER),
    **dict.fromkeys(_VD_AND_VSD, _VD_GRID),
    "SWAG": _grid(swag_lr=(0.005, 0.02), swag_epochs=20),
    "BBB-LRT": _grid(prior_var=0.1, init_log_sigma2=-8.0, kl_weight=_KL_WEIGHTS),
    "BBB": _grid(prior_var=0.1, init_log_sigma2=-8.0, kl_weight=_KL_WEIGHTS),
    "ELRG": _grid(rank=5, kl_weight=_KL_WEIGHTS),
    "MNF": _grid(n_flows=2, z_mean=1.0, kl_weight=_KL_WEIGHTS),
    "VMG": _grid(n_pseudo=5, kl_weight=_KL_WEIGHTS),
    "SLANG": _grid(**_SLANG, slang_lr=(1e-4, 1e-3, 3e-3), kl_weight=0.1)
    + _grid(**_SLANG, slang_lr=1e-3, kl_weight=1.0),
}
"""The settings that are tried of each method, on the validation images of Fashion-MNIST, seed 0."""
AS_MAP = ("D.E", "SWAG", "SLANG")
"""Methods that are made of networks trained like MAP: they have its prior and learning rate."""
CHOSEN = dict.fromkeys(GRID, 0) | dict.fromkeys(_VD_AND_VSD, 3) | {"MAP": 2, "MCD": 5}
CHOSEN |= dict.fromkeys(("BBB-LRT", "BBB", "ELRG", "MNF", "SLANG"), 1)
"""Which of them has the smallest ``val_nll``; a test compares this with the records."""
SEEDS = dict.fromkeys(GRID, 3) | dict.fromkeys(SHOWN, 5)
"""How often each method starts again; most often those that the lessons compare."""


def trials(scale: str) -> list[Trial]:
    """The methods of the first half: the grid, then all seeds of the chosen setting; the others."""
    if scale == "quick":
        quick = [_config("fashion-mnist", m, settings[0]) | _QUICK for m, settings in GRID.items()]
        return [Trial(config, seed=0) for config in quick]
    found = []
    for methods in (list(GRID)[:9], list(GRID)[9:]):
        tried = [Trial(_config(CHOSEN_ON, m, setting), 0) for m in methods for setting in GRID[m]]
        used = [
            Trial(_config(data, m, GRID[m][CHOSEN[m]]), seed)
            for seed in range(max(SEEDS.values()))
            for data in (CHOSEN_ON, OTHER[CHOSEN_ON])
            for m in methods
            if seed < SEEDS[m]
        ]
        found += [*tried, *(trial for trial in used if trial not in tried)]
    return found


def _config(data: str, method: str, setting: dict) -> dict:
    ood = ["notmnist-small", OTHER[data]]
    prior = GRID["MAP"][CHOSEN["MAP"]] if method in AS_MAP else {}
    return {"data": data, "method": method, "ood": ood, **_COMMON, **prior, **setting}


def table(records: Sequence[Record]) -> str:
    """For each data set: quality, OOD detection, VSD's differences; training; what was tried."""
    picked = chosen_settings(records)
    parts, endings = [_reading(records[0]["config"])], []
    for data in _data_sets(records):
        rows = with_settings(records, data, picked)
        parts += [f"### Trained on {display_name(data)}", tables.quality(rows)]
        for other in rows[0]["config"]["ood"]:
            for score, name in SCORE_NAMES.items():
                parts += [f"{display_name(data)} against {display_name(other)}, by the {name}:"]
                parts += [tables.detections(rows, other, score)]
        parts += [_differences_of_vsd(data, rows)]
        endings += [f"{display_name(data)}:", tables.endings(rows)]
    first_seed = min(record["seed"] for record in records)
    late = [r["config"]["method"] for r in records if r["metrics"]["no_better"] < 1]
    names = sorted(set(late))
    parts += [
        "### How training ended",
        f"In {len(records) - len(late)} of {len(records)} trials every network stopped because "
        f"its validation NLL no longer improved; in the others ({markdown.listed(names)}) the "
        "epochs ran out.",
        *endings,
        "### Settings that were tried",
        f"On the {records[0]['config']['n_val']:,} validation images of {display_name(CHOSEN_ON)}, "
        "with the first seed. Both data sets then use the setting with the smallest NLL there; no "
        f"test image has a part in it. {', '.join(AS_MAP)} have the prior and the rate chosen for "
        "MAP.",
        tables.grid(where(records, data=CHOSEN_ON, seed=first_seed), picked),
        "### Published",
        _PUBLISHED,
        tables.published("ood_detection", {"architecture": "LeNet5"}),
    ]
    return "\n\n".join(parts)


def claims(records: Sequence[Record]) -> list[Claim]:
    """VSD against published rivals: NLL, and how well other images are told from the test's."""
    picked, rivals, found = chosen_settings(records), ("MAP", "BBB", "MCD", "VD"), []
    sets = {data: with_settings(records, data, picked) for data in _data_sets(records)}
    letters = "notmnist-small/entropy/auroc"
    for name, title, sign in (("nll", "NLL", -1), (letters, "AUROC against letters", 1)):
        of_sets = (tables.differences(rows, "VSD T=2", rivals, [name]) for rows in sets.values())
        gaps = [gap for of_set in of_sets for gap in of_set.values()]
        clear = [sign * gap.mean > 0 for gap in gaps if gap.is_clear]
        seeds = sorted(gap.n for gap in gaps) or [1]
        power = median([gap.least_clear for gap in gaps] or [math.inf])
        found.append(
            Claim(
                f"VSD has a better {title} than {markdown.listed(rivals)}",
                "better on other images; Tables 4 and 5, OOD table",
                f"clearly better {sum(clear)} times, clearly worse {clear.count(False)} times",
                sum(clear),
                len(gaps),
                f"LeNet5 on {' and '.join(map(display_name, sets))}, {seeds[0]} to {seeds[-1]} "
                f"seeds; in the median a difference of {power:.3f} would have been clear",
            )
        )
    return found


def figure(records: Sequence[Record]) -> Figure:
    """Distribution functions of the predictive entropy: test images beside letters, a row a set."""
    picked, sets = chosen_settings(records), _data_sets(records)
    picture = new_figure(9.0, 0.6 + 3.1 * len(sets), layout="constrained")
    axes = picture.subplots(len(sets), 2, sharex=True, sharey=True, squeeze=False)
    for row, data in zip(axes, sets, strict=True):
        groups = group_by(with_settings(records, data, picked), "method")
        for ax, name in zip(row, (data, records[0]["config"]["ood"][0]), strict=True):
            for method, color, dashes in zip(SHOWN, CYCLE, DASHES, strict=False):
                if method in groups:
                    each = [r["arrays"][f"entropy/{name}"] for r in groups[method]]
                    counts = np.sum(each, 0)
                    share = 100 * np.cumsum([0, *counts]) / counts.sum()
                    look = {"color": color, "ls": dashes, "lw": 1.6, "label": method}
                    ax.plot(training.entropy_bins(10), share, **look)
            kind = "test images" if name == data else "out of distribution"
            title = f"trained on {display_name(data)}\n{display_name(name)}, {kind}"
            ax.set_title(title, fontsize=10)
        row[0].set_ylabel("images with at most\nthis entropy (%)")
    for ax in axes[-1]:
        ax.set_xlabel("predictive entropy (nats)")
    axes[0, 0].legend(fontsize=10, loc="lower right")
    return picture


def _data_sets(records: Sequence[Record]) -> list[str]:
    found = {record["config"]["data"] for record in records}
    return [name for name in reversed(OTHER) if name in found]


def _differences_of_vsd(data: str, rows: Sequence[Record]) -> str:
    """VSD T=2 minus its rivals, seed by seed, and which of the differences are clear."""
    measures = {"NLL (nats)": ("nll", -1, 4), "accuracy (%)": ("accuracy_percent", 1, 2)}
    measures |= {"ECE": ("ece", -1, 4)} | {
        f"AUROC, {display_name(other)}, {name}": (f"{other}/{score}/auroc", 1, 3)
        for other in rows[0]["config"]["ood"]
        for score, name in SCORE_NAMES.items()
    }
    gaps = tables.differences(rows, "VSD T=2", RIVALS, [name for name, *_ in measures.values()])
    rivals = [rival for rival in RIVALS if ("nll", rival) in gaps]
    lines, better, worse = [], [], []
    for title, (name, sign, digits) in measures.items():
        lines.append([title])
        for rival in rivals:
            gap = gaps[name, rival]
            cell = f"{gap.mean:+.{digits}f} ± {gap.error:.{digits}f}"
            lines[-1].append(cell)
            if gap.is_clear:
                (better if sign * gap.mean > 0 else worse).append(f"{rival} in {title} ({cell})")
    n_clear = len(better) + len(worse)
    better, worse = ("; ".join(found) or "none of them" for found in (better, worse))
    return (
        f"VSD T=2 minus the others on {display_name(data)}, seed by seed:\n\n"
        + markdown.table(["measure", *(f"− {rival}" for rival in rivals)], lines)
        + f"\n\nOf these {len(gaps)} differences {n_clear} exclude 0 from their 95 % interval "
        f"(Student's t over seeds); of {len(gaps)} true zeros about {0.05 * len(gaps):.1f} would. "
        f"There VSD T=2 is better than: {better}. It is worse than: {worse}."
    )


def _reading(config: dict) -> str:
    seeds = SEEDS.values()
    n_fit = config["n_train"] - config["n_val"]
    return (
        "Set-up: LeNet-5 with 6, 16, 120, 84 units and ReLU (61,706 weights); which LeNet5 was "
        "used for the published rows is not known, and they are for other data. All methods train "
        f"on the first {n_fit:,} images of a training set, a part that keeps {min(seeds)} to "
        f"{max(seeds)} seeds of every method affordable; the next {config['n_val']:,} are for "
        "validation; no augmentation. One rule for all: Adam at the rate in the table, in batches "
        f"of {config['batch_size']}; after each epoch the NLL of the method's own prediction "
        f"({config['n_draws_per_epoch']} draws) on the validation images; after "
        f"{config['patience']} epochs in a row without an improvement by "
        f"{100 * training.THRESHOLD:g} % back to the best state with {training.FACTOR:g} times the "
        f"learning rate, {training.N_REDUCTIONS} times; then the best state is kept. At most "
        f"{config['epochs']} epochs. The rate, {min(_RATES):g} to {_FASTER:g}, is chosen with the "
        f"other settings in MAP, MCD, VD and VSD; it is {_COMMON['learning_rate']:g} where every "
        "weight is random. MAP has a Gaussian prior whose precision is chosen too. D.E averages "
        "such networks; SWAG goes on from one by descent with momentum and collects after every "
        "epoch; SLANG goes on from one by natural-gradient steps on batches of 32. The weight of "
        f"the KL grows from 0 over the first {config['warm_up_epochs']} epoch(s). Predictions "
        f"average {config['n_samples']} draws of the whole network. In MCD, VD and VSD the first "
        "layer, which sees the pixels, has no noise. VD and VSD count the KL for every weight and "
        "start at p = 0.1; VD has an alpha for each unit or channel, and the log-uniform prior; "
        "VSD has free vectors and its empirical-Bayes prior, and T = 0 is VSD without its "
        "rotation. BBB and SLANG draw the weights once a minibatch, the other random networks for "
        "every image; MNF starts as a plain network. NLL is that of the averaged probabilities, "
        "ECE has 15 bins, ± is one standard error over seeds (weights, minibatches and draws "
        "differ, the split does not). Areas under precision-recall curves are from counts; MNIST, "
        "Fashion-MNIST and notMNIST have 10,000 test images each."
    )


_PUBLISHED = (
    "The only published rows of LeNet5 are for networks trained on SVHN, colour photographs of "
    "house numbers, which could not be had here. Other images, so other numbers; what can be "
    "compared is the order of the methods. T of the published VSD is not known."
)
TITLE = (
    "LeNet5 on MNIST and Fashion-MNIST, and what it says of other images (Nguyen et "
    "al. 2021, Tables 4 and 5, OOD table, figure 4)"
)
EXPERIMENT = Experiment(
    "image_classification", TITLE, trials, training.measure_network, table, figure, claims
)
