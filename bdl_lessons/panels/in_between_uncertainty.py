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
    """The depth of the networks and the dropout rate."""
    return Panel(
        build_figure,
        Slider("depth", "hidden layers", tuple(WEIGHT_STDS), 1),
        Slider("p_drop", "p_drop, drop probability", RATES, 0.05, "{:.2f}".format),
        size=(9.4, 3.5),
    )


def build_figure(figure: Figure) -> Update:
    """Left: two groups of data, and bands of two standard deviations over the line through them;
    the band of the Gaussian process widens in the gap, that of dropout does not. Right: the
    standard deviations of all starts on a logarithmic axis.
    """
    stored = arrays.load("in_between_uncertainty")
    left, right = figure.subplots(1, 2, width_ratios=(1.2, 1))
    figure.subplots_adjust(0.06, 0.15, 0.985, 0.9, wspace=0.22)
    left.set(xlim=(POSITION[0], POSITION[-1]), ylim=(-4, 12), xlabel=POSITION_LABEL, ylabel="y")
    left.set_title("Mean ± 2 standard deviations, first start")
    process = left.fill_between([], [], color=tint(GREY, 0.35), lw=0, animated=True)
    net = left.fill_between([], [], color=tint(BLUE, 0.35), lw=0, animated=True)
    draws = left.add_collection(LineCollection([], colors=BLUE, lw=0.6, ls="-", animated=True))
    left.plot(stored["x"], stored["y"], ".", ms=3, color=INK, animated=True, zorder=3)
    left.legend([process, net], ["Gaussian process", "MC dropout"], loc="upper left")

    right.set(xlim=left.get_xlim(), xlabel=POSITION_LABEL, ylabel="standard deviation of f")
    right.set(yscale="log", ylim=(3e-4, 30), title="Standard deviation, every start")
    for centre in (-1, 1):
        right.axvline(centre, color=GREY, linestyle=":", lw=1)
    (gp_line,) = right.plot([], [], color=INK, linestyle="--", animated=True)
    net_lines = right.add_collection(LineCollection([], colors=BLUE, ls="-", lw=1.2, animated=True))
    right.legend([gp_line, net_lines], ["Gaussian process", "MC dropout"], loc="upper center")

    def update(depth: int, p_drop: float) -> str:
        which = RATES.index(p_drop)
        means = stored[f"mean_{depth}"][which]
        stds = stored[f"std_{depth}"][which]
        gp_mean = stored[f"gp_mean_{depth}"]
        gp_std = stored[f"gp_std_{depth}"]
        process.set_data(POSITION, gp_mean - 2 * gp_std, gp_mean + 2 * gp_std)
        net.set_data(POSITION, means[0] - 2 * stds[0], means[0] + 2 * stds[0])
        lines = stored[f"draws_{depth}"][which]
        draws.set_segments([np.stack([POSITION, line], 1) for line in lines])
        gp_line.set_data(POSITION, gp_std)
        net_lines.set_segments([np.stack([POSITION, std], 1) for std in stds])
        ratios = ", ".join(f"{gap_ratio(std):.2f}" for std in stds)
        return (
            f"Standard deviation in the gap over the larger one at the clusters: Gaussian process "
            f"<b>{gap_ratio(gp_std):.1f}</b>, MC dropout <b>{ratios}</b> from {len(stds)} starts."
        )

    return update


def gap_ratio(std: np.ndarray) -> float:
    """Standard deviation in the middle, over the larger of the two at the cluster centres."""
    left, middle, right = np.interp([-1.0, 0.0, 1.0], POSITION, std)
    return float(middle / max(left, right))
