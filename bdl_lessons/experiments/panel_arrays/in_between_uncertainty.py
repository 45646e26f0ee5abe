"""Lesson 09: dropout networks on two clusters, and the Gaussian processes that they stand beside.

Networks of one, two and three hidden layers are trained with dropout on the hidden units, one for
each rate. The Gaussian process is their infinitely wide, exact counterpart: the same prior, the
same noise, the same points.
"""

from __future__ import annotations

import itertools

import numpy as np
import torch
from torch import Tensor

from bdl_lessons.datasets.toy import origin_clusters
from bdl_lessons.reference import ReLUKernel, gp_posterior

RATES = (0.02, 0.05, 0.1, 0.2, 0.5)
WEIGHT_STDS = {1: 4.0, 2: 3.0, 3: 2.25}  # Foong et al.: the prior's scale at each depth
NOISE_VAR = 0.1**2
WIDTH = 50
POSITION = np.linspace(-1.4, 1.4, 113)  # both inputs equal: the diagonal through both clusters
N_SHOWN = 12


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
    """Dropout networks of one depth, all rates in one batch: weights ``(rates, in, out)``.

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
