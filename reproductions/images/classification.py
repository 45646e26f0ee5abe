"""LeNet5 on MNIST and Fashion-MNIST under every method: likelihood, calibration, other data.

Nguyen et al. (NeurIPS 2021), Tables 4 and 5, their table of out-of-distribution detection and their
histograms of predictive entropy. One training of a network gives its row in all. Lesson 13.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from statistics import mean, stdev
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import stats

from bdl_lessons.core import CYCLE, DASHES
from bdl_lessons.core.plot_style import new_figure
from bdl_lessons.datasets import display_name
from bdl_lessons.datasets.records import (
    CHOSEN_ON,
    Record,
    chosen_settings,
    group_by,
    published_table,
    setting,
    where,
    with_settings,
)
from reproductions import markdown
from reproductions.experiment import Claim, Experiment, Trial
from reproductions.images import training
from reproductions.records import metric

SHOWN = ("MAP", "D.E", "MCD", "VD", "VSD T=0", "VSD T=2")
RIVALS = ("VSD T=0", "VSD T=1", "MAP", "VD", "D.E")
"""What VSD T=2 is compared with, seed by seed."""
SCORE_NAMES = {"max softmax": "largest averaged probability", "entropy": "predictive entropy"}
MEASURES = {
    "FPR at 95 % TPR": "fpr_at_95_tpr",
    "detection error": "detection_error",
    "AUROC": "auroc",
    "AUPR in": "aupr_in",
    "AUPR out": "aupr_out",
}
QUALITY = {
    "NLL (nats)": "nll",
    "accuracy (%)": "accuracy_percent",
    "ECE": "ece",
}
"""Heads of the tables -> metrics."""
_DIGITS = {
    "nll": 4,
    "accuracy_percent": 2,
    "ece": 4,
    "epochs": 1,
    "best_epoch": 1,
}
"""Of a metric in a table; the others have 3."""
_TRIED = (
    "prior_precision",
    "p_drop",
    "kl_weight",
    "prior_var",
    "rank",
    "n_pseudo",
    "n_flows",
    "n_networks",
    "learning_rate",
    "swag_lr",
    "swag_epochs",
    "slang_lr",
)
"""Entries of a configuration that the tables show as the setting of a method."""
OTHER = {"fashion-mnist": "mnist", "mnist": "fashion-mnist"}
_COMMON = {
    "architecture": "LeNet5",
    "n_train": 25_000,
    "n_val": 5000,
    "n_val_samples": 20,
    "epochs": 80,
    "patience": 5,
    "n_draws_per_epoch": 4,
    "warm_up_epochs": 1,
    "batch_size": 128,
    "learning_rate": 1e-3,
    "kl_weight": 1.0,
    "n_samples": 20,
}
_QUICK = {
    "n_train": 96,
    "n_test": 40,
    "n_val": 32,
    "n_val_samples": 2,
    "n_samples": 2,
    "epochs": 2,
    "patience": 1,
    "batch_size": 32,
    "swag_epochs": 2,
}


def _grid(**values: float | tuple[float, ...]) -> list[dict]:
    """All settings with one of the values for each name, those of the last name in turn.

    >>> _grid(rank=5, kl_weight=(0.1, 1.0))
    [{'rank': 5, 'kl_weight': 0.1}, {'rank': 5, 'kl_weight': 1.0}]
    """
    choices = [value if isinstance(value, tuple) else (value,) for value in values.values()]
    return [dict(zip(values, chosen, strict=True)) for chosen in itertools.product(*choices)]


_KL_WEIGHTS = (0.1, 1.0)
_LEARNING_RATES = (1e-3, 3e-3)
_VD_GRID = [
    *_grid(p_drop=0.1, kl_weight=(0.01, 0.1, 1.0), learning_rate=_LEARNING_RATES),
    *_grid(p_drop=0.1, kl_weight=0.1, learning_rate=1e-2),
]
_BBB_GRID = _grid(prior_var=0.1, init_log_sigma2=-8.0, kl_weight=_KL_WEIGHTS)
GRID: dict[str, list[dict]] = {
    "MAP": _grid(prior_precision=(30.0, 100.0, 300.0), learning_rate=_LEARNING_RATES),
    "D.E": _grid(n_networks=5),
    "MCD": [
        *_grid(p_drop=(0.05, 0.1, 0.2, 0.3), learning_rate=_LEARNING_RATES),
        *_grid(p_drop=0.2, learning_rate=1e-2),
    ],
    "VD": _VD_GRID,
    "VSD T=0": _VD_GRID,
    "VSD T=1": _VD_GRID,
    "VSD T=2": _VD_GRID,
    "SWAG": _grid(swag_lr=(0.005, 0.02), swag_epochs=20),
    "BBB-LRT": _BBB_GRID,
    "BBB": _BBB_GRID,
    "ELRG": _grid(rank=5, kl_weight=_KL_WEIGHTS),
    "MNF": _grid(n_flows=2, z_mean=1.0, kl_weight=_KL_WEIGHTS),
    "VMG": _grid(n_pseudo=5, kl_weight=_KL_WEIGHTS),
    "SLANG": [
        *_grid(
            rank=5,
            slang_epochs=4,
            slang_batch_size=32,
            slang_lr=(1e-4, 1e-3, 3e-3),
            kl_weight=0.1,
        ),
        *_grid(rank=5, slang_epochs=4, slang_batch_size=32, slang_lr=1e-3, kl_weight=1.0),
    ],
}
"""The settings that are tried of each method, on the validation images of Fashion-MNIST, seed 0."""
AS_MAP = ("D.E", "SWAG", "SLANG")
"""Methods that are made of networks trained like MAP: they have its prior and learning rate."""
CHOSEN = {
    "MAP": 2,
    "D.E": 0,
    "MCD": 5,
    "VD": 3,
    "VSD T=0": 3,
    "VSD T=1": 3,
    "VSD T=2": 3,
    "SWAG": 0,
    "BBB-LRT": 1,
    "BBB": 1,
    "ELRG": 1,
    "MNF": 1,
    "VMG": 0,
    "SLANG": 1,
}
"""Which of them has the smallest ``val_nll``; a test compares this with the records."""
SEEDS = {method: 5 if method in SHOWN else 3 for method in GRID}
"""How often each method starts again; most often those that the lessons compare."""


def trials(scale: str) -> list[Trial]:
    """The methods of the first half: the grid, then all seeds of the chosen setting; the others."""
    if scale == "quick":
        return [
            Trial({**_config("fashion-mnist", method, settings[0]), **_QUICK}, seed=0)
            for method, settings in GRID.items()
        ]
    names = list(GRID)
    planned = []
    for methods in (names[:9], names[9:]):
        for method in methods:
            for tried in GRID[method]:
                planned.append(Trial(_config(CHOSEN_ON, method, tried), seed=0))
        for seed in range(max(SEEDS.values())):
            for data in OTHER:
                for method in methods:
                    if seed < SEEDS[method]:
                        chosen = GRID[method][CHOSEN[method]]
                        planned.append(Trial(_config(data, method, chosen), seed))
    return [trial for i, trial in enumerate(planned) if trial not in planned[:i]]


def _config(data: str, method: str, setting: dict) -> dict:
    """The configuration of a trial; methods made of MAP's networks have its setting too."""
    config = {
        "data": data,
        "method": method,
        "ood": ["notmnist-small", OTHER[data]],
        **_COMMON,
    }
    if method in AS_MAP:
        config.update(GRID["MAP"][CHOSEN["MAP"]])
    config.update(setting)
    return config


def table(records: Sequence[Record]) -> str:
    """For each data set: quality, OOD detection, VSD's differences, training; what was tried."""
    parts = [_SET_UP.format(**records[0]["config"])]
    for data, rows in _chosen(records).items():
        parts += [
            f"### Trained on {display_name(data)}",
            *measured(rows),
            _differences_of_vsd(rows),
            "How training ended:",
            _endings(rows),
        ]
    unfinished = [
        record["config"]["method"] for record in records if record["metrics"]["no_better"] < 1
    ]
    n_stopped = len(records) - len(unfinished)
    parts += [
        f"In {n_stopped} of {len(records)} trials every network stopped because "
        "its validation NLL no longer improved; in the others "
        f"({', '.join(sorted(set(unfinished))) or 'none'}) the epochs ran out.",
        "### Settings that were tried",
        f"On the validation images of {display_name(CHOSEN_ON)}, with the first seed; no test "
        "image has a part in it. The one with the smallest NLL is used on both data sets.",
        _tried(records),
        "### Published",
        "LeNet5 was published only for SVHN, photographs of house numbers, which could not be had "
        "here: what can be compared is the order of the methods. T of that VSD is not known.",
        published("ood_detection", {"architecture": "LeNet5"}),
    ]
    return "\n\n".join(parts)


def claims(records: Sequence[Record]) -> list[Claim]:
    """VSD against published rivals: NLL, and how well other images are told from the test's."""
    return [
        _comparison(
            records,
            metric_name="nll",
            title="NLL",
            sign=-1,
            rivals=("MAP", "BBB", "MCD", "VD", "D.E"),
            published="39 of 40",
        ),
        _comparison(
            records,
            metric_name="notmnist-small/entropy/auroc",
            title="AUROC (predictive entropy, against letters)",
            sign=1,
            rivals=("MAP", "BBB", "MCD", "VD"),
            published="23 of 24",
        ),
    ]


def _comparison(
    records: Sequence[Record],
    metric_name: str,
    title: str,
    sign: int,
    rivals: Sequence[str],
    published: str,
) -> Claim:
    """Whether a metric of VSD is clearly better; ``sign`` is 1 where larger is better, else -1."""
    sets = _chosen(records)
    gaps = []
    for rows, rival in itertools.product(sets.values(), rivals):
        if gap := vsd_minus(rows, rival, metric_name):
            gaps.append(gap)
    clear = [gap for gap in gaps if gap.is_clear]
    n_better = sum(sign * gap.mean > 0 for gap in clear)
    n_worse = len(clear) - n_better
    n_seeds = [gap.n for gap in gaps] or [1]
    needed = [gap.least_clear for gap in gaps] or [math.inf]
    return Claim(
        statement=f"VSD has a better {title} than {', '.join(rivals)}",
        published=f"better in {published} pairs, on other images",
        ours=f"clearly better {n_better} times, clearly worse {n_worse} times",
        holds=n_better,
        of=len(gaps),
        condition=(
            f"LeNet5 on {' and '.join(map(display_name, sets))}, {min(n_seeds)} to {max(n_seeds)} "
            "seeds; clear: 0 outside Student's 95 % interval over seeds, for which a difference of "
            f"{min(needed):.3f} to {max(needed):.3f} was needed"
        ),
    )


def figure(records: Sequence[Record]) -> Figure:
    """Distribution functions of the predictive entropy: test images beside letters, a row a set."""
    sets = _chosen(records)
    picture = new_figure(9.0, 0.6 + 3.1 * len(sets), layout="constrained")
    axes = picture.subplots(len(sets), 2, sharex=True, sharey=True, squeeze=False)
    edges = np.linspace(0, math.log(10), training.N_BINS + 1)
    for row, (data, records_of_set) in zip(axes, sets.items(), strict=True):
        letters = records_of_set[0]["config"]["ood"][0]
        for ax, images in zip(row, (data, letters), strict=True):
            for method, color, dashes in zip(SHOWN, CYCLE, DASHES, strict=True):
                if runs := where(records_of_set, method=method):
                    counts = np.sum([run["arrays"][f"entropy/{images}"] for run in runs], axis=0)
                    percent = 100 * np.cumsum([0, *counts]) / counts.sum()
                    ax.plot(edges, percent, color=color, ls=dashes, label=method)
            ax.set_title(f"trained on {display_name(data)}:\n{display_name(images)}")
            ax.set(xlabel="predictive entropy (nats)", ylabel="images with at most this (%)")
    axes[0, 0].legend(loc="lower right")
    return picture


def measured(records: Sequence[Record]) -> list[str]:
    """Tables of one network trained on one data set, each method at one setting: quality, OOD."""
    quality = []
    for method, group in group_by(records, "method").items():
        row = {"method": method, "setting": setting_of(group[0]), "seeds": len(group)}
        quality.append({**row, **_metric_cells(group, QUALITY)})
    parts = [markdown.frame_table(pd.DataFrame(quality))]
    for other, score in itertools.product(records[0]["config"]["ood"], SCORE_NAMES):
        names = {title: f"{other}/{score}/{name}" for title, name in MEASURES.items()}
        detection = []
        for method, group in group_by(records, "method").items():
            detection.append({"method": method, **_metric_cells(group, names)})
        parts.append(f"Told from {display_name(other)} by the {SCORE_NAMES[score]}:")
        parts.append(markdown.frame_table(pd.DataFrame(detection)))
    return parts


def _metric_cells(group: Sequence[Record], names: Mapping[str, str]) -> dict[str, str]:
    """Mean and standard error of metrics over the seeds of a method, by the heads of ``names``."""
    cells = {}
    for title, name in names.items():
        cells[title] = markdown.mean_and_error(metric(group, name), _DIGITS.get(name, 3))
    return cells


def published(name: str, wanted: Mapping[str, str]) -> str:
    """The rows of a published table that have all that is ``wanted``, without these columns."""
    titles = {key: title for title, key in (QUALITY | MEASURES).items()}
    rows = pd.DataFrame(published_table(name))
    for column, value in wanted.items():
        rows = rows[rows[column] == value]
    shown = pd.DataFrame()
    for column in rows.columns.drop(list(wanted)):
        if column in ("nll", "ece"):
            shown[titles[column]] = rows[column].map("{:.3f}".format)
        elif column in titles:
            shown[titles[column]] = rows[column].map("{:.2f}".format)
        else:
            shown[column.replace("_", " ")] = rows[column]
    return markdown.frame_table(shown)


class Gap(NamedTuple):
    """Mean of a difference over ``n`` seeds, and its standard error."""

    mean: float
    error: float
    n: int

    @property
    def least_clear(self) -> float:
        """Half of the 95 % interval of Student's t: the smallest difference that would be clear."""
        return stats.t.ppf(0.975, self.n - 1) * self.error

    @property
    def is_clear(self) -> bool:
        return abs(self.mean) > self.least_clear


def vsd_minus(records: Sequence[Record], rival: str, name: str) -> Gap | None:
    """A metric of VSD T=2 minus that of a rival, seed by seed; ``None`` below two common seeds."""
    ours = _by_seed(where(records, method="VSD T=2"), name)
    theirs = _by_seed(where(records, method=rival), name)
    gaps = [ours[seed] - theirs[seed] for seed in ours if seed in theirs]
    if len(gaps) < 2:
        return None
    return Gap(mean=mean(gaps), error=stdev(gaps) / len(gaps) ** 0.5, n=len(gaps))


def _by_seed(records: Sequence[Record], name: str) -> dict[int, float]:
    """A metric of each seed."""
    return {record["seed"]: record["metrics"][name] for record in records}


def _chosen(records: Sequence[Record]) -> dict[str, list[Record]]:
    """The records of each data set at the chosen settings."""
    settings = chosen_settings(records)
    return {data: with_settings(records, data, settings) for data in group_by(records, "data")}


def _differences_of_vsd(rows: Sequence[Record]) -> str:
    """VSD T=2 minus its rivals, seed by seed; the clear ones are bold."""
    names = dict(QUALITY)
    for other in rows[0]["config"]["ood"]:
        for score, score_name in SCORE_NAMES.items():
            names[f"AUROC, {display_name(other)}, {score_name}"] = f"{other}/{score}/auroc"
    lines = []
    n_gaps = 0
    n_clear = 0
    for title, name in names.items():
        line = [title]
        for rival in RIVALS:
            gap = vsd_minus(rows, rival, name)
            line.append(_gap_cell(gap, _DIGITS.get(name, 3)))
            if gap:
                n_gaps += 1
                n_clear += gap.is_clear
        lines.append(line)
    return (
        f"VSD T=2 minus the others, seed by seed. Of {n_gaps} differences the "
        f"{n_clear} in bold exclude 0 from their 95 % interval "
        f"(Student's t over seeds); of {n_gaps} true zeros about {0.05 * n_gaps:.1f}:\n\n"
        + markdown.table(["measure", *(f"− {rival}" for rival in RIVALS)], lines)
    )


def _gap_cell(gap: Gap | None, digits: int) -> str:
    """A difference and its standard error, bold where it is clear."""
    if gap is None:
        return "–"
    text = f"{gap.mean:+.{digits}f} ± {gap.error:.{digits}f}"
    return f"**{text}**" if gap.is_clear else text


def _endings(records: Sequence[Record]) -> str:
    """A table: after how many epochs the networks of each method stopped, and why."""
    rows = []
    for method, group in group_by(records, "method").items():
        percent_no_better = 100 * mean(metric(group, "no_better"))
        rows.append(
            {
                "method": method,
                "epochs": markdown.mean_and_error(metric(group, "epochs"), digits=1),
                "best epoch": markdown.mean_and_error(metric(group, "best_epoch"), digits=1),
                "no longer improving (% of networks)": f"{percent_no_better:.0f}",
                "largest gain in the last fifth of the epochs (%)": f"{_latest_gain(group):.2f}",
            }
        )
    return markdown.frame_table(pd.DataFrame(rows))


def _latest_gain(group: Sequence[Record]) -> float:
    """The largest part of a validation NLL, in percent, by which the last epochs improved it."""
    gains = []
    for record in group:
        for curve in record["arrays"]["val_nll"]:
            n_last = len(curve) // 5
            best_before = min(curve[: len(curve) - n_last])
            gains.append(1 - min(curve) / best_before)
    return 100 * max(gains)


def _tried(records: Sequence[Record]) -> str:
    """What was tried of each method that has more than one setting."""
    settings = chosen_settings(records)
    rows = []
    for method, group in group_by(where(records, data=CHOSEN_ON, seed=0), "method").items():
        if len(group) == 1:
            continue
        for record in group:
            metrics = record["metrics"]
            rows.append(
                {
                    "method": method,
                    "setting": setting_of(record),
                    "validation NLL (nats)": f"{metrics['val_nll']:.4f}",
                    "AUROC, letters": f"{metrics['notmnist-small/entropy/auroc']:.3f}",
                    "": "chosen" if setting(record) == settings[method] else "",
                }
            )
    return markdown.frame_table(pd.DataFrame(rows))


def setting_of(record: Record) -> str:
    """The settings that a method was given."""
    config = record["config"]
    settings = []
    for name in _TRIED:
        if name in config:
            settings.append(f"{name.replace('_', ' ')} {config[name]:g}")
    return ", ".join(settings)


_SET_UP = """\
LeNet-5 with 6, 16, 120, 84 units and ReLU (61,706 weights); which LeNet5 the published rows are for
is not known. All methods train on the first 20,000 images of a training set, a part that keeps
several seeds affordable; the next {n_val:,} are for validation; no augmentation. One rule for all:
Adam, in batches of {batch_size}; after each epoch the NLL of the method's own prediction
({n_draws_per_epoch} draws) on the validation images; after {patience} epochs in a row without an
improvement by 0.1 % back to the best state with a fifth of the learning rate, twice; then the best
state is kept. At most {epochs} epochs. The rate is chosen with the other settings in MAP, MCD, VD
and VSD; it is 0.001 where every weight is random. MAP has a Gaussian prior whose precision is
chosen too. D.E averages MAP's networks; SWAG goes on from one by descent with momentum, SLANG by
natural-gradient steps on batches of 32. The weight of the KL grows from 0 over the first epoch.
Predictions average {n_samples} draws of the whole network. In MCD, VD and VSD the first layer, on
the pixels, has no noise. VD and VSD count the KL for every weight and start at p = 0.1; VD has an
alpha for each unit or channel and the log-uniform prior, VSD free vectors and its empirical-Bayes
prior; T = 0 is without its rotation. BBB and SLANG draw the weights once a minibatch, the others
for every image; MNF starts as a plain network. NLL is that of the averaged probabilities, ECE has
15 bins, ± is one standard error over seeds (weights, minibatches and draws differ, the split does
not). Areas under precision-recall curves are from counts; each set has 10,000 test images."""
TITLE = (
    "LeNet5 on MNIST and Fashion-MNIST, and what it says of other images (Nguyen et "
    "al. 2021, Tables 4 and 5, OOD table, figure 4)"
)
EXPERIMENT = Experiment(
    "image_classification", TITLE, trials, training.measure_network, table, figure, claims
)
