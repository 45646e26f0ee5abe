"""Lesson 11: trained VSD on two small real sets, against the number of reflections.

The KL counts every weight, and the slider moves its weight. MAP's weight decay and the rate of MC
dropout are chosen on validation examples and do not move. Nothing is trained again.
"""

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from bdl_lessons.core import BLUE, GREY, INK, RED, tint
from bdl_lessons.evaluation.model_comparison import Difference, paired_difference
from bdl_lessons.panels import arrays
from bdl_lessons.panels.engine import Choice, Panel, Slider, Update

KL_WEIGHTS = (0.01, 0.1, 1.0)
DEPTHS = (0, 2, 8)
METHODS = (
    "MAP",
    "MC dropout",
    "VD, per weight",
    *(f"VSD, T = {depth}, per weight" for depth in DEPTHS),
    "VD, per factor",
    *(f"VSD, T = {depth}, per factor" for depth in DEPTHS),
)
"""Of the stored arrays: what the KL counts is every weight, or every random factor once."""
READINGS = ("average of 50 draws", "mean weights")
TEST_FRACTION = 0.238  # test / (training + test) on both sets, without validation examples

SCORES = {
    ("digits", 0): ("digits: NLL", "nats, ↓ better"),
    ("digits", 1): ("digits: ECE", "↓ better"),
    ("diabetes", 1): ("diabetes: log likelihood", "nats, ↑ better"),
}
"""Set and index of the score: title and name of the axis."""
TICKS = {
    ("digits", 0): (0.1, 0.2, 0.4),
    ("digits", 1): (0.02, 0.05, 0.1, 0.2),
    ("diabetes", 1): (-5.48, -5.46, -5.44, -5.42),
}
SHOWN = ["VD, per weight", *(f"VSD, T = {depth}, per weight" for depth in DEPTHS)]
ROWS = [METHODS.index(name) for name in SHOWN]
PLACES = np.arange(len(SHOWN)) - 1  # of SHOWN on the axis: VD at -1
PLACE_NAMES = ["VD", *map(str, DEPTHS)]
T0 = SHOWN.index("VSD, T = 0, per weight")
T2 = SHOWN.index("VSD, T = 2, per weight")


@dataclass(frozen=True)
class ScoreArtists:
    """What moves on the axis of one score.

    Attributes:
        level: a thin line at the mean without reflections.
        bars: two errors of the difference to it, about each mean.
        dots: the means.
        fixed: the lines of the methods that do not depend on the KL, by name.
    """

    level: Line2D
    bars: LineCollection
    dots: PathCollection
    fixed: dict[str, Line2D]


def panel() -> Panel:
    """A panel of lesson 11: the weight of the KL, and whether draws are averaged."""
    return Panel(
        build_figure,
        Slider(
            name="kl_weight",
            label="weight of the KL",
            values=KL_WEIGHTS,
            value=0.1,
        ),
        Choice(
            name="reading",
            label="prediction",
            values=READINGS,
            value="average of 50 draws",
        ),
        size=(9.6, 3.6),
    )


def build_figure(figure: Figure) -> Update:
    """Three panels with NLL, ECE and log likelihood against the number of reflections T, beside VD,
    MAP and MC dropout; bars are two errors of the difference to T = 0 and cover it. The last
    panel: the mean learned alpha, which falls with T.
    """
    stored = arrays.load("structure_and_nll")
    axes = figure.subplots(1, 4)
    figure.subplots_adjust(left=0.065, bottom=0.27, right=0.99, top=0.9, wspace=0.55)
    for axis in axes:
        axis.set(xlim=(-1.5, PLACES[-1] + 0.5), xlabel="T, reflections")
        axis.set(xticks=PLACES, xticklabels=PLACE_NAMES)

    score_axes = dict(zip(SCORES, axes[:3], strict=True))
    artists = {}
    for key, axis in score_axes.items():
        title, unit = SCORES[key]
        axis.set_title(title, fontsize=10.5)
        axis.set_ylabel(unit, labelpad=1)
        _limits_and_ticks(axis, stored, key)
        artists[key] = _draw_score(axis)

    alpha_axis = axes[3]
    alpha_axis.set_title("mean learned α", fontsize=10.5)
    alpha_axis.set_ylabel("variance", labelpad=1)
    alpha_axis.set(yscale="log", ylim=(0.03, 1.1))
    alpha_axis.set_yticks((0.05, 0.1, 0.2, 0.5, 1), ("0.05", "0.1", "0.2", "0.5", "1"))
    alpha_axis.minorticks_off()
    (digits_alpha,) = alpha_axis.plot(
        PLACES, PLACES + 2, "o", ms=6, color=INK, mfc=INK, animated=True
    )
    (diabetes_alpha,) = alpha_axis.plot(
        PLACES, PLACES + 2, "s", ms=6, color=INK, mfc="none", animated=True
    )

    first = artists["digits", 0]
    legend = {
        "VSD ± 2 errors of the difference to T = 0": first.bars,
        "VD": axes[0].scatter([], [], s=20, color=RED),
        "MAP": first.fixed["MAP"],
        "MC dropout": first.fixed["MC dropout"],
        "α, digits": digits_alpha,
        "α, diabetes": diabetes_alpha,
    }
    figure.legend(
        legend.values(),
        legend.keys(),
        loc="lower center",
        ncols=6,
        columnspacing=1,
        handlelength=1.4,
    )

    def update(kl_weight: float, reading: str) -> str:
        statements = []
        for (task, score), moving in artists.items():
            values = shown(stored, task, score, kl_weight, reading)
            to_t0, (lows, highs) = to_no_reflection(values)
            means = values.mean(axis=1)
            moving.level.set_ydata([means[T0], means[T0]])
            moving.bars.set_segments(
                [[(x, low), (x, high)] for x, low, high in zip(PLACES, lows, highs, strict=True)]
            )
            moving.dots.set_offsets(np.column_stack([PLACES, means]))
            for method, line in moving.fixed.items():
                mean = fixed(stored, task, score, method, reading).mean()
                line.set_ydata([mean, mean])
            title, _ = SCORES[task, score]
            t2 = to_t0[T2]
            statements.append(f"{title} <b>{t2.mean:+.3f}</b> ± {t2.corrected_std_error:.3f}")

        digits_alpha.set_ydata(_mean_alphas(stored, "digits", kl_weight))
        diabetes_alpha.set_ydata(_mean_alphas(stored, "diabetes", kl_weight))
        return f"T = 2 minus T = 0 on the same splits: {', '.join(statements)}."

    return update


def shown(
    stored: dict[str, np.ndarray], task: str, score: int, kl_weight: float, reading: str
) -> np.ndarray:
    """One score of VD and of VSD at each depth, ``(methods, seeds)``, at one weight of the KL."""
    setting = KL_WEIGHTS.index(kl_weight)
    scores = stored[task][ROWS, setting, :, READINGS.index(reading), score]
    return scores.astype(float)


def to_no_reflection(values: np.ndarray) -> tuple[list[Difference], np.ndarray]:
    """Differences to T = 0, and the bars ``(2, methods)`` of two of their errors about the means.

    ``values`` are those of ``shown``.
    """
    differences = [paired_difference(row, values[T0], TEST_FRACTION) for row in values]
    means = values.mean(axis=1)
    errors = np.array([difference.corrected_std_error for difference in differences])
    return differences, np.stack([means - 2 * errors, means + 2 * errors])


def fixed(
    stored: dict[str, np.ndarray], task: str, score: int, method: str, reading: str
) -> np.ndarray:
    """One score, ``(seeds,)``, of a method at the setting that validation chose for it."""
    row = METHODS.index(method)
    return stored[task][row, 0, :, READINGS.index(reading), score].astype(float)


def best_settings(stored: dict[str, np.ndarray], task: str) -> np.ndarray:
    """For each method the index of the setting with the least mean validation NLL."""
    return stored[f"{task}_validation"].mean(axis=2).argmin(axis=1)


def _draw_score(axis: Axes) -> ScoreArtists:
    vd_colour = [RED]
    vsd_colours = [BLUE] * len(DEPTHS)
    return ScoreArtists(
        level=axis.axhline(1, color=tint(BLUE, 0.5), lw=1, animated=True),
        bars=axis.vlines(PLACES, 1, 1, color=BLUE, lw=2, animated=True),
        dots=axis.scatter(PLACES, PLACES, s=20, c=vd_colour + vsd_colours, animated=True),
        fixed={
            "MAP": axis.axhline(1, ls="--", color=GREY, animated=True),
            "MC dropout": axis.axhline(1, ls=":", color=INK, animated=True),
        },
    )


def _limits_and_ticks(axis: Axes, stored: dict[str, np.ndarray], key: tuple[str, int]) -> None:
    """Limits that hold every bar and line that the panel can show; what is positive is log."""
    task, score = key
    heights = []
    for reading in READINGS:
        for kl_weight in KL_WEIGHTS:
            _, bars = to_no_reflection(shown(stored, task, score, kl_weight, reading))
            heights += bars.ravel().tolist()
        for method in ("MAP", "MC dropout"):
            heights.append(fixed(stored, task, score, method, reading).mean())
    low = min(heights)
    high = max(heights)
    if low > 0:
        axis.set(yscale="log", ylim=(low / 1.15, high * 1.15))
    else:
        axis.set_ylim(low - 0.005, high + 0.005)
    axis.set_yticks(TICKS[key], [str(tick).replace("-", "−") for tick in TICKS[key]])
    axis.minorticks_off()


def _mean_alphas(stored: dict[str, np.ndarray], task: str, kl_weight: float) -> np.ndarray:
    """The learned alpha of each of ``SHOWN``, averaged over seeds and layers."""
    alphas = stored[f"{task}_alpha"][ROWS, KL_WEIGHTS.index(kl_weight)]
    return alphas.mean(axis=(1, 2))
