"""Lesson 00: the factor that dropout puts on a unit, at every dropout rate."""

from __future__ import annotations

from matplotlib.figure import Figure

from bdl_lessons.core import BLUE, RED
from bdl_lessons.panels.engine import Panel, Slider, Update

RATES = tuple(step / 20 for step in range(19))


def panel() -> Panel:
    """The panel of lesson 00: one slider, the probability that a unit is dropped."""
    slider = Slider("p_drop", "p_drop, probability to drop a unit", RATES, 0.5, "{:.2f}".format)
    return Panel("dropout-noise", build_figure, [slider], size=(7.2, 2.8))


def build_figure(figure: Figure) -> Update:
    """Bars at the values of the factor on a unit, as high as their probabilities, and a dashed line
    at the mean of the factor, which stays at 1.
    """
    axis = figure.subplots()
    axis.set(xlim=(-0.5, 1 / (1 - RATES[-1]) + 0.5), ylim=(0, 1.08), ylabel="probability")
    axis.set(xlabel="factor on the unit, z / keep")
    bars = axis.vlines([0, 1], 0, [0, 0], lw=14, color=BLUE, animated=True)
    axis.axvline(1, color=RED, ls="--", label="mean")
    axis.legend(loc="upper right")
    figure.subplots_adjust(0.09, 0.2, 0.98, 0.95)

    def update(p_drop: float) -> str:
        keep = 1 - p_drop
        bars.set_segments([[(0, 0), (0, p_drop)], [(1 / keep, 0), (1 / keep, keep)]])
        return (
            f"mean: p_drop · 0 + keep · (1/keep) = <b>{keep / keep:.2f}</b>; "
            f"variance: p_drop / keep = <b>{p_drop / keep:.2f}</b>"
        )

    return update
