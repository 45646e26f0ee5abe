"""Kingma, Salimans and Welling (2015), figure 1a: seven kinds of dropout on MNIST over the width.

Three hidden layers of ReLU units; p_drop 0.2 on the pixels and 0.5 on the hidden units, fixed or as
the start of a learned alpha for each layer. Table and figure show the longest schedule; the others
tell what a schedule does to the order of the methods. Lesson 07.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor

from bdl_lessons import models
from bdl_lessons.core import CYCLE, GREY, seeded
from bdl_lessons.core.plot_style import new_figure
from bdl_lessons.datasets.records import Record, group_by, published_table
from bdl_lessons.evaluation import error_percent
from bdl_lessons.probability import kingma_kl
from reproductions import markdown
from reproductions.experiment import Claim, Experiment, Trial, TrialResult
from reproductions.measure import ALL_OF_MNIST, digits, mean_weights, train_by
from reproductions.records import longest

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

_PAPER = {
    **ALL_OF_MNIST,
    "measure": "error",
    "batch_size": 200,
    "learning_rate": 2e-3,
}
_QUICK = {
    **_PAPER,
    "n_train": 200,
    "n_test": 50,
    "batch_size": 100,
    "n_epochs": 1,
    "width": 20,
}


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
    error = error_percent(mean_weights(net, x_test), y_test)
    return TrialResult({"error": error}, arrays)


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
        generator=generator,
        n_steps=n_steps,
        kl_weight=1.0 if is_learned else 0.0,
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
        agreements = [
            f"{n_agree} of {n_pairs} with {width} units"
            for width, (n_agree, n_pairs) in _order(runs(group)).items()
        ]
        orders.append(f"after {n_epochs} epochs {', '.join(agreements)}")
    return "\n\n".join(
        [
            error_table(
                runs(trained),
                width_name="units",
                digits=2,
                other_errors=_published().set_index(["method", "width"])["error"],
            ),
            f"Pairs of methods in the published order: {'; '.join(orders)}.",
            alphas(trained, "units"),
            _SET_UP.format(**trained[0]["config"]),
        ]
    )


def claims(records: Sequence[Record]) -> list[Claim]:
    """Learned against fixed noise and none, and the order of all, by the longest schedule."""
    trained = longest(records, "n_epochs")
    ours = runs(trained)
    order = _order(ours)
    n_agree = sum(agree for agree, _ in order.values())
    n_pairs = sum(pairs for _, pairs in order.values())
    condition = f"MNIST, {trained[0]['config']['n_epochs']} epochs, no stopping on validation data"
    return [
        _comparison(
            "Learned Gaussian dropout (A, A2) has a lower test error than the same noise at rate ½",
            ours,
            methods=("variational A", "variational A2"),
            other="Gaussian A",
            widths=WIDTHS,
            most=-2,
            condition=condition,
        ),
        _comparison(
            f"With {WIDTHS[0]} units learned Gaussian dropout (A) errs no more than no dropout",
            ours,
            methods=("variational A",),
            other="none",
            widths=WIDTHS[:1],
            most=2,
            condition=condition,
        ),
        Claim(
            statement=f"The order of the seven methods with {', '.join(map(str, order))} units",
            published=f"{n_pairs} pairs",
            ours=f"{n_agree} of them",
            holds=n_agree,
            of=n_pairs,
            condition=f"{condition}; half of the pairs agree by chance",
        ),
    ]


def _comparison(
    statement: str,
    ours: pd.DataFrame,
    methods: Sequence[str],
    other: str,
    widths: Sequence[int],
    most: float,
    condition: str,
) -> Claim:
    """A claim on the error of ``methods`` minus that of another one, where both have two seeds.

    It holds where the difference is below ``most`` times its standard error.
    """
    printed = _published()
    measured = []
    published = []
    n_hold = 0
    for width, method in itertools.product(widths, methods):
        errors = _errors(ours, method, width)
        other_errors = _errors(ours, other, width)
        if min(len(errors), len(other_errors)) < 2:
            continue
        gap = errors.mean() - other_errors.mean()
        standard_error = math.hypot(errors.sem(), other_errors.sem())
        n_hold += gap < most * standard_error
        measured.append(f"{gap:+.2f} ± {standard_error:.2f}")
        printed_gap = _errors(printed, method, width).item() - _errors(printed, other, width).item()
        published.append(f"{printed_gap:+.2f}")
    return Claim(
        statement=statement,
        published=f"{', '.join(published)} points",
        ours=f"{', '.join(measured)} points",
        holds=int(n_hold),
        of=len(measured),
        condition=(
            f"{condition}; two standard errors over seeds, where Student's t of three asks for 2.8"
        ),
    )


def figure(records: Sequence[Record]) -> Figure:
    """Left ours after the longest schedule, right the published curves."""
    trained = longest(records, "n_epochs")
    title = f"Ours, {trained[0]['config']['n_epochs']} epochs"
    panels = {title: runs(trained), "Published": _published()}
    return curves(panels, "units in each hidden layer")


def runs(records: Sequence[Record]) -> pd.DataFrame:
    """A row for each record: its ``method``, ``width`` and ``seed``, and all metrics."""
    rows = []
    for record in records:
        config = record["config"]
        row = {"method": config["method"], "width": config["width"], "seed": record["seed"]}
        rows.append({**row, **record["metrics"]})
    return pd.DataFrame(rows)


def error_table(
    trained: pd.DataFrame, width_name: str, digits: int, other_errors: pd.Series
) -> str:
    """A line for each method, a column for each width.

    Args:
        trained: the :func:`runs`.
        width_name: the letter or word of the width in the heads.
        digits: of the errors.
        other_errors: by method and width, in percent; shown in italics where there is one.
    """
    errors = trained.groupby(["method", "width"])["error"].agg(list)

    def cell(method: str, width: float) -> str:
        place = (method, width)
        text = "–"
        if place in errors.index:
            of_seeds = errors[place]
            text = f"{markdown.mean_and_error(of_seeds, digits)} ({len(of_seeds)})"
        if place in other_errors.index:
            text += f", *{other_errors[place]:.{digits}f}*"
        return text

    widths = sorted(trained["width"].unique())
    lines = []
    for method in trained["method"].unique():
        lines.append([method, *(cell(method, width) for width in widths)])
    head = ["method", *(f"{width_name} = {width:g}" for width in widths)]
    return (
        "Test errors are in percent, with the mean weights, mean ± standard error over seeds "
        f"(their number in brackets):\n\n{markdown.table(head, lines)}"
    )


def alphas(trained: Sequence[Record], width_name: str) -> str:
    """A table of the learned alphas, means over seeds; ``width_name`` heads their column."""
    learned = [record for record in trained if "alpha" in record["arrays"]]
    lines = []
    n_layers = 0
    for (method, width), group in sorted(group_by(learned, "method", "width").items()):
        of_layers = np.mean([record["arrays"]["alpha"] for record in group], axis=0)
        n_layers = max(n_layers, len(of_layers))
        lines.append([method, width, *(f"{alpha:.2f}" for alpha in of_layers)])
    head = ["method", width_name, *(f"layer {layer}" for layer in range(1, n_layers + 1))]
    return (
        "Learned α of the inputs of each layer (start: 0.25 on the pixels, 1, the bound, on the "
        f"hidden units), means over seeds:\n\n{markdown.table(head, lines)}"
    )


def curves(panels: Mapping[str, pd.DataFrame], width_name: str) -> Figure:
    """A panel for each title: mean error over the width, and standard errors; solid: learned."""
    colours = dict(zip(METHODS, (GREY, *CYCLE), strict=True))
    picture = new_figure(5.0 * len(panels), 4.0, layout="constrained")
    all_axes = picture.subplots(1, len(panels), squeeze=False)[0]
    for axes, (title, trained) in zip(all_axes, panels.items(), strict=True):
        for method, of_method in trained.groupby("method", sort=False):
            errors = of_method.groupby("width")["error"]
            means = errors.mean()
            axes.errorbar(
                means.index,
                means,
                errors.sem().fillna(0),
                marker="o",
                ms=4,
                capsize=2,
                label=method,
                color=colours[method],
                ls="-" if method.startswith("var") else "--",
            )
        widths = sorted(trained["width"].unique())
        axes.set(title=title, xlabel=width_name, ylabel="test error [%]", xticks=widths)
    axes.legend(fontsize=8)
    return picture


def _published() -> pd.DataFrame:
    """The printed errors in percent, in the form of :func:`runs`: method, width and error."""
    printed = pd.DataFrame(published_table("mnist_dropout_curves"))
    long = printed.melt(id_vars="method", var_name="width", value_name="error")
    return long.astype({"width": int})


def _errors(trained: pd.DataFrame, method: str, width: float) -> pd.Series:
    """The errors of a method at a width, one for each seed."""
    is_asked = (trained["method"] == method) & (trained["width"] == width)
    return trained.loc[is_asked, "error"]


def _order(trained: pd.DataFrame) -> dict[int, tuple[int, int]]:
    """For each width how many pairs of methods stand in the published order, and of how many."""
    ours = trained.pivot_table(values="error", index="method", columns="width")
    printed = _published().pivot(values="error", index="method", columns="width")
    counts = {}
    for width in sorted(ours.columns.intersection(printed.columns)):
        means = pd.DataFrame({"ours": ours[width], "published": printed[width]})
        known = means.reindex(METHODS).dropna()
        pairs = list(itertools.combinations(known.itertuples(), 2))
        agree = [(a.ours < b.ours) == (a.published < b.published) for a, b in pairs]
        if pairs:
            counts[width] = (sum(agree), len(pairs))
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
