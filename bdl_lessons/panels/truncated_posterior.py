"""Lesson 09: the log-uniform prior truncated at ``10**-k``, and where the posterior then lies.

On the axis of ``log10 |w|`` the prior is flat, so the posterior's shape is the likelihood's: a bump
where the data say, and a shelf to its left that never ends. Truncation decides how much shelf.
"""

import math

import numpy as np
from matplotlib.figure import Figure

from bdl_lessons.core import BLUE, GREY, INK, RED, tint
from bdl_lessons.panels.engine import Panel, Slider, Update
from bdl_lessons.probability import decades_to_half, mass_near_zero

CUTS = (*range(1, 13), 15, 20, 25, 30, 35, 40)
Z_SCORES = (0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5)
NEAR = 0.1
LEFT_END = -CUTS[-1] - 1.0
RIGHT_END = 1.5


def panel() -> Panel:
    """The decades of truncation and the z-score of the weight."""
    return Panel(
        build_figure,
        Slider("decades", "decades: prior truncated at 10^−decades", CUTS, 3),
        Slider("z_score", "z-score (estimate / standard error)", Z_SCORES, 2.0),
        size=(9.4, 3.3),
    )


def build_figure(figure: Figure) -> Update:
    """Left: the posterior over the logarithm of the weight's size, flat far to the left and cut off
    at the truncation, with a peak where the data put the weight. Right: the share of the mass
    below 0.1, which rises towards 1 as the truncation moves out.
    """
    left, right = figure.subplots(1, 2, width_ratios=(1.5, 1))
    figure.subplots_adjust(0.065, 0.16, 0.985, 0.89, wspace=0.2)
    places = np.concatenate([np.linspace(LEFT_END, -3, 60), np.linspace(-2.99, RIGHT_END, 400)])
    left.set(xlim=(LEFT_END, RIGHT_END), ylim=(0, 2.7), ylabel="posterior, not normalised")
    left.set(xlabel=r"$\log_{10} |w|$, w in standard errors", title="Posterior over the decades")
    (curve,) = left.plot([], [], color=INK, linestyle="-", lw=1.4, animated=True)
    near = left.fill_between([], [], color=tint(RED, 0.55), lw=0, animated=True)
    far = left.fill_between([], [], color=tint(BLUE, 0.55), lw=0, animated=True)
    cut = left.axvline(0, 0, 0.8, color=INK, linestyle="--", lw=1.4, animated=True)
    names = [f"|w| < {NEAR:g}", f"|w| > {NEAR:g}", "truncation"]
    left.legend([near, far, cut], names, loc="upper left", ncols=3)

    truncations = np.linspace(CUTS[0], CUTS[-1], 118)
    log10 = math.log(10)
    right.set(xlim=(0, CUTS[-1] + 0.9), ylim=(-0.02, 1.02), xlabel="decades of truncation")
    right.set(ylabel=f"posterior mass of |w| < {NEAR:g}", title="Posterior mass near zero")
    right.axhline(0.5, color=GREY, linestyle=":", lw=1)
    (mass_curve,) = right.plot([], [], color=RED, linestyle="-", animated=True)
    (dot,) = right.plot([], [], "o", color=RED, mec=INK, ms=8, animated=True)

    def update(decades: float, z_score: float) -> str:
        curve.set_data(places, _likelihood(places, z_score))
        edge = math.log10(NEAR)
        inside = np.linspace(-decades, edge, 200)
        outside = np.linspace(edge, RIGHT_END, 300)
        near.set_data(inside, 0, _likelihood(inside, z_score))
        far.set_data(outside, 0, _likelihood(outside, z_score))
        cut.set_xdata([-decades, -decades])
        masses = mass_near_zero(z_score, -log10 * truncations, NEAR)
        mass_curve.set_data(truncations, masses.numpy())
        mass = mass_near_zero(z_score, -log10 * decades, NEAR).item()
        dot.set_data([decades], [mass])
        half = decades_to_half(z_score)
        return (
            f"Prior truncated at 10<sup>−{decades}</sup> standard errors, "
            f"z-score <b>{z_score:g}</b>: posterior mass <b>{mass:.3f}</b> within "
            f"{NEAR:g} standard errors of zero. It reaches one half "
            f"after <b>{half:.3g}</b> decades."
        )

    return update


def _likelihood(log10_w: np.ndarray, z_score: float) -> np.ndarray:
    """``L(w) + L(-w)`` at ``w = 10**log10_w``."""
    w = 10.0**log10_w
    return np.exp(-((w - z_score) ** 2) / 2) + np.exp(-((w + z_score) ** 2) / 2)
