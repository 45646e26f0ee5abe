"""How the records of the UCI sets are shown: error and log likelihood beside the published ones."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bdl_lessons.core import BLUE, INK, VERMILLION
from bdl_lessons.core.plot_style import new_figure, style
from bdl_lessons.evaluation import paired_difference
from bdl_lessons.experiments import markdown
from bdl_lessons.experiments.records import Record
from bdl_lessons.experiments.uci.report import choices, grid_tau, missing, set_up, speed
from bdl_lessons.experiments.uci.tables import (
    PUBLISHED_METHODS,
    PUBLISHED_NAMES,
    SCORES,
    Results,
    cell,
    published,
)

_COMPARED = ("MCD", "VD", "VSD, T = 1", "BBB", "D.E", "MAP")


def table(records: list[Record]) -> str:
    """Both tables, what VSD gains, what was chosen, what batching gains, what differs and is missing."""
    found = Results(records)
    return "\n\n".join(
        [
            "Mean over the splits ± standard error. Published: tables 10 and 11, as printed.",
            "### RMSE, original units",
            _scores(found, "rmse"),
            "### Log likelihood of a test point in nats, original units",
            _scores(found, "log_likelihood"),
            *_differences_of_vsd(found),
            "### The same networks, tau held to the published grid: log likelihood",
            grid_tau(found),
            "### What was chosen, over all splits",
            choices(found),
            "### Side by side against one at a time",
            speed(found),
            set_up(records),
            *missing(records, found),
        ]
    )


def figure(records: list[Record]) -> Figure:
    """For each data set RMSE and log likelihood of every method, ours and published."""
    found = Results(records)
    n_rows = (len(found.sets) + 1) // 2
    height = 0.6 + n_rows * (0.7 + 0.19 * len(found.rows))
    picture = new_figure(10.4, height, layout="constrained")
    picture.get_layout_engine().set(w_pad=0.1)
    with style():
        axes = picture.subplots(n_rows, 4, sharey=True, squeeze=False)
        for place, data in enumerate(found.sets):
            pair = axes[place // 2][2 * (place % 2) :]
            for ax, score in zip(pair, SCORES, strict=False):
                _dots(ax, found, data, score)
                title = SCORES[score][1].replace("log likelihood", "log lik.")
                ax.set_title(f"{PUBLISHED_NAMES[data]}: {title}", fontsize=9)
        for ax in axes.flat[2 * len(found.sets) :]:
            ax.remove()
        axes[0][0].set_yticks(range(len(found.rows)), found.rows)
        axes[0][0].invert_yaxis()
        handles, labels = axes[0][0].get_legend_handles_labels()
        picture.legend(handles, labels, loc="outside upper center", ncols=2)
    return picture


def _dots(ax: Axes, found: Results, data: str, score: str) -> None:
    looks = (
        ("ours", {"color": BLUE, "marker": "o"}, lambda m: found.ours(data, m, score), -0.13),
        (
            "published",
            {"color": VERMILLION, "marker": "s", "mfc": "white"},
            lambda m: published(data, m, score),
            0.13,
        ),
    )
    for label, look, value_of, shift in looks:
        values = [(i + shift, value_of(method)) for i, method in enumerate(found.rows)]
        known = [(place, *value) for place, value in values if value]
        place, mean, error = zip(*known, strict=True)
        ax.errorbar(mean, place, xerr=error, ls="", ms=4, lw=1.2, label=label, **look)
    ax.grid(axis="y", color=INK, alpha=0.12, lw=0.6)
    ax.tick_params(labelsize=8)
    ax.locator_params(axis="x", nbins=4)


def _scores(found: Results, score: str) -> str:
    rows = []
    for method in found.rows:
        ours = [cell(found.ours(data, method, score), data, score) for data in found.sets]
        rows.append([method, "ours", *ours])
        if method in PUBLISHED_METHODS:
            theirs = [cell(published(data, method, score)) for data in found.sets]
            rows.append(["", "published", *theirs])
    return markdown.table(["method", "", *map(PUBLISHED_NAMES.get, found.sets)], rows)


def _differences_of_vsd(found: Results) -> list[str]:
    """VSD minus another method, split by split; nothing if VSD was not run."""
    if "VSD" not in found.methods:
        return []
    parts = []
    for score, (_, name) in SCORES.items():
        rows, better, worse = [], [], []
        for other in [method for method in _COMPARED if method in found.methods]:
            cells = []
            for data in found.sets:
                pair = [found.record(data, method) for method in ("VSD", other)]
                if not all(pair):
                    cells.append("–")
                    continue
                gap = paired_difference(*[record["arrays"][score] for record in pair])
                error = gap.corrected_std_error
                cells.append(cell((gap.mean, error), data, score))
                if abs(gap.mean) > 2 * error:
                    gains = (gap.mean < 0) == (score == "rmse")
                    (better if gains else worse).append(f"{other} on {PUBLISHED_NAMES[data]}")
            rows.append([f"VSD − {other}", *cells])
        parts += [
            f"### VSD against the others: {name}, split by split",
            markdown.table(["difference", *map(PUBLISHED_NAMES.get, found.sets)], rows),
            f"By more than two of these errors VSD is better than {_listed(better)}; it is worse "
            f"than {_listed(worse)}.",
        ]
    return [
        *parts,
        "The error of a difference allows for the training rows that splits share (Nadeau and "
        "Bengio 2003): it is larger than a standard error over independent splits would be.",
    ]


def _listed(names: list[str]) -> str:
    return ", ".join(names) if names else "none of them"
