"""The figure that tables share: a row for each method, ours beside what was published."""

from collections.abc import Mapping, Sequence
from math import ceil

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from bdl_lessons.core import BLUE, RED
from bdl_lessons.core.plot_style import new_figure

Dots = Sequence[tuple[str, float, float]]
"""Name of a row, value, half the length of its bar."""

_SHIFT = 0.13
"""How far our dots stand above the middle of their row, and the published ones below it."""


def ours_and_published(
    names: Sequence[str],
    panels: Mapping[str, tuple[Dots, Dots]],
    label: str = "",
    scale: str = "linear",
) -> Figure:
    """A panel for each title with our dots and the published ones, in rows of the same names.

    Args:
        names: of the rows, from top to bottom.
        panels: title of a panel -> our dots, published dots; either may be empty.
        label: of the horizontal axes.
        scale: of the horizontal axes, ``"linear"`` or ``"log"``.
    """
    n_columns = min(4, len(panels))
    n_rows = ceil(len(panels) / n_columns)
    picture = new_figure(
        1.6 + 2.2 * n_columns,
        0.8 + n_rows * (0.7 + 0.19 * len(names)),
        layout="constrained",
    )
    axes = picture.subplots(n_rows, n_columns, sharey=True, squeeze=False)
    for ax, (title, (ours, published)) in zip(axes.flat, panels.items(), strict=False):
        _draw_dots(ax, names, ours, -_SHIFT, label="ours", color=BLUE, marker="o")
        _draw_dots(
            ax, names, published, _SHIFT, label="published", color=RED, marker="s", mfc="white"
        )
        ax.set_title(title, fontsize=9)
        ax.locator_params(axis="x", nbins=4)
        ax.set_xscale(scale)
        ax.xaxis.set_minor_formatter(NullFormatter())
        ax.tick_params(labelsize=8)
        ax.grid(axis="y", alpha=0.4, lw=0.6)
    for unused in axes.flat[len(panels) :]:
        unused.remove()

    first = axes[0][0]
    first.set_yticks(range(len(names)), names)
    first.invert_yaxis()
    picture.supxlabel(label, fontsize=10)
    picture.legend(*first.get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return picture


def _draw_dots(ax: Axes, names: Sequence[str], dots: Dots, shift: float, **style: str) -> None:
    """Dots with their bars, ``shift`` below the middle of the row of their name."""
    values = [value for _, value, _ in dots]
    places = [names.index(name) + shift for name, _, _ in dots]
    bars = [half_length for _, _, half_length in dots]
    ax.errorbar(values, places, xerr=bars, ls="", ms=4, lw=1.2, **style)
