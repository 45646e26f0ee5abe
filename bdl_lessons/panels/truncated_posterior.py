"""Lesson 10: the log-uniform prior truncated at ``10**-k``, and where the posterior then lies.

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
NEAR = 0.1  # "near zero", in standard errors
LEFT_END = -CUTS[-1] - 1.0
RIGHT_END = 1.5


def panel() -> Panel:
    """A panel of lesson 10: the decades of truncation and the z-score of the weight."""
    return Panel(
        build_figure,
        Slider(
            name="decades",
            label="decades: prior truncated at 10^−decades",
            values=CUTS,
            value=3,
        ),
        Slider(
            name="z_score",
            label="z-score (estimate / standard error)",
            values=Z_SCORES,
            value=2.0,
        ),
        size=(9.4, 3.3),
    )


def build_figure(figure: Figure) -> Update:
    """Left: the posterior over the logarithm of the weight's size, flat far to the left and cut off
    at the truncation, with a peak where the data put the weight. Right: the share of the mass
    below 0.1, which rises towards 1 as the truncation moves out.
    """
    left, right = figure.subplots(1, 2, width_ratios=(1.5, 1))
    figure.subplots_adjust(left=0.065, bottom=0.16, right=0.985, top=0.89, wspace=0.2)

    left.set_title("Posterior over the decades")
    left.set(xlim=(LEFT_END, RIGHT_END), xlabel=r"$\log_{10} |w|$, w in standard errors")
    left.set(ylim=(0, 2.7), ylabel="posterior, not normalised")
    flat_part = np.linspace(LEFT_END, -3, 60)
    peak = np.linspace(-2.99, RIGHT_END, 400)
    log10_w = np.concatenate([flat_part, peak])
    (curve,) = left.plot([], [], color=INK, ls="-", lw=1.4, animated=True)
    near = left.fill_between([], [], color=tint(RED, 0.55), lw=0, animated=True)
    far = left.fill_between([], [], color=tint(BLUE, 0.55), lw=0, animated=True)
    cut = left.axvline(0, ymin=0, ymax=0.8, color=INK, ls="--", lw=1.4, animated=True)
    left.legend(
        [near, far, cut],
        [f"|w| < {NEAR:g}", f"|w| > {NEAR:g}", "truncation"],
        loc="upper left",
        ncols=3,
    )

    right.set_title("Posterior mass near zero")
    right.set(xlim=(0, CUTS[-1] + 0.9), xlabel="decades of truncation")
    right.set(ylim=(-0.02, 1.02), ylabel=f"posterior mass of |w| < {NEAR:g}")
    right.axhline(0.5, color=GREY, ls=":", lw=1)
    truncations = np.linspace(CUTS[0], CUTS[-1], 118)
    (mass_curve,) = right.plot([], [], color=RED, ls="-", animated=True)
    (dot,) = right.plot([], [], "o", color=RED, mec=INK, ms=8, animated=True)

    def update(decades: float, z_score: float) -> str:
        border = math.log10(NEAR)
        near_log10_w = np.linspace(-decades, border, 200)
        far_log10_w = np.linspace(border, RIGHT_END, 300)
        curve.set_data(log10_w, _likelihood(log10_w, z_score))
        near.set_data(near_log10_w, 0, _likelihood(near_log10_w, z_score))
        far.set_data(far_log10_w, 0, _likelihood(far_log10_w, z_score))
        cut.set_xdata([-decades, -decades])

        log_truncations = -math.log(10) * truncations
        mass_curve.set_data(truncations, mass_near_zero(z_score, log_truncations, NEAR).numpy())
        mass = mass_near_zero(z_score, -math.log(10) * decades, NEAR).item()
        dot.set_data([decades], [mass])
        return (
            f"Prior truncated at 10<sup>−{decades}</sup> standard errors, "
            f"z-score <b>{z_score:g}</b>: posterior mass <b>{mass:.3f}</b> within "
            f"{NEAR:g} standard errors of zero. It reaches one half "
            f"after <b>{decades_to_half(z_score):.3g}</b> decades."
        )

    return update


def _likelihood(log10_w: np.ndarray, z_score: float) -> np.ndarray:
    """``L(w) + L(-w)`` at ``w = 10**log10_w``."""
    w = 10.0**log10_w
    return np.exp(-((w - z_score) ** 2) / 2) + np.exp(-((w + z_score) ** 2) / 2)
