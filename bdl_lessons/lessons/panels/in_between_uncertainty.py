"""Lesson 09: uncertainty between two clusters, exact Gaussian process against MC dropout.

Networks of one, two and three hidden layers were trained with dropout on the hidden units, one for
each rate of the slider. The Gaussian process is their infinitely wide, exact counterpart: the same
prior, the same noise, the same points.
"""

from __future__ import annotations

import itertools

import numpy as np
import torch
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from torch import Tensor

from bdl_lessons.core import BLUE, GREY, INK, tint
from bdl_lessons.datasets.synthetic import origin_clusters
from bdl_lessons.lessons.panel import Panel, Slider, Update
from bdl_lessons.lessons.panels import arrays
from bdl_lessons.reference import ReLUKernel, gp_posterior

RATES = (0.02, 0.05, 0.1, 0.2, 0.5)
WEIGHT_STDS = {1: 4.0, 2: 3.0, 3: 2.25}  # Foong et al.: the prior's scale at each depth
NOISE_VAR = 0.1**2
WIDTH = 50
POSITION = np.linspace(-1.4, 1.4, 113)  # both inputs equal: the diagonal through both clusters
POSITION_LABEL = "position s, at input (s, s)"
N_SHOWN = 12


def panel() -> Panel:
    """The depth of the networks and the dropout rate."""
    return Panel(
        "between-clusters",
        build_figure,
        [
            Slider("depth", "hidden layers", tuple(WEIGHT_STDS), 1),
            Slider("p_drop", "p_drop, drop probability", RATES, 0.05, "{:.2f}".format),
        ],
        size=(9.4, 3.5),
    )


def build_figure(figure: Figure) -> Update:
    """Left: draws and two-standard-deviation bands. Right: the standard deviations, log scale."""
    stored = arrays.load("in_between_uncertainty")
    left, right = figure.subplots(1, 2, width_ratios=(1.2, 1))
    figure.subplots_adjust(0.06, 0.15, 0.985, 0.9, wspace=0.22)
    left.set(xlim=(-1.4, 1.4), ylim=(-4, 12), xlabel=POSITION_LABEL, ylabel="y")
    left.set_title("Mean ± 2 standard deviations")
    process = left.fill_between([], [], color=tint(GREY, 0.35), lw=0, animated=True)
    net = left.fill_between([], [], color=tint(BLUE, 0.35), lw=0, animated=True)
    draws = left.add_collection(
        LineCollection([], colors=BLUE, lw=0.6, linestyles="-", animated=True)
    )
    left.plot(stored["x"], stored["y"], ".", ms=3, color=INK, animated=True, zorder=3)
    left.legend([process, net], ["Gaussian process", "MC dropout"], loc="upper left")

    right.set(xlim=(-1.4, 1.4), xlabel=POSITION_LABEL, ylabel="standard deviation of f")
    right.set(yscale="log", ylim=(1e-3, 8), title="In between")
    for centre in (-1, 1):
        right.axvline(centre, color=GREY, linestyle=":", lw=1)
    (gp_line,) = right.plot([], [], color=INK, linestyle="--", animated=True)
    (net_line,) = right.plot([], [], color=BLUE, linestyle="-", animated=True)
    right.legend([gp_line, net_line], ["Gaussian process", "MC dropout"], loc="lower right")

    def update(depth: int, p_drop: float) -> str:
        which = RATES.index(p_drop)
        mean, std = stored[f"mean_{depth}"][which], stored[f"std_{depth}"][which]
        gp_mean, gp_std = stored[f"gp_mean_{depth}"], stored[f"gp_std_{depth}"]
        process.set_data(POSITION, gp_mean - 2 * gp_std, gp_mean + 2 * gp_std)
        net.set_data(POSITION, mean - 2 * std, mean + 2 * std)
        lines = stored[f"draws_{depth}"][which]
        draws.set_segments([np.stack([POSITION, line], 1) for line in lines])
        gp_line.set_data(POSITION, gp_std)
        net_line.set_data(POSITION, std)
        return (
            f"Standard deviation in the gap over that at the clusters: Gaussian process "
            f"<b>{gap_ratio(gp_std):.1f}</b>, MC dropout <b>{gap_ratio(std):.2f}</b>."
        )

    return update


def gap_ratio(std: np.ndarray) -> float:
    """Standard deviation in the middle, over the larger of the two at the cluster centres."""
    left, middle, right = np.interp([-1.0, 0.0, 1.0], POSITION, std)
    return float(middle / max(left, right))


def make_arrays(n_steps: int = 6000, n_draws: int = 2000) -> dict[str, np.ndarray]:
    """Train a net for each depth and rate; return what the nets and the processes say."""
    data = origin_clusters()
    x, y = data.x.double(), data.y.double()
    line = torch.from_numpy(POSITION)[:, None].expand(-1, 2)
    stored: dict[str, np.ndarray] = {"x": x.mean(1).numpy(), "y": y.numpy()}
    for depth, weight_std in WEIGHT_STDS.items():
        kernel = ReLUKernel(depth, weight_var=weight_std**2, bias_var=1.0)
        with torch.no_grad():
            covariances = (kernel(*pair).to_dense() for pair in ((x, x), (x, line), (line, line)))
            mean, cov = gp_posterior(*covariances, y, NOISE_VAR)
        stored[f"gp_mean_{depth}"] = mean.numpy()
        stored[f"gp_std_{depth}"] = cov.diagonal().sqrt().numpy()
        layers = train(x, y, depth, n_steps)
        generator = torch.Generator().manual_seed(2)
        with torch.no_grad():
            draws = torch.stack(
                [_network(layers, line, generator, rows=1) for _ in range(n_draws)]
            ).transpose(0, 1)  # (rates, draws, positions)
        stored[f"mean_{depth}"] = draws.mean(1).numpy()
        stored[f"std_{depth}"] = draws.std(1, correction=0).numpy()
        stored[f"draws_{depth}"] = draws[:, :N_SHOWN].float().numpy()
    return stored


def train(x: Tensor, y: Tensor, depth: int, n_steps: int) -> list[tuple[Tensor, Tensor]]:
    """Dropout networks of one depth, all rates side by side: weights ``(rates, in, out)``.

    The loss is the negative ELBO of lesson 04 up to constants, summed over the data:
    ``|y - f|^2 / (2 noise_var)`` plus the prior's L2 terms. Masks are fresh for every point.
    """
    generator = torch.Generator().manual_seed(depth)
    sizes = [x.shape[1], *[WIDTH] * depth, 1]
    weight_var = WEIGHT_STDS[depth] ** 2
    keep = 1 - torch.tensor(RATES, dtype=torch.float64)[:, None, None]
    layers = []
    for n_in, n_out in itertools.pairwise(sizes):
        draw = torch.randn(n_in, n_out, generator=generator, dtype=torch.float64)
        weight = (draw * n_in**-0.5).expand(len(RATES), -1, -1).clone().requires_grad_()
        bias = torch.zeros(len(RATES), 1, n_out, dtype=torch.float64, requires_grad=True)
        layers.append((weight, bias))
    parameters = [part for layer in layers for part in layer]
    optimiser = torch.optim.Adam(parameters, lr=1e-2, fused=True)
    schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.01, n_steps)
    for _ in range(n_steps):
        error = y - _network(layers, x, generator, rows=len(x))
        loss = error.square().sum() / (2 * NOISE_VAR)
        for index, (weight, bias) in enumerate(layers):
            scale = keep if index else torch.ones_like(keep)
            l2 = (weight.square() / scale).sum() * weight.shape[1] / weight_var
            loss = loss + l2 / 2 + bias.square().sum() / 2
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    return [(weight.detach(), bias.detach()) for weight, bias in layers]


def _network(
    layers: list[tuple[Tensor, Tensor]], x: Tensor, generator: torch.Generator, rows: int
) -> Tensor:
    """Outputs ``(rates, B)``. Masks: one for each point if ``rows`` is B, one shared if 1."""
    keep = 1 - torch.tensor(RATES, dtype=torch.float64)[:, None, None]
    h = x
    for index, (weight, bias) in enumerate(layers):
        if index:
            uniforms = torch.rand(rows, WIDTH, generator=generator, dtype=torch.float64)
            h = torch.relu(h) * (uniforms < keep) / keep
        h = h @ weight + bias
    return h.squeeze(-1)
