"""Lesson 09: the log-uniform prior truncated at ``10**-k``, and where the posterior then lies.

On the axis of ``log10 |v|`` the prior is flat, so the posterior's shape is the likelihood's: a bump
where the data say, and a shelf to its left that never ends. Truncation decides how much shelf.
"""

from __future__ import annotations

import math

import numpy as np
from matplotlib.figure import Figure

from bdl_lessons.core import BLUE, GREY, INK, RED, tint
from bdl_lessons.lessons.panel import Panel, Slider, Update
from bdl_lessons.probability import decades_to_half, mass_near_zero

CUTS = (*range(1, 13), 15, 20, 25, 30, 35, 40)
Z_SCORES = (0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5)
DELTA = 0.1
LEFT_END, RIGHT_END = -41.0, 1.5


def panel() -> Panel:
    """The decades ``k`` of truncation and the z-score ``t`` of the weight."""
    return Panel(
        "truncated-posterior",
        build_figure,
        [
            Slider("k", "decades: prior truncated at 10^−decades", CUTS, 3),
            Slider("t", "t, z-score (estimate / standard error)", Z_SCORES, 2.0),
        ],
        size=(9.4, 3.3),
    )


def build_figure(figure: Figure) -> Update:
    """Left: the posterior over the logarithm of the weight's size, flat far to the left and cut off
    at the truncation, with a peak where the data put the weight. Right: the share of the mass
    below 0.1, which rises towards 1 as the truncation moves out.
    """
    left, right = figure.subplots(1, 2, width_ratios=(1.5, 1))
    figure.subplots_adjust(0.065, 0.16, 0.985, 0.89, wspace=0.2)
    decades = np.concatenate([np.linspace(LEFT_END, -3, 60), np.linspace(-2.99, RIGHT_END, 400)])
    left.set(
        xlim=(LEFT_END, RIGHT_END), ylim=(0, 2.7), xlabel=r"$\log_{10} |w|$, w in standard errors"
    )
    left.set(ylabel="posterior, not normalised", title="Posterior over the decades")
    (curve,) = left.plot([], [], color=INK, linestyle="-", lw=1.4, animated=True)
    near = left.fill_between([], [], color=tint(RED, 0.55), lw=0, animated=True)
    far = left.fill_between([], [], color=tint(BLUE, 0.55), lw=0, animated=True)
    cut = left.axvline(0, 0, 0.8, color=INK, linestyle="--", lw=1.4, animated=True)
    left.legend(
        [near, far, cut],
        [f"|w| < {DELTA:g}", f"|w| > {DELTA:g}", "truncation"],
        loc="upper left",
        ncols=3,
    )

    ks = np.linspace(1, 40, 118)
    right.set(xlim=(0, 40.9), ylim=(-0.02, 1.02), xlabel="decades of truncation")
    right.set(ylabel=f"posterior mass of |w| < {DELTA:g}", title="Posterior mass near zero")
    right.axhline(0.5, color=GREY, linestyle=":", lw=1)
    (mass_curve,) = right.plot([], [], color=RED, linestyle="-", animated=True)
    (dot,) = right.plot([], [], "o", color=RED, mec=INK, ms=8, animated=True)

    def update(k: float, t: float) -> str:
        shape = _likelihood(decades, t)
        curve.set_data(decades, shape)
        edge = math.log10(DELTA)
        inside = np.linspace(-k, edge, 200)
        outside = np.linspace(edge, RIGHT_END, 300)
        near.set_data(inside, 0, _likelihood(inside, t))
        far.set_data(outside, 0, _likelihood(outside, t))
        cut.set_xdata([-k, -k])
        mass_curve.set_data(ks, mass_near_zero(t, -ks * math.log(10), DELTA).numpy())
        mass = mass_near_zero(t, -k * math.log(10), DELTA).item()
        dot.set_data([k], [mass])
        half = decades_to_half(t, DELTA)
        return (
            f"Prior truncated at 10<sup>−{k}</sup> standard errors, z-score <b>{t:g}</b>: "
            f"posterior mass <b>{mass:.3f}</b> within "
            f"{DELTA:g} standard errors of zero. It reaches one half "
            f"after <b>{half:.3g}</b> decades."
        )

    return update


def _likelihood(decades: np.ndarray, t: float) -> np.ndarray:
    """``L(v) + L(-v)`` at ``v = 10**decades``."""
    v = 10.0**decades
    return np.exp(-((v - t) ** 2) / 2) + np.exp(-((v + t) ** 2) / 2)
