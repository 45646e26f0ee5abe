"""LeNet5 on MNIST and Fashion-MNIST under every method: likelihood, calibration, other data.

Nguyen et al. (NeurIPS 2021), Tables 4 and 5, their table of out-of-distribution detection and their
histograms of predictive entropy. One training of a network gives its row in all. Lesson 13.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from statistics import mean, stdev
from typing import NamedTuple

import numpy as np
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
MEASURES = {"FPR at 95 % TPR": "fpr_at_95_tpr", "detection error": "detection_error"}
MEASURES |= {"AUROC": "auroc", "AUPR in": "aupr_in", "AUPR out": "aupr_out"}
QUALITY = {"NLL (nats)": "nll", "accuracy (%)": "accuracy_percent", "ECE": "ece"}
_DIGITS = {"nll": 4, "accuracy_percent": 2, "ece": 4, "epochs": 1, "best_epoch": 1}
_TRIED = ("prior_precision", "p_drop", "kl_weight", "prior_var", "rank", "n_pseudo", "n_flows")
_TRIED += ("n_networks", "learning_rate", "swag_lr", "swag_epochs", "slang_lr")
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


_KL_WEIGHTS = (0.1, 1.0)
_RATES = (1e-3, 3e-3)
_VD_GRID = _grid(p_drop=0.1, kl_weight=(0.01, *_KL_WEIGHTS), learning_rate=_RATES)
_VD_GRID += _grid(p_drop=0.1, kl_weight=0.1, learning_rate=1e-2)
_SLANG = {"rank": 5, "slang_epochs": 4, "slang_batch_size": 32}
GRID: dict[str, list[dict]] = {
    "MAP": _grid(prior_precision=(30.0, 100.0, 300.0), learning_rate=_RATES),
    "D.E": _grid(n_networks=5),
    "MCD": _grid(p_drop=(0.05, 0.1, 0.2, 0.3), learning_rate=_RATES)
    + _grid(p_drop=0.2, learning_rate=1e-2),
    **dict.fromkeys(("VD", "VSD T=0", "VSD T=1", "VSD T=2"), _VD_GRID),
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
SEEDS = dict.fromkeys(GRID, 3) | dict.fromkeys(SHOWN, 5)
"""How often each method starts again; most often those that the lessons compare."""


def trials(scale: str) -> list[Trial]:
    """The methods of the first half: the grid, then all seeds of the chosen setting; the others."""
    if scale == "quick":
        quick = [_config("fashion-mnist", m, settings[0]) | _QUICK for m, settings in GRID.items()]
        return [Trial(config, seed=0) for config in quick]
    planned = []
    for methods in (list(GRID)[:9], list(GRID)[9:]):
        planned += [Trial(_config(CHOSEN_ON, m, tried), 0) for m in methods for tried in GRID[m]]
        planned += [
            Trial(_config(data, m, GRID[m][CHOSEN[m]]), seed)
            for seed in range(max(SEEDS.values()))
            for data in OTHER
            for m in methods
            if seed < SEEDS[m]
        ]
    return [trial for i, trial in enumerate(planned) if trial not in planned[:i]]


def _config(data: str, method: str, setting: dict) -> dict:
    ood = ["notmnist-small", OTHER[data]]
    prior = GRID["MAP"][CHOSEN["MAP"]] if method in AS_MAP else {}
    return {"data": data, "method": method, "ood": ood, **_COMMON, **prior, **setting}


def table(records: Sequence[Record]) -> str:
    """For each data set: quality, OOD detection, VSD's differences, training; what was tried."""
    endings = {"epochs": "epochs", "best epoch": "best_epoch"}
    endings["no longer improving (% of networks)"] = lambda group: (
        f"{100 * mean(metric(group, 'no_better')):.0f}"
    )
    endings["largest gain in the last fifth of the epochs (%)"] = _latest_gain
    parts = [_SET_UP.format(**records[0]["config"])]
    for data, rows in _chosen(records).items():
        parts += [f"### Trained on {display_name(data)}", *measured(rows)]
        parts += [_differences_of_vsd(rows), "How training ended:", _by_method(rows, endings)]
    late = [r["config"]["method"] for r in records if r["metrics"]["no_better"] < 1]
    parts += [
        f"In {len(records) - len(late)} of {len(records)} trials every network stopped because "
        "its validation NLL no longer improved; in the others "
        f"({', '.join(sorted(set(late))) or 'none'}) the epochs ran out.",
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
    statements = []
    sets = _chosen(records)
    rivals = ["MAP", "BBB", "MCD", "VD", "D.E"]
    letters = "notmnist-small/entropy/auroc"
    for name, title, sign, known, printed in (
        ("nll", "NLL", -1, rivals, "39 of 40"),
        (letters, "AUROC (predictive entropy, against letters)", 1, rivals[:4], "23 of 24"),
    ):
        pairs = itertools.product(sets.values(), known)
        gaps = [gap for pair in pairs if (gap := vsd_minus(*pair, name))]
        clear = [sign * gap.mean > 0 for gap in gaps if gap.is_clear]
        seeds = sorted(gap.n for gap in gaps) or [1]
        power = sorted(gap.least_clear for gap in gaps) or [math.inf]
        statement = f"VSD has a better {title} than {', '.join(known)}"
        ours = f"clearly better {sum(clear)} times, clearly worse {clear.count(False)} times"
        condition = (
            f"LeNet5 on {' and '.join(map(display_name, sets))}, {seeds[0]} to {seeds[-1]} seeds; "
            "clear: 0 outside Student's 95 % interval over seeds, for which a difference of "
            f"{power[0]:.3f} to {power[-1]:.3f} was needed"
        )
        theirs = f"better in {printed} pairs, on other images"
        statements.append(Claim(statement, theirs, ours, sum(clear), len(gaps), condition))
    return statements


def figure(records: Sequence[Record]) -> Figure:
    """Distribution functions of the predictive entropy: test images beside letters, a row a set."""
    sets = _chosen(records)
    picture = new_figure(9.0, 0.6 + 3.1 * len(sets), layout="constrained")
    axes = picture.subplots(len(sets), 2, sharex=True, sharey=True, squeeze=False)
    edges = np.linspace(0, math.log(10), training.N_BINS + 1)
    for row, (data, rows) in zip(axes, sets.items(), strict=True):
        for ax, name in zip(row, (data, rows[0]["config"]["ood"][0]), strict=True):
            for method, color, dashes in zip(SHOWN, CYCLE, DASHES, strict=True):
                if runs := where(rows, method=method):
                    counts = np.sum([run["arrays"][f"entropy/{name}"] for run in runs], 0)
                    share = 100 * np.cumsum([0, *counts]) / counts.sum()
                    ax.plot(edges, share, color=color, ls=dashes, label=method)
            ax.set_title(f"trained on {display_name(data)}:\n{display_name(name)}")
            ax.set(xlabel="predictive entropy (nats)", ylabel="images with at most this (%)")
    axes[0, 0].legend(loc="lower right")
    return picture


def measured(records: Sequence[Record]) -> list[str]:
    """Tables of one network trained on one data set, each method at one setting: quality, OOD."""
    facts = {"setting": lambda group: setting_of(group[0]), "seeds": lambda group: str(len(group))}
    parts = [_by_method(records, facts | QUALITY)]
    for other, score in itertools.product(records[0]["config"]["ood"], SCORE_NAMES):
        names = {title: f"{other}/{score}/{name}" for title, name in MEASURES.items()}
        parts += [f"Told from {display_name(other)} by the {SCORE_NAMES[score]}:"]
        parts += [_by_method(records, names)]
    return parts


def published(name: str, wanted: Mapping[str, str]) -> str:
    """The rows of a published table that have all that is ``wanted``, without these columns."""
    rows = published_table(name)
    columns = {}
    titles = {key: title for title, key in (QUALITY | MEASURES).items()}
    for key in (key for key in rows[0] if key not in wanted):
        digits = ":.3f" if key in ("nll", "ece") else ":.2f" if key in titles else ""
        columns[titles.get(key, key.replace("_", " "))] = f"{{{key}{digits}}}"
    return markdown.table_of([row for row in rows if wanted.items() <= row.items()], columns)


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
    ours, theirs = (
        {record["seed"]: record["metrics"][name] for record in where(records, method=method)}
        for method in ("VSD T=2", rival)
    )
    gaps = [ours[seed] - theirs[seed] for seed in ours if seed in theirs]
    return Gap(mean(gaps), stdev(gaps) / len(gaps) ** 0.5, len(gaps)) if len(gaps) > 1 else None


def _chosen(records: Sequence[Record]) -> dict[str, list[Record]]:
    """The records of each data set at the chosen settings."""
    picked = chosen_settings(records)
    return {data: with_settings(records, data, picked) for data in group_by(records, "data")}


def _differences_of_vsd(rows: Sequence[Record]) -> str:
    """VSD T=2 minus its rivals, seed by seed; the clear ones are bold."""
    measures = QUALITY | {
        f"AUROC, {display_name(other)}, {score_name}": f"{other}/{score}/auroc"
        for other in rows[0]["config"]["ood"]
        for score, score_name in SCORE_NAMES.items()
    }
    lines = []
    gaps = []
    for title, name in measures.items():
        lines.append([title])
        for gap in (vsd_minus(rows, rival, name) for rival in RIVALS):
            digits = _DIGITS.get(name, 3)
            bold = "**" if gap and gap.is_clear else ""
            cell = f"{bold}{gap.mean:+.{digits}f} ± {gap.error:.{digits}f}{bold}" if gap else "–"
            lines[-1].append(cell)
            gaps += [gap] if gap else []
    return (
        f"VSD T=2 minus the others, seed by seed. Of {len(gaps)} differences the "
        f"{sum(gap.is_clear for gap in gaps)} in bold exclude 0 from their 95 % interval "
        f"(Student's t over seeds); of {len(gaps)} true zeros about {0.05 * len(gaps):.1f}:\n\n"
        + markdown.table(["measure", *(f"− {rival}" for rival in RIVALS)], lines)
    )


def _latest_gain(group: Sequence[Record]) -> str:
    """The largest part of a validation NLL, in percent, by which the last epochs improved it."""
    curves = [curve for record in group for curve in record["arrays"]["val_nll"]]
    gains = (1 - min(curve) / min(curve[: len(curve) - len(curve) // 5]) for curve in curves)
    return f"{100 * max(gains):.2f}"


def _tried(records: Sequence[Record]) -> str:
    """What was tried of each method that has more than one setting."""
    picked = chosen_settings(records)
    columns = {"method": "{config[method]}", "setting": setting_of}
    columns["validation NLL (nats)"] = "{metrics[val_nll]:.4f}"
    columns["AUROC, letters"] = "{metrics[notmnist-small/entropy/auroc]:.3f}"
    columns[""] = lambda r: "chosen" if setting(r) == picked[r["config"]["method"]] else ""
    groups = group_by(where(records, data=CHOSEN_ON, seed=0), "method").values()
    return markdown.table_of([r for group in groups if len(group) > 1 for r in group], columns)


def _by_method(
    records: Sequence[Record], columns: Mapping[str, str | Callable[[Sequence[Record]], str]]
) -> str:
    """A line for each method; ``columns``: head -> a metric, or the cell as a function."""

    def cell(group: Sequence[Record], what: str | Callable[[Sequence[Record]], str]) -> str:
        if callable(what):
            return what(group)
        return markdown.mean_and_error(metric(group, what), _DIGITS.get(what, 3))

    groups = group_by(records, "method").items()
    rows = [[method, *(cell(group, what) for what in columns.values())] for method, group in groups]
    return markdown.table(["method", *columns], rows)


def setting_of(record: Record) -> str:
    """The settings that a method was given."""
    config = record["config"]
    return ", ".join(f"{k.replace('_', ' ')} {config[k]:g}" for k in _TRIED if k in config)


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
