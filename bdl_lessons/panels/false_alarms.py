"""Lesson 13: how often a table shows a gap that is not there, and how often one that is.

The differences of two methods on M splits are taken as Gaussian, with one variance and one
correlation between any two splits; everything is in units of their standard deviation. The mean
and the sample standard deviation are then independent: at a given error the gap is Gaussian, and
averaged over equally likely values of the error its distribution has a closed form. Nothing is
drawn at random.
"""

import math
from functools import cache
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from scipy.stats import chi2, norm
from scipy.stats import t as student

from bdl_lessons.core import BLUE, GREEN, GREY, INK, ORANGE, RED, tint
from bdl_lessons.panels.engine import Panel, Slider, Update

N_SPLITS = (3, 5, 10, 20, 50)
CORRELATIONS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5)
GAPS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5)
COMPARISONS = (1, 4, 16, 64)

OVERLAP = 1 / 9
"""Test over training examples, where a tenth of all examples is tested."""
TWO_ERRORS = 2.0
LEVEL = 0.05
"""How often the best of many may count by chance."""

QUANTILES = (np.arange(1000) + 0.5) / 1000
BAR_WIDTH = 0.36
RULES = ("std/√M:\ntwo errors", "(2):\ntwo errors", "(2): best\nof many")


def panel() -> Panel:
    """The panel of lesson 13: splits, their correlation, the true gap, and how many gaps."""
    return Panel(
        build_figure,
        Slider(
            name="n_splits",
            label="M, splits",
            values=N_SPLITS,
            value=10,
            web=N_SPLITS[::2],
        ),
        Slider(
            name="correlation",
            label="ρ, correlation of two splits",
            values=CORRELATIONS,
            value=0.1,
            web=CORRELATIONS[::2],
        ),
        Slider(
            name="gap",
            label="true gap, in std of a difference",
            values=GAPS,
            value=0.0,
            web=GAPS[::2],
        ),
        Slider(
            name="n_comparisons",
            label="gaps in the table",
            values=COMPARISONS,
            value=16,
            web=COMPARISONS[::2],
        ),
        size=(9.6, 3.7),
    )


def build_figure(figure: Figure) -> Update:
    """Left: the density of the gap divided by its error, for the naive error and for the corrected
    one; what lies beyond two errors is filled. Right: for three rules a bar with the share of
    tables in which a gap counts though all are zero, and a bar with the share in which the true
    gap counts.
    """
    left, right = figure.subplots(1, 2, width_ratios=(1.25, 1))
    figure.subplots_adjust(left=0.075, bottom=0.2, right=0.985, top=0.9, wspace=0.2)

    reach = _reach()
    gaps_in_errors = np.linspace(-reach, reach, 301)
    left.set_title("The gap of a table, in its errors")
    left.set(xlim=(-reach, reach), xlabel="measured gap / its error")
    left.set(ylim=(0, 1.1 * _highest_density()), yticks=[], ylabel="density")
    naive_fill = [_fill(left, RED) for _ in range(2)]
    corrected_fill = [_fill(left, BLUE) for _ in range(2)]
    (naive_line,) = left.plot([], [], color=RED, ls="--", animated=True)
    (corrected_line,) = left.plot([], [], color=BLUE, ls="-", animated=True)
    for threshold in (-TWO_ERRORS, TWO_ERRORS):
        two_errors = left.axvline(threshold, ymax=0.5, color=INK, ls=":", lw=1.2)
    many_lines = [
        left.axvline(0, ymax=0.5, color=GREY, ls="-.", lw=1.4, animated=True) for _ in range(2)
    ]
    left.legend(
        [naive_line, corrected_line, two_errors, many_lines[0]],
        ["by std/√M", "by (2)", "two errors", "best of many"],
        loc="upper left",
    )

    places = np.arange(len(RULES))
    right.set_title("How often does a gap count?")
    right.set(xlim=(-0.6, places[-1] + 0.6), xticks=places, xticklabels=RULES)
    right.set(ylim=(0, 135), yticks=range(0, 101, 25), ylabel="share of tables (%)")
    alarms = _draw_bars(right, places - BAR_WIDTH / 2, "all are zero, and one counts", ORANGE, "//")
    seen = _draw_bars(right, places + BAR_WIDTH / 2, "a gap of the chosen size counts", GREEN, "")
    right.legend(loc="upper center")

    def update(n_splits: int, correlation: float, gap: float, n_comparisons: int) -> str:
        naive = table(n_splits, correlation, gap, naive_factor(n_splits))
        corrected = table(n_splits, correlation, gap, corrected_factor(n_splits))
        for line, fills, gaps in (
            (naive_line, naive_fill, naive),
            (corrected_line, corrected_fill, corrected),
        ):
            line.set_data(gaps_in_errors, gaps.density(gaps_in_errors))
            for fill, side in zip(fills, (-1, 1), strict=True):
                beyond = side * np.linspace(TWO_ERRORS, reach, 120)
                fill.set_data(beyond, 0, gaps.density(beyond))
        for line, side in zip(many_lines, (-1, 1), strict=True):
            line.set_xdata([side * best_of_many(n_splits, n_comparisons)] * 2)

        rules = (
            (naive, TWO_ERRORS),
            (corrected, TWO_ERRORS),
            (corrected, best_of_many(n_splits, n_comparisons)),
        )
        counts = [gaps.share_beyond(threshold) for gaps, threshold in rules]
        of_zero = [gaps.without_gap().share_beyond(threshold) for gaps, threshold in rules]
        any_of_zero = [1 - (1 - share) ** n_comparisons for share in of_zero]
        for bars, shares in ((alarms, any_of_zero), (seen, counts)):
            for bar, share in zip(bars, shares, strict=True):
                bar.set_height(100 * share)

        needed = f"{rules[2][1]:.1f} errors"
        return (
            f"A gap that is truly {gap:g} std passes two errors in {_percent(counts[0])} of the "
            f"tables by std/√M and in {_percent(counts[1])} by (2), and {needed} in "
            f"{_percent(counts[2])}. Gaps in the table: {n_comparisons}. If all are truly zero, "
            f"one or more pass two errors in {_percent(any_of_zero[0])} by std/√M and in "
            f"{_percent(any_of_zero[1])} by (2), and {needed}, the rule for the best of "
            f"{n_comparisons}, in {_percent(any_of_zero[2])}."
        )

    return update


class Table(NamedTuple):
    """What a table may show of one gap, in units of the standard deviation of a difference.

    Attributes:
        gap: the true gap.
        std: the standard deviation of the mean difference.
        errors: ``(1000,)``, equally likely values of the error that is printed beside it.
    """

    gap: float
    std: float
    errors: np.ndarray

    def density(self, gaps_in_errors: np.ndarray) -> np.ndarray:
        """Of the measured gap divided by its error, the shape of ``gaps_in_errors``."""
        at_error = norm.pdf(gaps_in_errors[:, None] * self.errors, self.gap, self.std)
        return (at_error * self.errors).mean(axis=1)

    def share_beyond(self, threshold: float) -> float:
        """How often the gap is larger than so many of its errors, in either direction."""
        above = norm.sf(threshold * self.errors, self.gap, self.std)
        below = norm.cdf(-threshold * self.errors, self.gap, self.std)
        return float((above + below).mean())

    def without_gap(self) -> "Table":
        """The same for two equally good methods."""
        return self._replace(gap=0.0)


def table(n_splits: int, correlation: float, gap: float, factor: float) -> Table:
    """The tables of M splits whose error is ``factor`` times the sample standard deviation.

    The mean of M differences of variance 1 and correlation rho has the variance
    ``rho + (1 - rho) / M``; their sample variance is ``1 - rho`` times a chi-squared variable
    divided by its M - 1 degrees of freedom.

    >>> shown = table(n_splits=10, correlation=0.0, gap=0.0, factor=10**-0.5)
    >>> round(shown.share_beyond(2.262), 2)  # Student's t with nine degrees of freedom
    0.05
    """
    sample_var = (1 - correlation) * chi2.ppf(QUANTILES, n_splits - 1) / (n_splits - 1)
    mean_var = correlation + (1 - correlation) / n_splits
    return Table(gap=gap, std=math.sqrt(mean_var), errors=factor * np.sqrt(sample_var))


def naive_factor(n_splits: int) -> float:
    """Error over standard deviation, if the splits are taken as independent."""
    return math.sqrt(1 / n_splits)


def corrected_factor(n_splits: int) -> float:
    """Error over standard deviation by equation (2), which assumes a correlation of 0.1 here."""
    return math.sqrt(1 / n_splits + OVERLAP)


def best_of_many(n_splits: int, n_comparisons: int) -> float:
    """From how many errors on the largest of so many gaps counts: Student's t, by Bonferroni.

    >>> round(best_of_many(n_splits=20, n_comparisons=16), 1)
    3.4
    """
    return float(student.ppf(1 - LEVEL / 2 / n_comparisons, n_splits - 1))


def _percent(share: float) -> str:
    return f"<b>{100 * share:.0f} %</b>"


def _reach() -> float:
    """The largest gap on the grid by its smallest error (2), and four errors more."""
    return GAPS[-1] / corrected_factor(N_SPLITS[-1]) + 4


@cache
def _highest_density() -> float:
    """Of all curves: that of the smallest standard deviation, at its middle."""
    factor = corrected_factor(N_SPLITS[-1])
    narrowest = table(N_SPLITS[-1], CORRELATIONS[0], 0.0, factor)
    return float(narrowest.density(np.zeros(1))[0])


def _fill(axes: Axes, colour: str):
    """What lies beyond two errors on one side, still without data."""
    return axes.fill_between([], [], color=tint(colour, 0.35), alpha=0.6, lw=0, animated=True)


def _draw_bars(axes: Axes, places: np.ndarray, label: str, colour: str, hatch: str) -> BarContainer:
    """One bar for each of ``RULES``, still without height."""
    return axes.bar(
        places,
        height=0,
        width=BAR_WIDTH,
        facecolor=tint(colour, 0.5),
        hatch=hatch,
        edgecolor=INK,
        lw=0.6,
        label=label,
        animated=True,
    )
