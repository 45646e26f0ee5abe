"""Lesson 03: a random network grows wider, and its covariance tends to the closed form.

The layers are sampled on a grid of inputs, not weight by weight: given the layer below, the units
of a layer are independent Gaussian functions whose covariance is that layer's, so
``root(C) @ noise`` has exactly the distribution of the network's pre-activations. One unit is one
column of the noise: a wider network has more columns, and the others stay.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from torch import Tensor

from bdl_lessons.core import BLUE, CYCLE, GREY, INK, RED, tint
from bdl_lessons.panels.engine import Choice, Panel, Slider, Update
from bdl_lessons.reference import CosKernel, ErfKernel, NNGPKernel, ReLUKernel
from bdl_lessons.reference.random_features import NONLINEARITIES

WIDTHS = tuple(2**power for power in range(13))
DEPTHS = (1, 2, 3)
KERNELS = {"relu": ReLUKernel, "erf": ErfKernel, "cos": CosKernel}
WEIGHT_VAR, BIAS_VAR = 2.0, 0.2
GRID = torch.linspace(-2.5, 2.5, 41, dtype=torch.float64)
N_DRAWS = 4
SEED = 2  # a typical one: of 16, its error curves stay closest to their root mean square


class Noise(NamedTuple):
    """Standard normals of the hidden units ``(depth, N, width)``, of ``N_DRAWS`` last layers
    ``(N_DRAWS, width)`` and their biases ``(N_DRAWS, 1)``; and uniform phases ``(width,)``.
    """

    units: Tensor
    phases: Tensor
    last: Tensor
    bias: Tensor


class Network(NamedTuple):
    """One random network on the grid: its output covariance and functions drawn from it.

    ``covariance`` ``(N, N)`` is that of the output when only the last layer is random;
    ``draws`` ``(N_DRAWS, N)`` are outputs for as many last layers.
    """

    covariance: Tensor
    draws: Tensor


def panel() -> Panel:
    """The panel of lesson 03: width, nonlinearity and depth."""
    return Panel(
        build_figure,
        Slider("width", "K, hidden units per layer", WIDTHS, 16, "{:d}".format),
        Choice("nonlinearity", "φ, nonlinearity", tuple(KERNELS), "relu"),
        Slider("depth", "depth, hidden layers", DEPTHS, 1, "{:d}".format),
        size=(9.6, 3.4),
    )


def build_figure(figure: Figure) -> Update:
    """Left: four functions drawn from the network, over the band of the Gaussian process. Middle:
    two maps of the covariance, of this network and in the limit, that become alike. Right: the
    deviation between them falls like one over the root of the width.
    """
    boxes = [(0.055, 0.215, 0.65), (0.335, 0.182, 0.515), (0.555, 0.182, 0.515)]
    boxes += [(0.745, 0.012, 0.515), (0.875, 0.115, 0.65)]
    left, middle, right, bar, curve = (figure.add_axes((x, 0.16, w, h)) for x, w, h in boxes)
    x = GRID.numpy()
    noise = draw_noise(SEED)
    networks = {
        (nonlinearity, depth): [sample(nonlinearity, depth, width, noise) for width in WIDTHS]
        for nonlinearity in KERNELS
        for depth in DEPTHS
    }

    left.set(xlim=(x[0], x[-1]), ylim=(-6, 6), xlabel="input x", ylabel="output f(x)")
    left.set_title("Four functions; grey:\nmean ± 2 std for K = ∞")
    band = left.fill_between(x, 0 * x, 0 * x, color=tint(GREY, 0.35), lw=0, animated=True)
    lines = LineCollection([], colors=CYCLE[:N_DRAWS], linewidths=1.6, animated=True)
    left.add_collection(lines)

    images = []
    for axes, name in ((middle, "Covariance of\nthis network"), (right, "Covariance\nfor K = ∞")):
        extent = (x[0], x[-1], x[0], x[-1])
        blank = np.zeros((len(x), len(x)))
        images.append(axes.imshow(blank, extent=extent, origin="lower", animated=True))
        axes.set(xlabel="input x′", xticks=(-2, 0, 2), yticks=(-2, 0, 2), title=name)
    middle.set_ylabel("input x")
    right.set_yticks((-2, 0, 2), ("", "", ""))
    bar.imshow(np.linspace(0, 1, 64)[:, None], aspect="auto", origin="lower")
    bar.set(xticks=(), yticks=(), label="<colorbar>")
    bar.yaxis.set_label_position("right")
    bar.set_ylabel("Cov[f(x), f(x′)]")
    ends = [bar.text(1.4, y, "", transform=bar.transAxes, animated=True) for y in (-0.02, 0.96)]

    curve.set(xscale="log", yscale="log", ylim=(3e-3, 4), xlabel="width K")
    curve.set_xlim(0.8 * WIDTHS[0], 1.83 * WIDTHS[-1])
    curve.set(title="All widths", ylabel="relative deviation")
    curve.set_xticks(WIDTHS[::5], map(str, WIDTHS[::5]))
    curve.minorticks_off()
    slope = np.array(WIDTHS, dtype=float) ** -0.5
    curve.plot(WIDTHS, 1.6 * slope, color=GREY, linestyle="--", lw=1.2)
    curve.text(90, 0.6, "1/√K", color=INK)
    (errors,) = curve.plot([], [], color=BLUE, linestyle="-", animated=True)
    (here,) = curve.plot([], [], "o", color=RED, ms=8, animated=True)

    def update(width: int, nonlinearity: str, depth: int) -> str:
        exact = closed_form(nonlinearity, depth)
        seen = networks[nonlinearity, depth]
        network = seen[WIDTHS.index(width)]
        std = exact.diagonal().sqrt().numpy()
        band.set_data(x, -2 * std, 2 * std)
        lines.set_segments([np.stack([x, draw], 1) for draw in network.draws.numpy()])
        limits = min(0.0, exact.min().item()), exact.max().item()
        for image, k in zip(images, (network.covariance, exact), strict=True):
            image.set(data=k.numpy(), clim=limits)
        for end, value in zip(ends, limits, strict=True):
            end.set_text(f"{value:.1f}")
        relative = [_relative_error(n.covariance, exact) for n in seen]
        errors.set_data(WIDTHS, relative)
        here.set_data([width], [relative[WIDTHS.index(width)]])
        return (
            f"{depth} hidden layer{'s' if depth > 1 else ''} of <b>{width}</b> {nonlinearity} "
            f"unit{'s' if width > 1 else ''}. The covariance deviates from that of the infinitely "
            f"wide network by <b>{relative[WIDTHS.index(width)]:.1%}</b> of its size."
        )

    return update


def draw_noise(seed: int) -> Noise:
    """The random numbers of one network, for the largest width and depth of the panel.

    Each quantity and each layer has a generator of its own, and a unit is drawn after the other: a
    wider or deeper grid leaves all numbers that it had.
    """
    widest = max(WIDTHS)

    def generator(stream: int) -> torch.Generator:
        return torch.Generator().manual_seed(100 * seed + stream)

    def normal(stream: int, *shape: int) -> Tensor:
        return torch.randn(shape, generator=generator(stream), dtype=torch.float64)

    units = [normal(3 + layer, widest, len(GRID)).mT for layer in range(max(DEPTHS))]
    phases = 2 * torch.pi * torch.rand(widest, generator=generator(0), dtype=torch.float64)
    return Noise(torch.stack(units), phases, normal(1, widest, N_DRAWS).mT, normal(2, N_DRAWS, 1))


def sample(nonlinearity: str, depth: int, width: int, noise: Noise) -> Network:
    """A random network of ``depth`` hidden layers of ``width`` units, on the grid."""
    covariance = BIAS_VAR + WEIGHT_VAR * GRID[:, None] * GRID
    for layer in range(depth):
        units = _root(covariance) @ noise.units[layer, :, :width]
        if nonlinearity == "cos":
            units = units + noise.phases[:width]
        phi = NONLINEARITIES[nonlinearity](units) / width**0.5
        covariance = BIAS_VAR + WEIGHT_VAR * phi @ phi.mT
    draws = WEIGHT_VAR**0.5 * noise.last[:, :width] @ phi.mT + BIAS_VAR**0.5 * noise.bias
    return Network(covariance, draws)


@lru_cache
@torch.no_grad()
def closed_form(nonlinearity: str, depth: int) -> Tensor:
    """The covariance ``(N, N)`` of the infinitely wide network on the grid."""
    kernel: NNGPKernel = KERNELS[nonlinearity](depth).double()
    kernel.weight_var, kernel.bias_var = WEIGHT_VAR, BIAS_VAR
    return kernel(GRID.unsqueeze(-1)).to_dense()


def _relative_error(k: Tensor, exact: Tensor) -> float:
    return ((k - exact).norm() / exact.norm()).item()


def _root(covariance: Tensor) -> Tensor:
    values, vectors = torch.linalg.eigh(covariance)
    return vectors * values.clamp(min=0).sqrt() @ vectors.mT
