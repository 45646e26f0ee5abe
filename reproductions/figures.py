"""The figure that tables share: a row for each method, ours beside what was published."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from bdl_lessons.core import BLUE, RED
from bdl_lessons.core.plot_style import new_figure

Dots = Sequence[tuple[str, float, float]]  # name of a row, value, half the length of its bar


def ours_and_published(
    names: Sequence[str],
    panels: Mapping[str, tuple[Dots, Dots]],
    label: str = "",
    scale: str = "linear",
) -> Figure:
    """A panel for each title with our dots and the published ones, in rows of the same names."""
    n_columns = min(4, len(panels))
    n_rows = -(-len(panels) // n_columns)
    size = (1.6 + 2.2 * n_columns, 0.8 + n_rows * (0.7 + 0.19 * len(names)))
    picture = new_figure(*size, layout="constrained")
    axes = picture.subplots(n_rows, n_columns, sharey=True, squeeze=False)
    looks = {"ours": {"color": BLUE, "marker": "o"}}
    looks["published"] = {"color": RED, "marker": "s", "mfc": "white"}
    for ax, (title, both) in zip(axes.flat, panels.items(), strict=False):
        for (who, look), dots, shift in zip(looks.items(), both, (-0.13, 0.13), strict=True):
            rows, values, bars = zip(*dots, strict=True) if dots else [()] * 3
            places = [names.index(row) + shift for row in rows]
            ax.errorbar(values, places, xerr=bars, ls="", ms=4, lw=1.2, label=who, **look)
        ax.set_title(title, fontsize=9)
        ax.locator_params(axis="x", nbins=4)
        ax.set_xscale(scale)
        ax.xaxis.set_minor_formatter(NullFormatter())
        ax.tick_params(labelsize=8)
        ax.grid(axis="y", alpha=0.4, lw=0.6)
    for ax in axes.flat[len(panels) :]:
        ax.remove()
    axes[0][0].set_yticks(range(len(names)), names)
    axes[0][0].invert_yaxis()
    picture.supxlabel(label, fontsize=10)
    picture.legend(*axes[0][0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return picture
