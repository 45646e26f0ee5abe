"""Lesson 03: a random network grows wider, and its covariance tends to the closed form.

The layers are sampled on a grid of inputs, not weight by weight: given the layer below, the units
of a layer are independent Gaussian functions whose covariance is that layer's, so
``root(C) @ noise`` has exactly the distribution of the network's pre-activations. One unit is one
column of the noise: a wider network has more columns, and the others stay.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from torch import Tensor

from bdl_lessons.core import BLUE, CYCLE, GREY, INK, RED, tint
from bdl_lessons.panels.engine import Choice, Panel, Slider, Update
from bdl_lessons.reference import CosKernel, ErfKernel, NNGPKernel, ReLUKernel
from bdl_lessons.reference.random_features import NONLINEARITIES

WIDTHS = tuple(2**power for power in range(13))
DEPTHS = (1, 2, 3)
KERNELS = {"relu": ReLUKernel, "erf": ErfKernel, "cos": CosKernel}
WEIGHT_VAR = 2.0
BIAS_VAR = 0.2
GRID = torch.linspace(-2.5, 2.5, 41, dtype=torch.float64)
N_DRAWS = 4
SEED = 2  # a typical one: of 16, its error curves stay closest to their root mean square


class Noise(NamedTuple):
    """The random numbers of one network.

    Attributes:
        units: standard normals of the hidden units, ``(depth, N, width)``.
        phases: uniform ones of the hidden units, ``(width,)``.
        last: standard normals of ``N_DRAWS`` last layers, ``(N_DRAWS, width)``.
        bias: and of their biases, ``(N_DRAWS, 1)``.
    """

    units: Tensor
    phases: Tensor
    last: Tensor
    bias: Tensor


class Network(NamedTuple):
    """One random network on the grid.

    Attributes:
        covariance: of the output if only its last layer is random, ``(N, N)``.
        draws: outputs for as many last layers, ``(N_DRAWS, N)``.
    """

    covariance: Tensor
    draws: Tensor


def panel() -> Panel:
    """The panel of lesson 03: width, nonlinearity and depth."""
    return Panel(
        build_figure,
        Slider(
            name="width",
            label="K, hidden units per layer",
            values=WIDTHS,
            value=16,
            show="{:d}".format,
        ),
        Choice(
            name="nonlinearity",
            label="φ, nonlinearity",
            values=tuple(KERNELS),
            value="relu",
        ),
        Slider(
            name="depth",
            label="depth, hidden layers",
            values=DEPTHS,
            value=1,
            show="{:d}".format,
        ),
        size=(9.6, 3.4),
    )


def build_figure(figure: Figure) -> Update:
    """Left: four functions drawn from the network, over the band of the Gaussian process. Middle:
    two maps of the covariance, of this network and in the limit, that become alike. Right: the
    deviation between them falls like one over the root of the width.
    """
    x = GRID.numpy()
    noise = draw_noise(SEED)
    networks = {}
    for nonlinearity in KERNELS:
        for depth in DEPTHS:
            networks[nonlinearity, depth] = [
                sample(nonlinearity, depth, width, noise) for width in WIDTHS
            ]
    functions = figure.add_axes((0.055, 0.16, 0.215, 0.65))
    this_network = figure.add_axes((0.335, 0.16, 0.182, 0.515))
    limit = figure.add_axes((0.555, 0.16, 0.182, 0.515))
    colour_bar = figure.add_axes((0.745, 0.16, 0.012, 0.515))
    all_widths = figure.add_axes((0.875, 0.16, 0.115, 0.65))

    functions.set_title("Four functions; grey:\nmean ± 2 std for K = ∞")
    functions.set(xlim=(x[0], x[-1]), xlabel="input x")
    functions.set(ylim=(-6, 6), ylabel="output f(x)")
    band = functions.fill_between(x, 0 * x, 0 * x, color=tint(GREY, 0.35), lw=0, animated=True)
    function_lines = LineCollection([], colors=CYCLE[:N_DRAWS], linewidths=1.6, animated=True)
    functions.add_collection(function_lines)

    this_network.set_title("Covariance of\nthis network")
    limit.set_title("Covariance\nfor K = ∞")
    this_network_image = _draw_map(this_network)
    limit_image = _draw_map(limit)
    this_network.set_ylabel("input x")
    limit.set_yticklabels(["", "", ""])

    colour_bar.imshow(np.linspace(0, 1, 64)[:, None], aspect="auto", origin="lower")
    colour_bar.set(xticks=(), yticks=(), label="<colorbar>")
    colour_bar.yaxis.set_label_position("right")
    colour_bar.set_ylabel("Cov[f(x), f(x′)]")
    lowest = colour_bar.text(1.4, -0.02, "", transform=colour_bar.transAxes, animated=True)
    highest = colour_bar.text(1.4, 0.96, "", transform=colour_bar.transAxes, animated=True)

    all_widths.set_title("All widths")
    all_widths.set(xscale="log", xlabel="width K")
    all_widths.set_xlim(0.8 * WIDTHS[0], 1.83 * WIDTHS[-1])
    all_widths.set_xticks(WIDTHS[::5], map(str, WIDTHS[::5]))
    all_widths.set(yscale="log", ylim=(3e-3, 4), ylabel="relative deviation")
    all_widths.minorticks_off()
    root_k = np.sqrt(WIDTHS)
    all_widths.plot(WIDTHS, 1.6 / root_k, color=GREY, ls="--", lw=1.2)
    all_widths.text(90, 0.6, "1/√K", color=INK)
    (deviation_line,) = all_widths.plot([], [], color=BLUE, ls="-", animated=True)
    (here,) = all_widths.plot([], [], "o", color=RED, ms=8, animated=True)

    def update(width: int, nonlinearity: str, depth: int) -> str:
        exact = closed_form(nonlinearity, depth)
        at_width = WIDTHS.index(width)
        network = networks[nonlinearity, depth][at_width]

        std = exact.diagonal().sqrt().numpy()
        band.set_data(x, -2 * std, 2 * std)
        function_lines.set_segments([np.column_stack([x, draw]) for draw in network.draws])

        low = min(0.0, exact.min().item())
        high = exact.max().item()
        this_network_image.set(data=network.covariance.numpy(), clim=(low, high))
        limit_image.set(data=exact.numpy(), clim=(low, high))
        lowest.set_text(f"{low:.1f}")
        highest.set_text(f"{high:.1f}")

        deviations = [
            ((one.covariance - exact).norm() / exact.norm()).item()
            for one in networks[nonlinearity, depth]
        ]
        deviation = deviations[at_width]
        deviation_line.set_data(WIDTHS, deviations)
        here.set_data([width], [deviation])
        layers = "1 hidden layer" if depth == 1 else f"{depth} hidden layers"
        units = "unit" if width == 1 else "units"
        return (
            f"{layers} of <b>{width}</b> {nonlinearity} {units}. The covariance deviates from "
            f"that of the infinitely wide network by <b>{deviation:.1%}</b> of its size."
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
    uniform = torch.rand(widest, generator=generator(0), dtype=torch.float64)
    return Noise(
        units=torch.stack(units),
        phases=2 * torch.pi * uniform,
        last=normal(1, widest, N_DRAWS).mT,
        bias=normal(2, N_DRAWS, 1),
    )


def sample(nonlinearity: str, depth: int, width: int, noise: Noise) -> Network:
    """A random network of ``depth`` hidden layers of ``width`` units, on the grid."""
    covariance = BIAS_VAR + WEIGHT_VAR * GRID[:, None] * GRID
    for layer in range(depth):
        units = _root(covariance) @ noise.units[layer, :, :width]
        if nonlinearity == "cos":
            units = units + noise.phases[:width]
        phi = NONLINEARITIES[nonlinearity](units) / width**0.5
        covariance = BIAS_VAR + WEIGHT_VAR * phi @ phi.mT
    weights = WEIGHT_VAR**0.5 * noise.last[:, :width]
    biases = BIAS_VAR**0.5 * noise.bias
    return Network(covariance=covariance, draws=weights @ phi.mT + biases)


@lru_cache
@torch.no_grad()
def closed_form(nonlinearity: str, depth: int) -> Tensor:
    """The covariance ``(N, N)`` of the infinitely wide network on the grid."""
    kernel: NNGPKernel = KERNELS[nonlinearity](depth).double()
    kernel.weight_var = WEIGHT_VAR
    kernel.bias_var = BIAS_VAR
    return kernel(GRID.unsqueeze(-1)).to_dense()


def _root(covariance: Tensor) -> Tensor:
    """The symmetric square root."""
    values, vectors = torch.linalg.eigh(covariance)
    return vectors * values.clamp(min=0).sqrt() @ vectors.mT


def _draw_map(axes: Axes) -> AxesImage:
    """A blank map of a covariance over two inputs."""
    first = GRID[0].item()
    last = GRID[-1].item()
    image = axes.imshow(
        np.zeros((len(GRID), len(GRID))),
        extent=(first, last, first, last),
        origin="lower",
        animated=True,
    )
    axes.set(xlabel="input x′", xticks=(-2, 0, 2), yticks=(-2, 0, 2))
    return image
