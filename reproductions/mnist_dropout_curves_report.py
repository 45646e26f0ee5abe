"""How the records of the dropout curves are shown: error over the width, ours and published."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bdl_lessons.core import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, RED, markdown
from bdl_lessons.core.plot_style import new_figure, style
from bdl_lessons.datasets.records import Record, group_by, published_table

STYLES = {
    "none": {"color": GREY, "ls": ":", "marker": "x"},
    "binary": {"color": ORANGE, "ls": "--", "marker": "s"},
    "Gaussian A": {"color": RED, "ls": "--", "marker": "o"},
    "variational A": {"color": BLUE, "ls": "-", "marker": "o"},
    "variational A2": {"color": PURPLE, "ls": "-", "marker": "v"},
    "Gaussian B": {"color": GREEN, "ls": "--", "marker": "D"},
    "variational B": {"color": INK, "ls": "-", "marker": "D"},
}
"""Solid: learned noise. Dashed: fixed. Dotted: none."""


def by_epochs(records: Sequence[Record]) -> dict[int, list[Record]]:
    """The trained networks by the length of their schedule, the shortest first."""
    trained = [record for record in records if record["config"]["measure"] == "error"]
    return dict(sorted(group_by(trained, "n_epochs").items()))


def errors(trained: Sequence[Record]) -> dict[str, dict[int, list[float]]]:
    """Test errors in percent by method and width, one for each seed."""
    by_method = group_by(trained, "method")
    return {
        method: {
            width: [record["metrics"]["error"] for record in group]
            for width, group in sorted(group_by(by_method[method], "width").items())
        }
        for method in STYLES
        if method in by_method
    }


def mean_and_sem(values: list[float]) -> tuple[float, float]:
    """Mean over seeds, and its standard error: NaN for a single one."""
    if len(values) == 1:
        return values[0], float("nan")
    return statistics.mean(values), statistics.stdev(values) / len(values) ** 0.5


def table(records: list[Record]) -> str:
    """Errors beside the published ones and learned alphas, a part for each schedule; the speed."""
    schedules = by_epochs(records)
    parts = [
        part
        for n_epochs, trained in schedules.items()
        for part in (_errors(trained, n_epochs), alphas(trained))
    ]
    parts += [_speed(record) for record in records if record["config"]["measure"] == "speed"]
    if schedules:
        shortest = next(iter(schedules.values()))
        parts.append(_differences(shortest[0]["config"], list(schedules)))
    return "\n\n".join(parts)


def figure(records: list[Record]) -> Figure:
    """Left ours, right the published curves."""
    picture = new_figure(10.0, 4.0, layout="constrained")
    with style():
        left, right = picture.subplots(1, 2)
        draw(left, records)
        draw_published(right)
        right.legend(fontsize=8, ncols=2)
    return picture


def draw(axes: Axes, records: Sequence[Record]) -> None:
    """Mean error of every method over the width; bars are standard errors over seeds.

    Lines are the shortest schedule, open markers longer ones.
    """
    schedules = by_epochs(records)
    for longer, trained in enumerate(schedules.values()):
        for k, (method, of_method) in enumerate(errors(trained).items()):
            widths = [width + 5 * (k - 3) for width in of_method]  # side by side, to see the bars
            means, sems = zip(*map(mean_and_sem, of_method.values()), strict=True)
            look = STYLES[method] | ({"ls": "none", "mfc": "none"} if longer else {"label": method})
            axes.errorbar(widths, means, sems, capsize=2, ms=4, lw=1.4, **look)
    axes.set_title("Ours" + ", open: longer training" * (len(schedules) > 1))
    _width_axis(axes, [100, 250, 500, 750])


def draw_published(axes: Axes) -> None:
    """The published means of five runs."""
    for row in published_table("mnist_dropout_curves"):
        method = row.pop("method")
        widths = [int(width) for width in row]
        axes.plot(widths, row.values(), ms=4, lw=1.4, label=method, **STYLES[method])
    axes.set_title("Published")
    _width_axis(axes, widths)


def _width_axis(axes: Axes, ticks: list[int]) -> None:
    axes.set(xlabel="units in each of three hidden layers", ylabel="MNIST test error [%]")
    axes.set_xticks(ticks)


def _errors(trained: Sequence[Record], n_epochs: int) -> str:
    found = errors(trained)
    widths = sorted({width for of_method in found.values() for width in of_method})
    reference = {row["method"]: row for row in published_table("mnist_dropout_curves")}
    rows = [
        [method, *(_cell(of_method.get(w), reference[method].get(str(w))) for w in widths)]
        for method, of_method in found.items()
    ]
    head = (
        f"After {n_epochs} epochs: test error in percent with the mean weights, mean ± standard "
        "error over seeds (their number in brackets); published values, means of five runs, in "
        "italics."
    )
    cells = markdown.table(["method", *(f"{width} units" for width in widths)], rows)
    return "\n\n".join([head, cells, _order(found, reference)])


def _cell(values: list[float] | None, reference: float | None) -> str:
    ours = f"{markdown.mean_and_error(values, 2)} ({len(values)})" if values else "–"
    return ours if reference is None else f"{ours}, *{reference:.2f}*"


def _order(found: dict, reference: dict) -> str:
    """How many of the pairs of methods stand in the published order, for each width."""
    parts = []
    for width in sorted({width for of_method in found.values() for width in of_method}):
        there = [m for m in found if width in found[m] and str(width) in reference[m]]
        pairs = [(a, b) for i, a in enumerate(there) for b in there[i + 1 :]]
        agree = sum(
            (statistics.mean(found[a][width]) < statistics.mean(found[b][width]))
            == (reference[a][str(width)] < reference[b][str(width)])
            for a, b in pairs
        )
        if pairs:
            parts.append(f"{agree} of {len(pairs)} with {width} units")
    return (
        f"Pairs of methods that stand in the published order: {', '.join(parts)}."
        if parts
        else "No width is in the published figure."
    )


def alphas(trained: Sequence[Record], width_name: str = "units") -> str:
    """A table of the learned alphas, means over seeds; ``width_name`` heads their column."""
    learned = group_by((r for r in trained if "alpha" in r["arrays"]), "method", "width")
    if not learned:
        return "No method with a learned alpha is recorded yet."
    rows = []
    for method in STYLES:
        for width in sorted(w for m, w in learned if m == method):
            of_seeds = [record["arrays"]["alpha"] for record in learned[method, width]]
            means = map(statistics.mean, zip(*of_seeds, strict=True))
            rows.append([method, str(width), *(f"{alpha:.2f}" for alpha in means)])
    layers = [f"layer {i}" for i in range(1, len(rows[0]) - 1)]
    return (
        "Learned α of the inputs of each layer (start: 0.25 on the pixels, 1, the bound, on the "
        "hidden units), means over seeds:\n\n"
        + markdown.table(["method", width_name, *layers], rows)
    )


def _speed(record: Record) -> str:
    """Whether it is faster to train the seeds as batched networks."""
    config, arrays, m = record["config"], record["arrays"], record["metrics"]
    widths = config["widths"]
    gains = [m[f"gain_{width}"] for width in widths]
    faster = [str(width) for width, gain in zip(widths, gains, strict=True) if gain > 1]
    answer = "at no width" if not faster else f"with {', '.join(faster)} units"
    times = zip(config["methods"], arrays["ms_alone"], arrays["ms_side_by_side"], strict=True)
    rows = [
        [method, *(f"{a:.1f}, {b:.1f}" for a, b in zip(alone, together, strict=True))]
        for method, alone, together in times
    ]
    rows.append(["gain, geometric mean", *(f"{gain:.2f}" for gain in gains)])
    return (
        f"Is it faster to train {config['n_members']} seeds in one batch than one after the other? "
        f"Here {answer}. Milliseconds of one step of one network of {config['batch_size']} rows: "
        "one after the other, batched; medians over rounds in turns.\n\n"
        + markdown.table(["method", *(f"{width} units" for width in widths)], rows)
        + "\n\nThe networks above were trained one at a time."
    )


def _differences(config: dict, schedules: Sequence[int]) -> str:
    longer = (
        f"The networks with {schedules[-1]} epochs show what a longer schedule changes."
        if len(schedules) > 1
        else "No longer run is recorded yet that would show what that changes."
    )
    spread = 100 * (0.015 * 0.985 / config["n_test"]) ** 0.5
    return f"""\
Set-up that differs from the published one: {" or ".join(map(str, schedules))} epochs of
{config["n_train"]:,} images and no validation set, where the paper trained until a validation error
stopped falling; Adam with {config["batch_size"]} images a step and a learning rate that falls in a
line from {config["learning_rate"]:g} to 0, where the paper averaged the weights over time; up to 3
seeds, not 5 runs; widths up to 750. After {schedules[0]} epochs our errors are larger, most of all
under fixed noise on whole units: these networks are not trained to the end. {longer}
An error of 1.5 % on {config["n_test"]:,} test images is uncertain by {spread:.2f} in itself; the
methods share the images, so their differences are less so.
The divergence is the paper's cubic, with α at most 1 and one α a layer. It is counted once for each
random factor (each unit under A, each weight under B); what the paper counted under A we do not
know. The published values are read off the figure of the preprint, to about 0.01."""
