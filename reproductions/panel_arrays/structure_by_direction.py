"""Lesson 14: the best posteriors with T reflections of a linear model with eight correlated inputs.

The negative ELBO of a Gaussian q with the exact posterior's mean is, up to a constant,
``KL(q || posterior) = ½ (tr(Lambda Sigma) - K - log det(Lambda Sigma))``; no data are drawn in it.
"""

import numpy as np
import torch
from torch import Tensor

from bdl_lessons.panels.structure_by_direction import N_INPUTS, N_TRAIN, REFLECTIONS
from bdl_lessons.probability import reflect

NOISE_STD = 0.7
CORRELATION = 0.9
"""Of any two inputs."""


def make_arrays(n_steps: int = 1500, n_starts: int = 40) -> dict[str, np.ndarray]:
    """Inputs ``x (N, K)``, the exact covariance ``(sizes, K, K)``, the best ``q (sizes, T, K, K)``.

    The prior of the weights is N(0, 1). A smaller training set has the first rows of ``x``.
    """
    generator = torch.Generator().manual_seed(0)
    n_rows = max(N_TRAIN)
    common = torch.randn(n_rows, 1, generator=generator, dtype=torch.float64)
    independent = torch.randn(n_rows, N_INPUTS, generator=generator, dtype=torch.float64)
    x = CORRELATION**0.5 * common + (1 - CORRELATION) ** 0.5 * independent
    theta = torch.randn(N_INPUTS, generator=generator, dtype=torch.float64)
    noise = torch.randn(n_rows, generator=generator, dtype=torch.float64)
    y = x @ theta + NOISE_STD * noise

    exact = []
    best = []
    for n_train in N_TRAIN:
        rows = x[:n_train]
        precision = rows.T @ rows / NOISE_STD**2 + torch.eye(N_INPUTS, dtype=torch.float64)
        covariance = torch.linalg.inv(precision)
        mean = covariance @ rows.T @ y[:n_train] / NOISE_STD**2
        exact.append(covariance)
        best.append(
            torch.stack(
                [
                    best_covariance(precision, mean, n_reflections, n_steps, n_starts, generator)
                    for n_reflections in REFLECTIONS
                ]
            )
        )
    return {
        "x": x.numpy(),
        "exact": torch.stack(exact).numpy(),
        "q": torch.stack(best).numpy(),
    }


def best_covariance(
    precision: Tensor,
    mean: Tensor,
    n_reflections: int,
    n_steps: int,
    n_starts: int,
    generator: torch.Generator,
) -> Tensor:
    """``diag(m) U diag(alpha) U' diag(m)``, ``(K, K)``, nearest to the posterior of ``n_starts``.

    Without reflections the best variances are known: ``1 / Lambda_ii``.
    """
    if n_reflections == 0:
        return torch.diag(1 / precision.diagonal())
    (n_weights,) = mean.shape
    at_independent = -(precision.diagonal() * mean.square()).log()
    spread = torch.randn(n_starts, n_weights, generator=generator, dtype=torch.float64)
    log_alpha = (at_independent + 0.5 * spread).requires_grad_()
    vectors = torch.randn(n_starts, n_reflections, n_weights, generator=generator).double()
    vectors.requires_grad_()
    optimizer = torch.optim.Adam([log_alpha, vectors], lr=0.1)

    def covariances() -> Tensor:
        noise = torch.diag_embed((log_alpha / 2).exp())  # row i: component i of the noise
        reflected = torch.vmap(reflect)(noise, vectors)
        components = mean * reflected
        return components.mT @ components

    def kl(covariance: Tensor) -> Tensor:
        trace = (precision @ covariance).diagonal(dim1=1, dim2=2).sum(1)
        log_determinant = torch.logdet(precision) + torch.logdet(covariance)
        return (trace - n_weights - log_determinant) / 2

    for step in range(n_steps):
        optimizer.param_groups[0]["lr"] = 0.1 * (1 - step / n_steps)
        optimizer.zero_grad()
        kl(covariances()).sum().backward()
        optimizer.step()
    with torch.no_grad():
        covariance = covariances()
        return covariance[kl(covariance).argmin()]
