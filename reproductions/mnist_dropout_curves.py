"""Kingma, Salimans and Welling (2015), figure 1a: seven kinds of dropout on MNIST over the width.

Three hidden layers of ReLU units; p_drop 0.2 on the pixels and 0.5 on the hidden units, fixed or as
the start of a learned alpha for each layer. Published: test errors of 100 to 1250 units a layer,
means of five runs. The table and the figure show the longest schedule; that of 6 epochs is too
short for noise on whole units, and tells what a schedule does to the order. Lesson 07.
"""

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import nan
from statistics import mean, stdev
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from bdl_lessons import models
from bdl_lessons.core import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, RED, seeded
from bdl_lessons.core.plot_style import new_figure
from bdl_lessons.datasets.records import Record, group_by, published_table, where
from bdl_lessons.evaluation import error_percent
from bdl_lessons.probability import kingma_kl
from reproductions import markdown
from reproductions.experiment import Claim, Experiment, Trial, TrialResult
from reproductions.measure import ALL_OF_MNIST, digits, mean_weights, train_by
from reproductions.records import metric

RATES = (0.2, 0.5, 0.5, 0.5)
METHODS: dict[str, Callable[[float], models.LayerFactory]] = {
    "none": lambda p_drop: models.Deterministic(),
    "binary": models.BinaryDropout,
    "Gaussian A": partial(models.GaussianDropout, noise="A"),
    "Gaussian B": partial(models.GaussianDropout, noise="B"),
    "variational A": lambda p_drop: _variational("A", p_drop),
    "variational A2": lambda p_drop: _variational("A", p_drop, 1 / 3),
    "variational B": lambda p_drop: _variational("B", p_drop),
}
STYLES = {
    "none": {"color": GREY, "ls": ":", "marker": "x"},
    "binary": {"color": ORANGE, "ls": "--", "marker": "s"},
    "Gaussian A": {"color": RED, "ls": "--", "marker": "o"},
    "variational A": {"color": BLUE, "ls": "-", "marker": "o"},
    "variational A2": {"color": PURPLE, "ls": "-", "marker": "v"},
    "Gaussian B": {"color": GREEN, "ls": "--", "marker": "D"},
    "variational B": {"color": INK, "ls": "-", "marker": "D"},
}
"""Solid: learned noise. Dashed: fixed. Dotted: none. The order is that of the tables."""
WIDTHS = (100, 250, 500, 750)
SEEDS = 3
LONG_WIDTH, LONG_EPOCHS = 500, 60
FULL_WIDTHS, FULL_EPOCHS = (100, 250, 500), 100

_PAPER = {**ALL_OF_MNIST, "batch_size": 200, "learning_rate": 2e-3, "n_epochs": 6}
_QUICK = {**_PAPER, "n_train": 200, "n_test": 50, "batch_size": 100, "n_epochs": 1}


def trials(scale: str) -> list[Trial]:
    """The short schedule seed by seed, then the longer ones, narrow networks first."""
    if scale == "quick":
        return [_trial(_QUICK, method, 20, 0) for method in METHODS]
    grid = itertools.product(range(SEEDS), WIDTHS, METHODS)
    long, full = ({**_PAPER, "n_epochs": n_epochs} for n_epochs in (LONG_EPOCHS, FULL_EPOCHS))
    full_grid = itertools.product(FULL_WIDTHS, range(SEEDS), METHODS)
    return [
        *(_trial(_PAPER, method, width, seed) for seed, width, method in grid),
        *(_trial(long, method, LONG_WIDTH, 0) for method in METHODS),
        *(_trial(full, method, width, seed) for width, seed, method in full_grid),
    ]


def run(trial: Trial) -> TrialResult:
    """Train one network.

    Metrics: ``error`` on the test set with the mean weights, in percent, and ``train_seconds``.
    Arrays: ``alpha``, of each layer, if it is learned.
    """
    config, generator = trial.config, seeded(trial.seed)
    x, y, x_test, y_test = digits(config, lambda images: images.flatten(1))
    net = make_network(config["method"], config["width"], generator)
    began = time.perf_counter()
    arrays = train(net, x, y, config, generator)
    seconds = time.perf_counter() - began
    error = error_percent(mean_weights(net, x_test), y_test)
    return TrialResult({"error": error, "train_seconds": seconds}, arrays)


def train(
    net: models.Network, x: Tensor, y: Tensor, config: Mapping[str, Any], generator: torch.Generator
) -> dict[str, list[float]]:
    """Fit ``net`` by Adam with a rate that falls to 0 in a line; returns its ``alpha``, if learned.

    Fixed noise has no KL.
    """
    n_steps = config["n_epochs"] * (len(x) // config["batch_size"])
    is_learned = config["method"].startswith("variational")
    how = {"kl_weight": float(is_learned), "schedule": lambda step: 1 - step / n_steps}
    train_by(config, net, x, y, generator, n_steps, **how)
    noisy = [layer for layer in net if hasattr(layer, "noise")]
    return {"alpha": [layer.alpha.item() for layer in noisy]} if is_learned else {}


def make_network(method: str, width: int, generator: torch.Generator) -> models.Network:
    """784 - width - width - width - 10, noise on the inputs of every layer."""
    net = models.mlp((784, width, width, width, 10), [METHODS[method](p_drop) for p_drop in RATES])
    return models.initialise(net.to(generator.device), generator)


def table(records: Sequence[Record]) -> str:
    """Errors beside the published ones and learned alphas, after the longest schedule."""
    *shorter, (n_epochs, trained) = by_epochs(records).items()
    orders = [f"After {fewer} epochs it was {_told(_order(group))}." for fewer, group in shorter]
    return "\n\n".join(
        [
            f"After {n_epochs} epochs: test error in percent with the mean weights, mean ± "
            "standard error over seeds (their number in brackets); published values, means of "
            "five runs, in italics.",
            error_table(trained, "{width} units", 2, _in_italics),
            f"Pairs of methods in the published order: {_told(_order(trained))}. "
            + " ".join(orders),
            alphas(trained, "units"),
            _differences(records[0]["config"], n_epochs),
        ]
    )


def claims(records: Sequence[Record]) -> list[Claim]:
    """Learned against fixed noise on units, and the order of all, by the longest schedule."""
    records = [*by_epochs(records).values()][-1]
    printed, gaps, theirs = _published(), [], []
    for width, method in itertools.product(WIDTHS, ("variational A", "variational A2")):
        learned, fixed = (errors(records, m, width) for m in (method, "Gaussian A"))
        if min(len(learned), len(fixed)) > 1:
            gaps.append(mean_gap(learned, fixed))
            theirs.append(printed[method][str(width)] - printed["Gaussian A"][str(width)])
    places = _order(records)
    agree, pairs = (sum(counts[i] for counts in places.values()) for i in (0, 1))
    how = f"MNIST, {records[0]['config']['n_epochs']} epochs, no stopping on validation data"
    return [
        Claim(
            "Learned Gaussian dropout (A, A2) has a lower test error than the same noise at the "
            "fixed rate ½",
            f"{', '.join(f'{gap:+.2f}' for gap in theirs)} points",
            f"{', '.join(f'{gap:+.2f} ± {error:.2f}' for gap, error in gaps)} points",
            sum(gap < -2 * error for gap, error in gaps),
            len(gaps),
            f"{how}; figure 1a; A and A2 at each width with several seeds, clear by two standard "
            "errors",
        ),
        Claim(
            f"The order of the seven methods with {', '.join(map(str, places))} units",
            f"{pairs} pairs",
            f"{agree} of them in that order",
            agree,
            pairs,
            f"{how}; figure 1a",
        ),
    ]


def mean_gap(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float]:
    """Difference of the means of two independent samples, and its standard error."""
    error = sum(stdev(part) ** 2 / len(part) for part in (ours, theirs)) ** 0.5
    return mean(ours) - mean(theirs), error


def figure(records: Sequence[Record]) -> Figure:
    """Left ours after the longest schedule, right the published curves."""
    n_epochs, trained = [*by_epochs(records).items()][-1]
    picture = new_figure(10.0, 4.0, layout="constrained")
    left, right = picture.subplots(1, 2)
    draw_errors(left, trained, lambda width, k: width + 5 * (k - 3))
    left.set_title(f"Ours, {n_epochs} epochs")
    for method, row in _published().items():
        widths = [int(width) for width in row]
        right.plot(widths, row.values(), ms=4, lw=1.4, label=method, **STYLES[method])
    right.set_title("Published")
    right.legend(fontsize=8, ncols=2)
    for axes, ticks in ((left, sorted(group_by(trained, "width"))), (right, widths)):
        axes.set(xlabel="units in each of three hidden layers", ylabel="MNIST test error [%]")
        axes.set_xticks(ticks)
    return picture


def by_epochs(records: Sequence[Record]) -> dict[int, list[Record]]:
    """The trained networks by the length of their schedule, the shortest first."""
    return dict(sorted(group_by(records, "n_epochs").items()))


def by_method(trained: Sequence[Record]) -> dict[str, list[Record]]:
    """The records of each method, in the order of ``STYLES``."""
    found = group_by(trained, "method")
    return {method: found[method] for method in STYLES if method in found}


def errors(trained: Sequence[Record], method: str, width: float) -> list[float]:
    """Test errors of all seeds, in percent."""
    return metric(where(trained, method=method, width=width), "error")


def error_table(
    trained: Sequence[Record], head: str, digits: int, after: Callable[[str, float], str]
) -> str:
    """A line for each method, a column for each width: the error, mean ± standard error (seeds).

    Args:
        head: format of the head of a column, of ``width``.
        after: method and width -> what follows in the cell.
    """
    widths = sorted(group_by(trained, "width"))

    def cell(method: str, width: float) -> str:
        found = errors(trained, method, width)
        ours = f"{markdown.mean_and_error(found, digits)} ({len(found)})" if found else "–"
        return ours + after(method, width)

    lines = [[method, *(cell(method, width) for width in widths)] for method in by_method(trained)]
    return markdown.table(["method", *(head.format(width=width) for width in widths)], lines)


def alphas(trained: Sequence[Record], width_name: str) -> str:
    """A table of the learned alphas, means over seeds; ``width_name`` heads their column."""
    lines = []
    for method, learned in by_method([r for r in trained if "alpha" in r["arrays"]]).items():
        for width, group in sorted(group_by(learned, "width").items()):
            of_layers = zip(*(record["arrays"]["alpha"] for record in group), strict=True)
            lines.append([method, str(width), *(f"{mean(alpha):.2f}" for alpha in of_layers)])
    if not lines:
        return "No method with a learned alpha is recorded yet."
    layers = [f"layer {i}" for i in range(1, len(lines[0]) - 1)]
    return (
        "Learned α of the inputs of each layer (start: 0.25 on the pixels, 1, the bound, on the "
        "hidden units), means over seeds:\n\n"
        + markdown.table(["method", width_name, *layers], lines)
    )


def draw_errors(
    axes: Axes, trained: Sequence[Record], place: Callable[[float, int], float]
) -> None:
    """Mean error of every method over the width; bars are standard errors over seeds.

    Args:
        place: width and number of the method -> where on the axis, side by side to see the bars.
    """
    for k, (method, group) in enumerate(by_method(trained).items()):
        widths = sorted(group_by(group, "width"))
        runs = [errors(group, method, width) for width in widths]
        bars = [stdev(run) / len(run) ** 0.5 if len(run) > 1 else nan for run in runs]
        places = [place(width, k) for width in widths]
        look = {"capsize": 2, "ms": 4, "lw": 1.4, "label": method, **STYLES[method]}
        axes.errorbar(places, [*map(mean, runs)], bars, **look)


def _published() -> dict[str, dict[str, Any]]:
    """Method -> width, as text, -> printed error in percent."""
    return {row.pop("method"): row for row in published_table("mnist_dropout_curves")}


def _in_italics(method: str, width: float) -> str:
    value = _published()[method].get(str(width))
    return "" if value is None else f", *{value:.2f}*"


def _order(trained: Sequence[Record]) -> dict[float, tuple[int, int]]:
    """For each width how many pairs of methods stand in the published order, and of how many."""
    found = {}
    for width in sorted(group_by(trained, "width")):
        theirs = {m: row[str(width)] for m, row in _published().items() if str(width) in row}
        ours = {m: mean(runs) for m in theirs if (runs := errors(trained, m, width))}
        if pairs := [*itertools.combinations(ours, 2)]:
            agree = sum((ours[a] < ours[b]) == (theirs[a] < theirs[b]) for a, b in pairs)
            found[width] = agree, len(pairs)
    return found


def _told(order: Mapping[float, tuple[int, int]]) -> str:
    return ", ".join(f"{agree} of {of} with {width} units" for width, (agree, of) in order.items())


def _differences(config: Mapping[str, Any], n_epochs: int) -> str:
    spread = 100 * (0.015 * 0.985 / config["n_test"]) ** 0.5
    return f"""\
Set-up that differs from the published one: {n_epochs} epochs of {config["n_train"]:,} images and no
validation set, where the paper trained until a validation error stopped falling; Adam with
{config["batch_size"]} images a step and a learning rate that falls in a line from
{config["learning_rate"]:g} to 0, where the paper averaged the weights over time; up to 3 seeds, not
5 runs; fewer widths. Much shorter schedules do not train the networks under fixed noise to the end.
An error of 1.5 % on {config["n_test"]:,} test images is uncertain by {spread:.2f} in itself; the
methods share the images, so their differences are less so.
The divergence is the paper's cubic, with α at most 1 and one α a layer. It is counted once for each
random factor (each unit under A, each weight under B); what the paper counted under A we do not
know. The published values are read off the figure of the preprint, to about 0.01."""


def _variational(noise: str, p_drop: float, kl_scale: float = 1.0) -> models.VariationalDropout:
    return models.VariationalDropout(noise, init_p_drop=p_drop, kl=kingma_kl, kl_scale=kl_scale)


def _trial(config: dict, method: str, width: int, seed: int) -> Trial:
    return Trial({"measure": "error", "method": method, "width": width, **config}, seed)


TITLE = "Kinds of dropout over the width (Kingma, Salimans and Welling 2015, figure 1a)"
EXPERIMENT = Experiment("mnist_dropout_curves", TITLE, trials, run, table, figure, claims)
