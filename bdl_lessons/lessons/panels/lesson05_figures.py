"""The larger still figures of lesson 05; each draws on a ``Figure`` that the notebook makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from bdl_lessons.core import BLUE, GREEN, GREY, INK, ORANGE, VERMILLION, tint
from bdl_lessons.datasets import co2
from bdl_lessons.evaluation import log_mean_probs, mutual_information, predictive_entropy
from bdl_lessons.evaluation.metrics import ReliabilityBins
from bdl_lessons.lessons.panels import mc_dropout_co2

STYLES = {
    "weight scaling": (VERMILLION, "--", "s"),
    "MC, T = 1": (GREY, ":", "v"),
    "MC, T = 5": (ORANGE, "-.", "^"),
    "MC, T = 50": (BLUE, "-", "o"),
    "entropy, weight scaling": (VERMILLION, "--", "s"),
    "entropy, MC": (INK, "-.", "^"),
    "mutual information": (BLUE, "-", "o"),
}


def months(axis: Axes) -> None:
    """The training months as dots, the later ones as crosses, and a line between them."""
    data, series = mc_dropout_co2.six_years(), co2()
    start, end, horizon = mc_dropout_co2.START, mc_dropout_co2.END, mc_dropout_co2.HORIZON
    later = (series.times >= end) & (series.times < horizon)
    times, ppm = data.to_years(data.x[:, 0]), data.to_ppm(data.x[:, 0], data.y)
    axis.plot(times, ppm, ".", color=INK, ms=4, label="training months")
    axis.plot(
        series.times[later], series.ppm[later], "x", color=VERMILLION, ms=4, label="later months"
    )
    axis.axvline(end, color=INK, lw=0.8, ls="--")
    axis.set(xlim=(start - 0.3, horizon + 0.3), xlabel="year", xticks=[1976, 1980, 1984])


def four_answers(
    figure: Figure, years: Tensor, answers: Mapping[str, tuple[Tensor, Tensor]]
) -> None:
    """One column for each answer: mean with its bands over the months, and the band by itself.

    Args:
        years: ``(B,)``. answers: name -> mean and standard deviation in ppm, ``(B,)`` each.
    """
    axes = figure.subplots(2, len(answers), sharex=True, sharey="row", height_ratios=(2, 1))
    for (axis, below), (name, (centre, std)) in zip(axes.T, answers.items(), strict=True):
        for n_std, strength in ((2, 0.2), (1, 0.4)):
            edges = centre - n_std * std, centre + n_std * std
            axis.fill_between(years, *edges, color=tint(BLUE, strength), lw=0)
        axis.plot(years, centre, color=BLUE, ls="-", lw=1.4)
        months(axis)
        axis.set(title=name, ylim=(318, 372), xlabel="")
        below.plot(years, std, color=BLUE, ls="-")
        below.axvline(mc_dropout_co2.END, color=INK, lw=0.8, ls="--")
        below.set(xlabel="year", ylim=(0, 6))
    axes[0, 0].set_ylabel("CO2 (ppm)")
    axes[1, 0].set_ylabel("std (ppm)")
    figure.tight_layout()


def turning_digit(figure: Figure, angles: Tensor, images: Tensor, logits: Tensor) -> None:
    """The images with their classes, the draws of the three foremost classes, and two entropies.

    Args:
        angles: ``(A,)`` degrees. images: ``(A, 64)``. logits: ``(S, A, C)``.
    """
    probs, winners = logits.softmax(-1), log_mean_probs(logits).argmax(-1)
    pictures, draws = figure.subfigures(2, 1, height_ratios=(1, 5.2), hspace=-0.08)
    for axis, image, winner in zip(pictures.subplots(1, len(angles)), images, winners, strict=True):
        axis.imshow(image.view(8, 8).numpy(), cmap="Greys")
        axis.set_title(str(winner.item()), loc="center")
        axis.axis("off")
    inputs, outputs, entropies = draws.subplots(3, 1, sharex=True)
    width = float(angles[1] - angles[0])
    foremost = probs.mean(0).amax(0).argsort(descending=True)[:3]
    jitter = torch.linspace(-0.08, 0.08, len(logits)) * width
    for number, (c, colour, marker) in enumerate(
        zip(foremost, (BLUE, VERMILLION, GREEN), "os^", strict=True)
    ):
        place = (angles + 0.28 * width * (number - 1) + jitter[:, None]).ravel()
        for axis, values in ((inputs, logits), (outputs, probs)):
            axis.scatter(
                place.numpy(), values[..., c].ravel().numpy(), s=5, alpha=0.5, lw=0,
                color=colour, marker=marker, label=f"class {c}",
            )  # fmt: skip
    ends = float(angles[0]) - width / 2, float(angles[-1]) + width / 2
    inputs.set(ylabel="softmax input", xlim=ends)
    inputs.legend(ncols=3, loc="lower right", bbox_to_anchor=(1, 0.95), markerscale=2)
    outputs.set_ylabel("softmax output")
    for measure, label, colour, dash, marker in (
        (predictive_entropy, "predictive entropy", INK, "-", "o"),
        (mutual_information, "mutual information", BLUE, "--", "s"),
    ):
        line = angles.numpy(), measure(logits).numpy()
        entropies.plot(*line, color=colour, ls=dash, marker=marker, ms=3, label=label)
    entropies.set(ylabel="nats", xlabel="rotation (degrees)", xticks=angles.tolist(), ylim=(0, 1.6))
    entropies.legend(loc="upper center", ncols=2)


def over_rates(axis: Axes, rates: Sequence[float], values: Mapping[str, Tensor]) -> None:
    """Mean and standard deviation over seeds against p_drop: name -> ``(rates, seeds)``."""
    for name, scores in values.items():
        colour, dash, marker = STYLES[name]
        mean, std = scores.mean(1).numpy(), scores.std(1).numpy()
        axis.errorbar(
            rates, mean, std, color=colour, ls=dash, marker=marker, ms=4, capsize=2, label=name,
        )  # fmt: skip
    axis.set_xlabel("p_drop")


def reliability(axis: Axes, bins: Mapping[str, ReliabilityBins], least: int = 20) -> None:
    """Accuracy against confidence, for bins that hold at least ``least`` predictions."""
    for name, found in bins.items():
        enough = found.count >= least
        colour, dash, marker = STYLES[name]
        confidence, accuracy = found.confidence[enough], found.accuracy[enough]
        axis.plot(confidence, accuracy, color=colour, ls=dash, marker=marker, ms=4)
    axis.plot([0, 1], [0, 1], color=GREY, lw=1, ls="-")
    axis.set(xlabel="confidence", ylabel="accuracy", xlim=(0.2, 1), ylim=(0, 1))
