"""Lesson 10: VSD with 0 to 3 reflections on two small real sets, at any weight of the KL.

Everything but MAP and MC dropout depends on the weight lambda of the KL; MAP's weight decay and the
rate of MC dropout are chosen on validation examples. The slider moves lambda; nothing is trained
again.
"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from bdl_lessons.core import BLUE, GREY, INK, VERMILLION, tint
from bdl_lessons.experiments.panel_arrays.structure_and_nll import LAMBDAS, METHODS, N_SEEDS, TASKS
from bdl_lessons.lessons.panel import Choice, Panel, Slider, Update
from bdl_lessons.lessons.panels import arrays

FIXED = ("MAP", "MC dropout")
READINGS = ("average of 50 draws", "mean weights")
SCORES = {"digits": ("NLL [nats]", "ECE", "accuracy"), "diabetes": ("RMSE", "log lik. [nats]")}
LOG_SCALE = {"NLL [nats]": (0.1, 0.2, 0.4), "ECE": (0.02, 0.05, 0.1, 0.2)}
BETTER = {"NLL [nats]": -1, "ECE": -1, "accuracy": 1, "RMSE": -1, "log lik. [nats]": 1}


def panel() -> Panel:
    """The weight of the KL, and whether draws are averaged."""
    return Panel(
        "structure-and-nll",
        build_figure,
        [
            Slider("kl_weight", "λ, weight of the KL", LAMBDAS, 0.03),
            Choice("reading", "prediction", READINGS, READINGS[0]),
        ],
        size=(9.8, 3.5),
    )


def build_figure(figure: Figure) -> Update:
    """A row for each method, a column for each score: every seed, their mean, its standard error.

    Grey methods do not depend on the slider: they keep the setting that validation chose.
    """
    stored = arrays.load("structure_and_nll")
    columns = [(task, k) for task in SCORES for k in range(len(SCORES[task]))]
    axes = figure.subplots(1, len(columns), sharey=True)
    figure.subplots_adjust(0.1, 0.15, 0.985, 0.88, wspace=0.14)
    rows = np.arange(len(METHODS))[::-1]
    moving = []
    for axis, (task, k) in zip(axes, columns, strict=True):
        name = SCORES[task][k]
        low, high = _range(stored, task, k)
        if name in LOG_SCALE:
            axis.set_xscale("log")
            axis.set_xticks(LOG_SCALE[name], LOG_SCALE[name])
            axis.minorticks_off()
            low, high = low / 1.15, high * 1.15
        else:
            low, high = low - 0.06 * (high - low), high + 0.06 * (high - low)
            axis.locator_params(axis="x", nbins=3)
        axis.set(xlim=(low, high), xlabel=name, ylim=(-0.6, rows[0] + 0.6))
        axis.set_title(f"{task}, {'←' if BETTER[name] < 0 else '→'} better", fontsize=9.5)
        axis.set_yticks(rows, METHODS)
        for row in rows[1::2]:
            axis.axhspan(row - 0.5, row + 0.5, color=tint(GREY, 0.12), lw=0)
        dots = axis.scatter([], [], s=9, color=tint(BLUE, 0.45), lw=0, animated=True)
        bars = axis.hlines(rows, 0 * rows, 0 * rows, color=INK, lw=1.6, animated=True, zorder=3)
        means = axis.scatter([], [], s=34, color=INK, animated=True, zorder=4)
        means.set(edgecolor=INK, linewidth=0.6)
        moving.append((dots, bars, means))
    colours = [GREY if name in FIXED else VERMILLION for name in METHODS]

    def update(kl_weight: float, reading: str) -> str:
        for (task, k), (dots, bars, means) in zip(columns, moving, strict=True):
            values = shown(stored, task, kl_weight, reading)[..., k]
            mean, sem = values.mean(1), values.std(1, ddof=1) / N_SEEDS**0.5
            dots.set_offsets(np.stack([values.ravel(), rows.repeat(N_SEEDS)], 1))
            bars.set_segments(
                [[(m - e, r), (m + e, r)] for m, e, r in zip(mean, sem, rows, strict=True)]
            )
            means.set_offsets(np.stack([mean, rows], 1))
            means.set_facecolor(colours)
        alphas = {
            task: stored[f"{task}_alpha"][:, LAMBDAS.index(kl_weight)].mean(1) for task in TASKS
        }
        t0, t2 = (list(METHODS).index(f"VSD, T = {t}") for t in (0, 2))
        nll = shown(stored, "digits", kl_weight, reading)[..., 0]
        gain = nll[t0] - nll[t2]
        return (
            f"Digits, NLL of T = 0 minus T = 2 on the same splits: <b>{gain.mean():.3f}</b> ± "
            f"{gain.std(ddof=1) / N_SEEDS**0.5:.3f} nats. Mean α at T = 0: digits "
            f"<b>{alphas['digits'][t0]:.2f}</b>, diabetes <b>{alphas['diabetes'][t0]:.2f}</b>."
        )

    return update


def shown(stored: dict[str, np.ndarray], task: str, kl_weight: float, reading: str) -> np.ndarray:
    """Scores ``(methods, seeds, scores)`` at one KL weight; fixed methods at their best setting."""
    at = best_settings(stored, task)
    for row, method in enumerate(METHODS):
        if method not in FIXED:
            at[row] = LAMBDAS.index(kl_weight)
    return stored[task][np.arange(len(METHODS)), at, :, READINGS.index(reading)]


def best_settings(stored: dict[str, np.ndarray], task: str) -> np.ndarray:
    """For each method the index of the setting with the least mean validation NLL."""
    return stored[f"{task}_validation"].mean(2).argmin(1)


def _range(stored: dict[str, np.ndarray], task: str, k: int) -> tuple[float, float]:
    """From the smallest to the largest value of a score that the panel can show."""
    values = np.stack([shown(stored, task, w, r)[..., k] for w in LAMBDAS for r in READINGS])
    return values.min(), values.max()
