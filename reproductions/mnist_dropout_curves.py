"""Kingma, Salimans and Welling (2015), figure 1a: seven kinds of dropout on MNIST over the width.

Three hidden layers of ReLU units; p_drop 0.2 on the pixels and 0.5 on the hidden units, fixed or as
the start of a learned alpha for each layer. Table and figure show the longest schedule; the others
tell what a schedule does to the order of the methods. Lesson 07.
"""

import itertools
from collections.abc import Mapping, Sequence
from functools import partial
from statistics import mean, stdev
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from bdl_lessons import models
from bdl_lessons.core import CYCLE, GREY, seeded
from bdl_lessons.core.plot_style import new_figure
from bdl_lessons.datasets.records import Record, group_by, published_table, where
from bdl_lessons.evaluation import error_percent
from bdl_lessons.probability import kingma_kl
from reproductions import markdown
from reproductions.experiment import Claim, Experiment, Trial, TrialResult
from reproductions.measure import ALL_OF_MNIST, digits, mean_weights, train_by
from reproductions.records import longest, metric

RATES = (0.2, 0.5, 0.5, 0.5)
METHODS: dict[str, models.Method] = {
    "none": models.Deterministic,
    "binary": models.BinaryDropout,
    "Gaussian A": models.GaussianDropout,
    "Gaussian B": models.GaussianDropoutB,
    "variational A": partial(models.VariationalDropout, kl=kingma_kl),
    "variational A2": partial(models.VariationalDropout, kl=kingma_kl, kl_scale=1 / 3),
    "variational B": partial(models.VariationalDropoutB, kl=kingma_kl),
}
WIDTHS = (100, 250, 500, 750)
FULL_WIDTHS = (100, 250, 500)
SEEDS = 3

_PAPER = {**ALL_OF_MNIST, "measure": "error", "batch_size": 200, "learning_rate": 2e-3}
_QUICK = {**_PAPER, "n_train": 200, "n_test": 50, "batch_size": 100, "n_epochs": 1, "width": 20}


def trials(scale: str) -> list[Trial]:
    """The short schedule seed by seed, then the longer ones, narrow networks first."""
    if scale == "quick":
        return [Trial({**_QUICK, "method": method}, 0) for method in METHODS]
    short = [(6, width, seed) for seed in range(SEEDS) for width in WIDTHS]
    full = [(100, width, seed) for width in FULL_WIDTHS for seed in range(SEEDS)]
    return [
        Trial({**_PAPER, "n_epochs": n_epochs, "width": width, "method": method}, seed)
        for n_epochs, width, seed in [*short, (60, 500, 0), *full]
        for method in METHODS
    ]


def run(trial: Trial) -> TrialResult:
    """Train one network: its ``error`` with the mean weights, in percent, and learned ``alpha``."""
    config = trial.config
    generator = seeded(trial.seed)
    x, y, x_test, y_test = digits(config, lambda images: images.flatten(1))
    net = make_network(config["method"], config["width"], generator)
    arrays = train(net, x, y, config, generator)
    return TrialResult({"error": error_percent(mean_weights(net, x_test), y_test)}, arrays)


def train(
    net: models.Network, x: Tensor, y: Tensor, config: Mapping[str, Any], generator: torch.Generator
) -> dict[str, list[float]]:
    """Fit ``net`` by Adam at a rate that falls to 0 in a line; returns its learned ``alpha``."""
    n_steps = config["n_epochs"] * (len(x) // config["batch_size"])
    is_learned = config["method"].startswith("variational")
    train_by(
        config,
        net,
        x,
        y,
        generator,
        n_steps,
        kl_weight=float(is_learned),
        schedule=lambda step: 1 - step / n_steps,
    )
    if not is_learned:
        return {}
    layers = [module for module in net if isinstance(module, models.StochasticLayer)]
    return {"alpha": [layer.alpha.item() for layer in layers]}


def at_rate(method: str, p_drop: float) -> models.Method:
    """What makes layers with the noise of a rate, fixed or as the start of what is learned."""
    if method == "none":
        return METHODS[method]
    if method.startswith("variational"):
        return partial(METHODS[method], init_p_drop=p_drop)
    return partial(METHODS[method], p_drop=p_drop)


def make_network(method: str, width: int, generator: torch.Generator) -> models.Network:
    """Three hidden layers, noise on the inputs of every layer."""
    methods = [at_rate(method, p_drop) for p_drop in RATES]
    net = models.mlp((784, width, width, width, 10), methods)
    return models.initialise(net.to(generator.device), generator)


def table(records: Sequence[Record]) -> str:
    """Errors beside the published ones and learned alphas, after the longest schedule."""
    trained = longest(records, "n_epochs")
    orders = []
    for n_epochs, group in sorted(group_by(records, "n_epochs").items(), reverse=True):
        agreements = (
            f"{agree} of {n} with {width} units" for width, (agree, n) in _order(group).items()
        )
        orders.append(f"after {n_epochs} epochs {', '.join(agreements)}")
    return "\n\n".join(
        [
            error_table(trained, "units", 2, _published(), "error"),
            f"Pairs of methods in the published order: {'; '.join(orders)}.",
            alphas(trained, "units"),
            _SET_UP.format(**trained[0]["config"]),
        ]
    )


def claims(records: Sequence[Record]) -> list[Claim]:
    """Learned against fixed noise and none, and the order of all, by the longest schedule."""
    trained = longest(records, "n_epochs")
    printed = _published()
    statements = []
    condition = f"MNIST, {trained[0]['config']['n_epochs']} epochs, no stopping on validation data"
    better = "Learned Gaussian dropout (A, A2) has a lower test error than the same noise at rate ½"
    harmless = f"With {WIDTHS[0]} units learned Gaussian dropout (A) errs no more than no dropout"
    for statement, methods, other, widths, most in (
        (better, ("variational A", "variational A2"), "Gaussian A", WIDTHS, -2),
        (harmless, ("variational A",), "none", WIDTHS[:1], 2),
    ):
        gaps = []
        theirs = []
        for width, method in itertools.product(widths, methods):
            ours = [errors(trained, m, width) for m in (method, other)]
            if min(map(len, ours)) > 1:
                error = sum(stdev(part) ** 2 / len(part) for part in ours) ** 0.5
                gaps.append((mean(ours[0]) - mean(ours[1]), error))
                first, second = (errors(printed, m, width)[0] for m in (method, other))
                theirs.append(f"{first - second:+.2f}")
        statements.append(
            Claim(
                statement,
                f"{', '.join(theirs)} points",
                f"{', '.join(f'{gap:+.2f} ± {error:.2f}' for gap, error in gaps)} points",
                sum(gap < most * error for gap, error in gaps),
                len(gaps),
                f"{condition}; two standard errors over seeds, where Student's t of three asks for "
                "2.8",
            )
        )
    order = _order(trained)
    agree, pairs = (sum(counts[i] for counts in order.values()) for i in (0, 1))
    statement = f"The order of the seven methods with {', '.join(map(str, order))} units"
    condition += "; half of the pairs agree by chance"
    return [
        *statements,
        Claim(statement, f"{pairs} pairs", f"{agree} of them", agree, pairs, condition),
    ]


def figure(records: Sequence[Record]) -> Figure:
    """Left ours after the longest schedule, right the published curves."""
    trained = longest(records, "n_epochs")
    ours = f"Ours, {trained[0]['config']['n_epochs']} epochs"
    return curves({ours: trained, "Published": _published()}, "units in each hidden layer")


def errors(
    trained: Sequence[Record], method: str, width: float, name: str = "error"
) -> list[float]:
    """Test errors of all seeds, in percent, or another metric."""
    return metric(where(trained, method=method, width=width), name)


def error_table(
    trained: Sequence[Record], width_name: str, digits: int, beside: Sequence[Record], name: str
) -> str:
    """A line for each method, a column for each width; in italics ``name`` of ``beside``."""
    widths = sorted(group_by(trained, "width"))

    def cell(method: str, width: float) -> str:
        of_seeds = errors(trained, method, width)
        other = errors(beside, method, width, name)
        ours = f"{markdown.mean_and_error(of_seeds, digits)} ({len(of_seeds)})" if of_seeds else "–"
        return ours + (f", *{mean(other):.{digits}f}*" if other else "")

    lines = [[m, *(cell(m, width) for width in widths)] for m in group_by(trained, "method")]
    head = ["method", *(f"{width_name} = {width:g}" for width in widths)]
    return (
        "Test errors are in percent, with the mean weights, mean ± standard error over seeds "
        f"(their number in brackets):\n\n{markdown.table(head, lines)}"
    )


def alphas(trained: Sequence[Record], width_name: str) -> str:
    """A table of the learned alphas, means over seeds; ``width_name`` heads their column."""
    learned = [record for record in trained if "alpha" in record["arrays"]]
    lines = []
    for (method, width), group in sorted(group_by(learned, "method", "width").items()):
        of_layers = zip(*(record["arrays"]["alpha"] for record in group), strict=True)
        lines.append([method, str(width), *(f"{mean(alpha):.2f}" for alpha in of_layers)])
    n_layers = max(map(len, lines), default=2) - 2
    head = ["method", width_name, *(f"layer {i + 1}" for i in range(n_layers))]
    return (
        "Learned α of the inputs of each layer (start: 0.25 on the pixels, 1, the bound, on the "
        f"hidden units), means over seeds:\n\n{markdown.table(head, lines)}"
    )


def curves(panels: Mapping[str, Sequence[Record]], width_name: str) -> Figure:
    """A panel for each title: mean error over the width, and standard errors; solid: learned."""
    colours = dict(zip(METHODS, (GREY, *CYCLE), strict=True))
    picture = new_figure(5.0 * len(panels), 4.0, layout="constrained")
    for k, (title, trained) in enumerate(panels.items(), start=1):
        axes = picture.add_subplot(1, len(panels), k)
        widths = sorted(group_by(trained, "width"))
        for method, group in group_by(trained, "method").items():
            runs = {w: of_seeds for w in widths if (of_seeds := errors(group, method, w))}
            bars = [
                stdev(of_seeds) / len(of_seeds) ** 0.5 if len(of_seeds) > 1 else 0
                for of_seeds in runs.values()
            ]
            style = {"color": colours[method], "ls": "-" if method.startswith("var") else "--"}
            means = [*map(mean, runs.values())]
            axes.errorbar([*runs], means, bars, marker="o", ms=4, capsize=2, label=method, **style)
        axes.set(title=title, xlabel=width_name, ylabel="test error [%]", xticks=widths)
    axes.legend(fontsize=8)
    return picture


def _published() -> list[Record]:
    """The printed errors in percent, in the form of records."""
    records = []
    for row in published_table("mnist_dropout_curves"):
        method = row.pop("method")
        for width, error in row.items():
            config = {"method": method, "width": int(width)}
            records.append({"config": config, "seed": 0, "metrics": {"error": error}})
    return records


def _order(trained: Sequence[Record]) -> dict[float, tuple[int, int]]:
    """For each width how many pairs of methods stand in the published order, and of how many."""
    counts = {}
    printed = _published()
    for width in sorted(group_by(trained, "width")):
        both = [[errors(part, m, width) for part in (trained, printed)] for m in METHODS]
        means = [[*map(mean, pair)] for pair in both if all(pair)]
        if pairs := [*itertools.combinations(means, 2)]:
            agree = [(a[0] < b[0]) == (a[1] < b[1]) for a, b in pairs]
            counts[width] = sum(agree), len(agree)
    return counts


_SET_UP = """\
Errors and α are those after {n_epochs} epochs; in italics the published errors, means of five runs,
read off the figure of the preprint to about 0.01. Other than in the paper: all {n_train:,} images
and no validation set, whose error ended its training; Adam, {batch_size} images a step, at a rate
that falls in a line from {learning_rate:g} to 0, where it averaged the weights over time; fewer
seeds and widths. Much shorter schedules do not train the networks under fixed noise to the end. An
error of 1.5 % on 10,000 test images is uncertain by 0.12 in itself; differences on the same images
are less so. The divergence is the paper's cubic, α at most 1 and one a layer, counted once for each
random factor (unit under A, weight under B); what the paper counted under A we do not know."""
TITLE = "Kinds of dropout over the width (Kingma, Salimans and Welling 2015, figure 1a)"
EXPERIMENT = Experiment("mnist_dropout_curves", TITLE, trials, run, table, figure, claims)
