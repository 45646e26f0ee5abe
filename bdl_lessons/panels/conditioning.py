"""Lesson 03: put points into a Gaussian process, and see what each of three kernels makes of them.

The reader moves one point and adds others. The functions that are shown are prior draws, corrected
by what the points say about them: ``f + C_cross' (C + I/tau)^-1 (y - f - noise)`` has exactly the
distribution of the posterior, and moves with the sliders without new random numbers.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from torch import Tensor

from bdl_lessons.core import BLUE, CYCLE, GREY, INK, RED, tint
from bdl_lessons.panels.engine import Choice, Panel, Slider, Update
from bdl_lessons.reference import cos_expectation, erf_expectation, relu_expectation

PLACES = tuple(0.5 * step for step in range(-6, 7))
VALUES = tuple(0.5 * step for step in range(-4, 5))
NUMBERS = (0, 1, 2, 3, 4)
OTHERS = ((-0.5, -0.4), (0.5, 0.7), (2.0, -1.0))
"""Input and target of the points that stand still, in the order in which they are added."""

TAU = 100.0
FAR = 4.0
GRID = torch.linspace(-5, 5, 101, dtype=torch.float64)  # holds every place of a point
N_DRAWS = 5
SEED = 3


class Units(NamedTuple):
    """A wide network: the expectation of its units, and its variances.

    Attributes:
        expectation: variances and covariance of two pre-activations to ``E[phi(u) phi(u')]``.
        scale: 1/beta, the variance of the output weights.
        weight_var: of the hidden weights.
        bias_var: of the hidden biases.
    """

    expectation: Callable[[Tensor, Tensor, Tensor], Tensor]
    scale: float
    weight_var: float
    bias_var: float

    def kernel(self, x: Tensor, x_other: Tensor) -> Tensor:
        """Covariances ``(N, M)`` of the outputs at inputs ``(N,)`` and ``(M,)``."""
        var = self.bias_var + self.weight_var * x[:, None] ** 2
        var_other = self.bias_var + self.weight_var * x_other**2
        cov = self.bias_var + self.weight_var * x[:, None] * x_other
        return self.scale * self.expectation(var, var_other, cov)


UNITS = {
    "cos": Units(cos_expectation, scale=2.0, weight_var=4.0, bias_var=0.0),
    "ReLU": Units(relu_expectation, scale=2.0, weight_var=1.0, bias_var=1.0),
    "erf": Units(erf_expectation, scale=1.0, weight_var=4.0, bias_var=1.0),
}


class Posterior(NamedTuple):
    """The Gaussian process on the grid, given some points.

    Attributes:
        mean: ``(L,)``.
        std: of f, without observation noise, ``(L,)``.
        draws: functions, ``(N_DRAWS, L)``.
    """

    mean: Tensor
    std: Tensor
    draws: Tensor


def panel() -> Panel:
    """The first panel of lesson 03: the units, how many points, and where one of them is."""
    return Panel(
        build_figure,
        Choice(
            name="units",
            label="units",
            values=tuple(UNITS),
            value="ReLU",
        ),
        Slider(
            name="n_points",
            label="points",
            values=NUMBERS,
            value=1,
            show="{:d}".format,
        ),
        Slider(
            name="x",
            label="your point: input x",
            values=PLACES,
            value=-2.0,
            show="{:+.1f}".format,
            web=PLACES[::2],
        ),
        Slider(
            name="y",
            label="its value y",
            values=VALUES,
            value=1.0,
            show="{:+.1f}".format,
            web=VALUES[::2],
        ),
        size=(9.4, 3.5),
    )


def build_figure(figure: Figure) -> Update:
    """Left: functions that pass through the points, with their mean and a band of two standard
    deviations; one point is red and can be moved. Right: the standard deviation against the input,
    before and after the points.
    """
    x = GRID.numpy()
    functions, deviations = figure.subplots(1, 2, width_ratios=(1.7, 1))
    figure.subplots_adjust(left=0.06, bottom=0.15, right=0.985, top=0.89, wspace=0.2)

    functions.set_title("Functions")
    functions.set(xlim=(x[0], x[-1]), xlabel="input x")
    functions.set(ylim=(-4, 4), ylabel="f(x)")
    band = functions.fill_between(x, 0 * x, 0 * x, color=tint(GREY, 0.4), lw=0, animated=True)
    curves = LineCollection([], colors=CYCLE[2 : 2 + N_DRAWS], lw=1.1, ls="-", animated=True)
    functions.add_collection(curves)
    (mean_line,) = functions.plot([], [], color=BLUE, ls="-", lw=2.4, animated=True)
    (others,) = functions.plot([], [], "o", color=INK, ms=8, animated=True)
    (yours,) = functions.plot([], [], "o", color=RED, ms=11, mec="white", animated=True)
    functions.legend(
        [mean_line, band, yours],
        ["mean", "± 2 std", "your point"],
        loc="lower right",
        bbox_to_anchor=(1.02, 0.99),
        ncols=3,
    )

    deviations.set_title("Std of f(x)")
    deviations.set(xlim=(x[0], x[-1]), xlabel="input x")
    deviations.set(ylim=(0, 4.4), ylabel="std")
    (prior_line,) = deviations.plot([], [], color=GREY, ls="--", animated=True)
    (std_line,) = deviations.plot([], [], color=BLUE, ls="-", animated=True)
    deviations.legend(
        [prior_line, std_line],
        ["before", "after"],
        loc="lower right",
        bbox_to_anchor=(1.04, 0.99),
        ncols=2,
    )

    def update(units: str, n_points: int, x: float, y: float) -> str:
        places, values = points(n_points, x, y)
        prior = condition(units, places[:0], values[:0])
        now = condition(units, places, values)
        inputs = GRID.numpy()
        band.set_data(inputs, now.mean - 2 * now.std, now.mean + 2 * now.std)
        curves.set_segments([np.column_stack([inputs, draw]) for draw in now.draws])
        mean_line.set_data(inputs, now.mean)
        yours.set_data(places[:1], values[:1])
        others.set_data(places[1:], values[1:])
        prior_line.set_data(inputs, prior.std)
        std_line.set_data(inputs, now.std)

        there = int((GRID - FAR).abs().argmin())
        number = {0: "No point", 1: "One point"}.get(n_points, f"{n_points} points")
        return (
            f"{number}. At x = {FAR:g} f has mean <b>{now.mean[there]:.2f}</b> and standard "
            f"deviation <b>{now.std[there]:.2f}</b>; before any point 0 and {prior.std[there]:.2f}."
        )

    return update


def points(n_points: int, x: float, y: float) -> tuple[Tensor, Tensor]:
    """Inputs and targets ``(n_points,)``: the reader's point first, then those that stand still."""
    chosen = [(x, y), *OTHERS][:n_points]
    table = torch.tensor(chosen, dtype=torch.float64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def condition(units: str, places: Tensor, values: Tensor) -> Posterior:
    """The process of these units given targets ``values`` at ``places``, ``(N,)`` each."""
    network = UNITS[units]
    C_noisy = network.kernel(places, places) + torch.eye(len(places), dtype=torch.float64) / TAU
    C_cross = network.kernel(places, GRID)
    gain = torch.linalg.solve(C_noisy, C_cross)
    var = network.kernel(GRID, GRID).diagonal() - (C_cross * gain).sum(0)

    free, noise = _prior_draws(units)
    index = [int((GRID - place).abs().argmin()) for place in places]
    surprise = values - free[:, index] - noise[:, : len(places)] / TAU**0.5
    return Posterior(
        mean=values @ gain,
        std=var.clamp(min=0).sqrt(),
        draws=free + surprise @ gain,
    )


@lru_cache
def _prior_draws(units: str) -> tuple[Tensor, Tensor]:
    """Functions on the grid ``(N_DRAWS, L)``, and noise of the points ``(N_DRAWS, 4)``."""
    rng = torch.Generator().manual_seed(SEED)
    normals = torch.randn(N_DRAWS, len(GRID), generator=rng, dtype=torch.float64)
    noise = torch.randn(N_DRAWS, NUMBERS[-1], generator=rng, dtype=torch.float64)
    eigenvalues, vectors = torch.linalg.eigh(UNITS[units].kernel(GRID, GRID))
    root = vectors * eigenvalues.clamp(min=0).sqrt() @ vectors.mT
    return normals @ root, noise
