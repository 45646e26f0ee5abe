"""Lesson 09: uncertainty between two clusters, exact Gaussian process against MC dropout.

Networks of one, two and three hidden layers were trained with dropout on the hidden units, from
several starts for each rate of the slider. The Gaussian process is their infinitely wide, exact
counterpart: the same prior, the same noise, the same points.
"""

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from bdl_lessons.core import BLUE, GREY, INK, tint
from bdl_lessons.panels import arrays
from bdl_lessons.panels.engine import Panel, Slider, Update

RATES = (0.02, 0.05, 0.1, 0.2, 0.5)
WEIGHT_STDS = {1: 4.0, 2: 3.0, 3: 2.25}  # Foong et al.: the prior's scale at each depth
POSITION = np.linspace(-1.4, 1.4, 113)  # both inputs equal: the diagonal through both clusters
POSITION_LABEL = "position along the line through both clusters"


def panel() -> Panel:
    """The panel of lesson 09: the depth of the networks and the dropout rate."""
    return Panel(
        build_figure,
        Slider(
            name="depth",
            label="hidden layers",
            values=tuple(WEIGHT_STDS),
            value=1,
        ),
        Slider(
            name="p_drop",
            label="p_drop, drop probability",
            values=RATES,
            value=0.05,
            show="{:.2f}".format,
        ),
        size=(9.4, 3.5),
    )


def build_figure(figure: Figure) -> Update:
    """Left: two groups of data, and bands of two standard deviations over the line through them;
    the band of the Gaussian process widens in the gap, that of dropout does not. Right: the
    standard deviations of all starts on a logarithmic axis.
    """
    stored = arrays.load("in_between_uncertainty")
    left, right = figure.subplots(1, 2, width_ratios=(1.2, 1))
    figure.subplots_adjust(left=0.06, bottom=0.15, right=0.985, top=0.9, wspace=0.22)

    left.set_title("Mean ± 2 standard deviations, first start")
    left.set(xlim=(POSITION[0], POSITION[-1]), xlabel=POSITION_LABEL)
    left.set(ylim=(-4, 12), ylabel="y")
    gp_band = left.fill_between([], [], color=tint(GREY, 0.35), lw=0, animated=True)
    dropout_band = left.fill_between([], [], color=tint(BLUE, 0.35), lw=0, animated=True)
    draws = LineCollection([], colors=BLUE, lw=0.6, ls="-", animated=True)
    left.add_collection(draws)
    left.plot(stored["x"], stored["y"], ".", ms=3, color=INK, animated=True, zorder=3)
    left.legend([gp_band, dropout_band], ["Gaussian process", "MC dropout"], loc="upper left")

    right.set_title("Standard deviation, every start")
    right.set(xlim=left.get_xlim(), xlabel=POSITION_LABEL)
    right.set(yscale="log", ylim=(3e-4, 30), ylabel="standard deviation of f")
    right.axvline(-1, color=GREY, ls=":", lw=1)
    right.axvline(1, color=GREY, ls=":", lw=1)
    (gp_std_line,) = right.plot([], [], color=INK, ls="--", animated=True)
    dropout_std_lines = LineCollection([], colors=BLUE, ls="-", lw=1.2, animated=True)
    right.add_collection(dropout_std_lines)
    right.legend(
        [gp_std_line, dropout_std_lines],
        ["Gaussian process", "MC dropout"],
        loc="upper center",
    )

    def update(depth: int, p_drop: float) -> str:
        rate = RATES.index(p_drop)
        gp_mean = stored[f"gp_mean_{depth}"]
        gp_std = stored[f"gp_std_{depth}"]
        means = stored[f"mean_{depth}"][rate]  # (starts, positions)
        stds = stored[f"std_{depth}"][rate]
        functions = stored[f"draws_{depth}"][rate]  # of the first start

        gp_band.set_data(POSITION, gp_mean - 2 * gp_std, gp_mean + 2 * gp_std)
        dropout_band.set_data(POSITION, means[0] - 2 * stds[0], means[0] + 2 * stds[0])
        draws.set_segments(_curves(functions))
        gp_std_line.set_data(POSITION, gp_std)
        dropout_std_lines.set_segments(_curves(stds))

        ratios = ", ".join(f"{gap_ratio(std):.2f}" for std in stds)
        return (
            f"Standard deviation in the gap over the larger one at the clusters: Gaussian process "
            f"<b>{gap_ratio(gp_std):.1f}</b>, MC dropout <b>{ratios}</b> from {len(stds)} starts."
        )

    return update


def gap_ratio(std: np.ndarray) -> float:
    """Standard deviation in the middle, over the larger of the two at the cluster centres.

    Args:
        std: ``(113,)`` along ``POSITION``.
    """
    left, middle, right = np.interp([-1.0, 0.0, 1.0], POSITION, std)
    return float(middle / max(left, right))


def _curves(values: np.ndarray) -> list[np.ndarray]:
    """One polyline ``(positions, 2)`` for each row."""
    return [np.column_stack([POSITION, row]) for row in values]
