"""Lesson 10: trained VSD on two small real sets, against the number of reflections.

The KL counts every weight, and the slider moves its weight. MAP's weight decay and the rate of MC
dropout are chosen on validation examples and do not move. Nothing is trained again.
"""

import numpy as np
from matplotlib.figure import Figure

from bdl_lessons.core import BLUE, GREY, INK, RED, tint
from bdl_lessons.evaluation.model_comparison import Difference, paired_difference
from bdl_lessons.panels import arrays
from bdl_lessons.panels.engine import Choice, Panel, Slider, Update

KL_WEIGHTS = (0.01, 0.1, 1.0)
DEPTHS = (0, 2, 8)
METHODS = (
    *("MAP", "MC dropout"),
    *("VD, per weight", *(f"VSD, T = {depth}, per weight" for depth in DEPTHS)),
    *("VD, per factor", *(f"VSD, T = {depth}, per factor" for depth in DEPTHS)),
)
"""Of the stored arrays: what the KL counts is every weight, or every random factor once."""
READINGS = ("average of 50 draws", "mean weights")
TEST_FRACTION = 0.238  # test / (training + test) on both sets, without validation examples
SCORES = {
    ("digits", 0): ("digits: NLL", "nats, ↓ better"),
    ("digits", 1): ("digits: ECE", "↓ better"),
    ("diabetes", 1): ("diabetes: log likelihood", "nats, ↑ better"),
}
TICKS = {("digits", 0): (0.1, 0.2, 0.4), ("digits", 1): (0.02, 0.05, 0.1, 0.2)}
TICKS |= {("diabetes", 1): (-5.48, -5.46, -5.44, -5.42)}
SHOWN = ["VD, per weight", *(f"VSD, T = {depth}, per weight" for depth in DEPTHS)]
ROWS = [METHODS.index(name) for name in SHOWN]
FIXED = {"MAP": ("--", GREY), "MC dropout": (":", INK)}


def panel() -> Panel:
    """The weight of the KL, and whether draws are averaged."""
    return Panel(
        build_figure,
        Slider("kl_weight", "weight of the KL", KL_WEIGHTS, 0.1),
        Choice("reading", "prediction", READINGS, READINGS[0]),
        size=(9.6, 3.6),
    )


def build_figure(figure: Figure) -> Update:
    """Three panels with NLL, ECE and log likelihood against the number of reflections T, beside VD,
    MAP and MC dropout; bars are two errors of the difference to T = 0 and cover it. The last
    panel: the mean learned alpha, which falls with T.
    """
    stored = arrays.load("structure_and_nll")
    axes = figure.subplots(1, 4)
    figure.subplots_adjust(0.065, 0.27, 0.99, 0.9, wspace=0.55)
    places = np.arange(len(SHOWN)) - 1
    for axis in axes:
        axis.set(xticks=places, xlabel="T, reflections", xlim=(-1.5, places[-1] + 0.5))
        axis.set_xticklabels(["VD", *map(str, DEPTHS)])
    moving = []
    for axis, (key, (name, unit)) in zip(axes, SCORES.items(), strict=False):
        _score_axis(axis, stored, key)
        axis.set_title(name, fontsize=10.5)
        axis.set_ylabel(unit, labelpad=1)
        level = axis.axhline(1, color=tint(BLUE, 0.5), lw=1, animated=True)
        bars = axis.vlines(places, 1, 1, color=BLUE, lw=2, animated=True)
        dots = axis.scatter(places, places, s=20, c=[RED, *[BLUE] * len(DEPTHS)], animated=True)
        lines = [axis.axhline(1, ls=ls, color=c, animated=True) for ls, c in FIXED.values()]
        moving.append((key, level, bars, dots, lines))
    last = axes[3]
    look = {"ms": 6, "color": INK, "animated": True}
    last.set(yscale="log", ylim=(0.03, 1.1))
    last.set_yticks((0.05, 0.1, 0.2, 0.5, 1), ("0.05", "0.1", "0.2", "0.5", "1"))
    last.minorticks_off()
    last.set_title("mean learned α", fontsize=10.5)
    last.set_ylabel("variance", labelpad=1)
    marks = (("o", INK), ("s", "none"))
    alphas = [last.plot(places, places + 2, mark, mfc=face, **look)[0] for mark, face in marks]
    names = ["VSD ± 2 errors of the difference to T = 0", "VD", *FIXED, "α, digits", "α, diabetes"]
    shapes = [moving[0][2], axes[0].scatter([], [], s=20, color=RED), *moving[0][4], *alphas]
    figure.legend(shapes, names, loc="lower center", ncols=6, columnspacing=1, handlelength=1.4)

    def update(kl_weight: float, reading: str) -> str:
        said = []
        for key, level, bars, dots, lines in moving:
            values = shown(stored, *key, kl_weight, reading)
            to_t0, (low, high) = to_no_reflection(values)
            mean = values.mean(1)
            level.set_ydata([mean[1], mean[1]])
            ends = zip(places, low, high, strict=True)
            bars.set_segments([[(x, start), (x, end)] for x, start, end in ends])
            dots.set_offsets(np.stack([places, mean], 1))
            for line, method in zip(lines, FIXED, strict=True):
                best = fixed(stored, *key, method, reading).mean()
                line.set_ydata([best, best])
            t2 = to_t0[SHOWN.index("VSD, T = 2, per weight")]
            said.append(f"{SCORES[key][0]} <b>{t2.mean:+.3f}</b> ± {t2.corrected_std_error:.3f}")
        at = KL_WEIGHTS.index(kl_weight)
        for line, task in zip(alphas, ("digits", "diabetes"), strict=True):
            line.set_ydata(stored[f"{task}_alpha"][ROWS, at].mean((1, 2)))
        return f"T = 2 minus T = 0 on the same splits: {', '.join(said)}."

    return update


def shown(
    stored: dict[str, np.ndarray], task: str, score: int, kl_weight: float, reading: str
) -> np.ndarray:
    """One score of VD and of VSD at each depth, ``(methods, seeds)``, at one weight of the KL."""
    at = KL_WEIGHTS.index(kl_weight), slice(None), READINGS.index(reading), score
    return stored[task][ROWS, *at].astype(float)


def to_no_reflection(values: np.ndarray) -> tuple[list[Difference], np.ndarray]:
    """Differences to T = 0, and the bars ``(2, methods)`` of two of their errors about the means.

    ``values`` are those of ``shown``.
    """
    to_t0 = [paired_difference(row, values[1], TEST_FRACTION) for row in values]
    errors = np.array([2 * difference.corrected_std_error for difference in to_t0])
    return to_t0, values.mean(1) + np.stack([-errors, errors])


def fixed(
    stored: dict[str, np.ndarray], task: str, score: int, method: str, reading: str
) -> np.ndarray:
    """One score, ``(seeds,)``, of a method at the setting that validation chose for it."""
    row = METHODS.index(method)
    return stored[task][row, 0, :, READINGS.index(reading), score].astype(float)


def best_settings(stored: dict[str, np.ndarray], task: str) -> np.ndarray:
    """For each method the index of the setting with the least mean validation NLL."""
    return stored[f"{task}_validation"].mean(2).argmin(1)


def _score_axis(axis, stored: dict[str, np.ndarray], key: tuple[str, int]) -> None:
    """Limits that hold every bar and line that the panel can show; what is positive is log."""
    scores = [shown(stored, *key, weight, r) for weight in KL_WEIGHTS for r in READINGS]
    ends = [to_no_reflection(score)[1].ravel() for score in scores]
    levels = [fixed(stored, *key, method, r).mean() for method in FIXED for r in READINGS]
    every = np.concatenate([*ends, levels])
    if every.min() > 0:
        axis.set(yscale="log", ylim=(every.min() / 1.15, every.max() * 1.15))
    else:
        axis.set_ylim(every.min() - 0.005, every.max() + 0.005)
    axis.set_yticks(TICKS[key], map(str, TICKS[key]))
    axis.minorticks_off()
