"""Lesson 09: the posterior of the 50-unit network by Hamiltonian Monte Carlo.

The same network, prior, noise and data as in ``in_between_uncertainty``, depth 1. Given the hidden
layer, the output layer is a Bayesian linear regression, whose posterior is known in closed form
(lesson 02). So the chains only have to draw the hidden layer, from its marginal posterior.
"""

import numpy as np
import torch
from torch import Tensor
from torch.linalg import solve_triangular

from bdl_lessons.panels.in_between_uncertainty import WEIGHT_STDS
from bdl_lessons.reference import effective_sample_size, hmc, split_r_hat
from reproductions.panel_arrays.in_between_uncertainty import NOISE_VAR, WIDTH, clusters

N_CHAINS, N_DRAWS, N_SHOWN = 8, 600, 100


def make_arrays() -> dict[str, np.ndarray]:
    """Sample; return what the posterior says along the diagonal (ten minutes on one core).

    ``mean`` and ``std`` of f, from their moments given the hidden layer; ``std_error``,
    from the scatter of ``chain_std (chains, 113)``, the std by each chain alone; ``draws (100,
    113)`` of f. Of the mean and of the variance of f given the hidden layer, the two things that
    the chains have to explore: ``r_hat_mean``, ``r_hat_variance``, ``ess_mean`` and
    ``ess_variance``. All are ``(113,)`` but those with a shape, and ``acceptance (chains,)``.
    """
    x, y, line = clusters()
    generator = torch.Generator().manual_seed(9)
    start = torch.randn(N_CHAINS, 3, WIDTH, generator=generator, dtype=torch.float64)
    how = {"n_leapfrog": 140, "step_size": 0.003, "generator": generator}
    hidden, acceptance = hmc(lambda h: minus_log_posterior(h, x, y), start, 200, N_DRAWS, **how)
    mean, root = output(hidden, x, y, line)  # (draws, chains, 113), (draws, chains, 51, 113)
    noise = torch.randn(N_DRAWS, N_CHAINS, 1, WIDTH + 1, generator=generator, dtype=mean.dtype)
    f, variance = mean + (noise @ root).squeeze(2), root.square().sum(2)
    chain_std = (mean.var(0) + variance.mean(0)).sqrt()
    stored = {
        "mean": mean.mean((0, 1)),
        "std": (mean.flatten(0, 1).var(0) + variance.mean((0, 1))).sqrt(),
        "std_error": chain_std.std(0) / N_CHAINS**0.5,
        "chain_std": chain_std,
        "draws": f.flatten(0, 1)[:: N_CHAINS * N_DRAWS // N_SHOWN].float(),
        "r_hat_mean": split_r_hat(mean),
        "r_hat_variance": split_r_hat(variance),
        "ess_mean": effective_sample_size(mean),
        "ess_variance": effective_sample_size(variance),
        "acceptance": acceptance,
    }
    return {name: values.numpy() for name, values in stored.items()}


def features(hidden: Tensor, x: Tensor) -> Tensor:
    """What the output layer multiplies, ``(..., B, 51)``: hidden units in the prior's scale, and 1.

    ``hidden (..., 3, 50)`` holds both weights and the bias of each unit over their prior stds, so
    that its prior is standard normal, and so is that of the output weights.
    """
    units = torch.relu(x @ hidden[..., :2, :] * _W_STD + hidden[..., 2:, :])
    return torch.cat([_V_STD * units, torch.ones_like(units[..., :1])], -1)


@torch.enable_grad()
def minus_log_posterior(hidden: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """``-log p(hidden | x, y) (...)`` in nats up to a constant, and its gradient ``(..., 3, 50)``.

    The output weights are integrated out.
    """
    hidden = hidden.detach().requires_grad_()
    Phi = features(hidden, x)
    factor, mean = _regression(Phi, y)
    residual = y - (Phi @ mean[..., None])[..., 0]
    log_det = 2 * factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    value = (hidden.square().sum((-2, -1)) + residual @ y / NOISE_VAR + log_det) / 2
    return value.detach(), torch.autograd.grad(value.sum(), hidden)[0]


def output(hidden: Tensor, x: Tensor, y: Tensor, x_new: Tensor) -> tuple[Tensor, Tensor]:
    """Mean ``(..., B)`` of f at ``x_new`` given the hidden layer, and a root ``(..., 51, B)`` of
    its covariance: its columns' squared lengths are the variances."""
    factor, mean = _regression(features(hidden, x), y)
    Phi = features(hidden, x_new)
    return (Phi @ mean[..., None])[..., 0], solve_triangular(factor, Phi.mT, upper=False)


_W_STD = WEIGHT_STDS[1] / 2**0.5  # two inputs
_V_STD = WEIGHT_STDS[1] / WIDTH**0.5


def _regression(Phi: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """The precision's Cholesky factor and the mean of the output weights (lesson 02)."""
    precision = Phi.mT @ Phi / NOISE_VAR + torch.eye(Phi.shape[-1], dtype=Phi.dtype)
    factor = torch.linalg.cholesky(precision)
    return factor, torch.cholesky_solve((Phi.mT @ y / NOISE_VAR)[..., None], factor)[..., 0]
