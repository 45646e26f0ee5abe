"""Lesson 09: the posterior of the 50-unit network by Hamiltonian Monte Carlo.

The same network, prior, noise and data as in ``in_between_uncertainty``, depth 1. Given the hidden
layer, the output layer is a Bayesian linear regression, whose posterior is known in closed form
(lesson 02). So the chains only have to draw the hidden layer, from its marginal posterior.
"""

import numpy as np
import torch
from torch import Tensor
from torch.linalg import solve_triangular

from bdl_lessons.datasets import origin_clusters
from bdl_lessons.panels.in_between_uncertainty import POSITION, WEIGHT_STDS
from bdl_lessons.reference import effective_sample_size, hmc, split_r_hat
from reproductions.panel_arrays.in_between_uncertainty import NOISE_VAR, WIDTH

N_SHOWN = 100


def make_arrays(
    n_chains: int = 8, n_warmup: int = 200, n_draws: int = 600, n_leapfrog: int = 140
) -> dict[str, np.ndarray]:
    """Sample; return what the posterior says along the diagonal (three minutes on one core).

    ``mean`` and ``std`` of f, from their moments given the hidden layer; ``std_error``,
    from the scatter of ``chain_std (chains, 113)``, the std by each chain alone; ``draws (100,
    113)`` of f. Of the mean and of the variance of f given the hidden layer, the two things that
    the chains have to explore: ``r_hat_mean``, ``r_hat_variance``, ``ess_mean`` and
    ``ess_variance``. All are ``(113,)`` but those with a shape, and ``acceptance (chains,)``.
    """
    data = origin_clusters()
    x, y = data.x.double(), data.y.double()
    line = torch.from_numpy(POSITION)[:, None].expand(-1, 2)
    generator = torch.Generator().manual_seed(9)
    start = torch.randn(n_chains, 3, WIDTH, generator=generator, dtype=torch.float64)
    hidden, acceptance = hmc(
        lambda hidden: minus_log_posterior(hidden, x, y),
        *(start, n_warmup, n_draws),
        generator=generator,
        n_leapfrog=n_leapfrog,
        step_size=0.003,
    )
    means, variances, draws = [], [], []
    for layers in hidden:
        mean, root = output(layers, x, y, line)
        noise = torch.randn(n_chains, 1, WIDTH + 1, generator=generator, dtype=torch.float64)
        means.append(mean)
        variances.append(root.square().sum(1))
        draws.append(mean + (noise @ root).squeeze(1))
    mean, variance, f = (torch.stack(part) for part in (means, variances, draws))
    chain_std = (mean.var(0) + variance.mean(0)).sqrt()
    stored = {
        "mean": mean.mean((0, 1)),
        "std": (mean.flatten(0, 1).var(0) + variance.mean((0, 1))).sqrt(),
        "std_error": chain_std.std(0) / n_chains**0.5,
        "chain_std": chain_std,
        "draws": f.flatten(0, 1)[:: max(1, n_chains * n_draws // N_SHOWN)][:N_SHOWN].float(),
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


def minus_log_posterior(hidden: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """``-log p(hidden | x, y) (...)`` in nats up to a constant, and its gradient ``(..., 3, 50)``.

    The output weights are integrated out. With ``r`` the residuals under their posterior mean
    ``m`` and ``A`` their precision, the gradient in ``Phi`` is ``(Phi A^-1 - r m') / noise_var``;
    written out, it takes a third of the time of automatic differentiation.
    """
    Phi = features(hidden, x)
    factor, mean = _regression(Phi, y)
    residual = y - (Phi @ mean[..., None])[..., 0]
    log_det = 2 * factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    value = (hidden.square().sum((-2, -1)) + residual @ y / NOISE_VAR + log_det) / 2
    outer = residual[..., None] * mean[..., None, :]
    slope = (Phi @ torch.cholesky_inverse(factor) - outer) / NOISE_VAR
    slope = (_V_STD * slope * (Phi > 0))[..., :-1]  # back through the relu
    in_weights = torch.cat([_W_STD * x.T @ slope, slope.sum(-2, keepdim=True)], -2)
    return value, hidden + in_weights


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
