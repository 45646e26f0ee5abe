"""Lesson 09: the posterior of the 50-unit network by Hamiltonian Monte Carlo.

The same network, prior, noise and data as in ``in_between_uncertainty``, depth 1. Given the hidden
layer, the output layer is a Bayesian linear regression, whose posterior is known in closed form
(lesson 02). So Pyro's no-U-turn sampler only has to draw the hidden layer, from its marginal
posterior. That is far better conditioned than the posterior of all weights.
"""

from __future__ import annotations

import importlib
from types import ModuleType

import numpy as np
import torch
from torch import Tensor
from torch.linalg import solve_triangular

from bdl_lessons.datasets.toy import origin_clusters
from bdl_lessons.experiments.panel_arrays.in_between_uncertainty import (
    NOISE_VAR,
    POSITION,
    WEIGHT_STDS,
    WIDTH,
)

N_SHOWN = 100


def make_arrays(
    n_chains: int = 4, n_warmup: int = 400, n_draws: int = 500, max_tree_depth: int = 7
) -> dict[str, np.ndarray]:
    """Sample; return what the posterior says along the diagonal (20 minutes on one core).

    ``mean`` and ``std`` of f, by the law of total variance over the hidden layers; the ``chain_std
    (chains, 113)`` of each chain alone; ``draws (100, 113)`` of f; its ``r_hat`` (split) and
    ``ess``, and ``r_hat_mean`` of the mean of f given the hidden layer, which mixes more slowly,
    all ``(113,)``; the number of ``divergences``.

    Raises:
        ModuleNotFoundError: if Pyro is not installed.
    """
    stats = _pyro("pyro.ops.stats")
    data = origin_clusters()
    x, y = data.x.double(), data.y.double()
    line = torch.from_numpy(POSITION)[:, None].expand(-1, 2)
    means, variances, draws, divergences = [], [], [], 0
    for chain in range(n_chains):
        hidden, n_divergent = sample_hidden(x, y, chain, n_warmup, n_draws, max_tree_depth)
        moments = [output(h, x, y, line) for h in hidden]
        means.append(torch.stack([mean for mean, _ in moments]))
        variances.append(torch.stack([root.square().sum(0) for _, root in moments]))
        generator = torch.Generator().manual_seed(chain)
        noise = torch.randn(n_draws, WIDTH + 1, 1, generator=generator, dtype=torch.float64)
        roots = torch.stack([root for _, root in moments])
        draws.append(means[-1] + (roots * noise).sum(1))
        divergences += n_divergent
    mean, variance, f = (torch.stack(part) for part in (means, variances, draws))
    total = mean.flatten(0, 1).var(0) + variance.flatten(0, 1).mean(0)
    return {
        "mean": mean.mean((0, 1)).numpy(),
        "std": total.sqrt().numpy(),
        "chain_std": (mean.var(1) + variance.mean(1)).sqrt().numpy(),
        "draws": f.flatten(0, 1)[:: max(1, n_chains * n_draws // N_SHOWN)].float().numpy(),
        "r_hat": stats.split_gelman_rubin(f, 0, 1).numpy(),
        "ess": stats.effective_sample_size(f, 0, 1).numpy(),
        "r_hat_mean": stats.split_gelman_rubin(mean, 0, 1).numpy(),
        "divergences": np.array(divergences),
    }


def sample_hidden(
    x: Tensor, y: Tensor, chain: int, n_warmup: int, n_draws: int, max_tree_depth: int
) -> tuple[Tensor, int]:
    """One chain from a draw of the prior: ``(n_draws, 3, 50)`` and how many steps diverged."""
    infer = _pyro("pyro.infer")
    torch.manual_seed(chain)  # Pyro takes no generator
    start = torch.randn(3, WIDTH, dtype=torch.float64)
    kernel = infer.NUTS(
        potential_fn=lambda sites: minus_log_posterior(sites["hidden"], x, y),
        full_mass=True,
        max_tree_depth=max_tree_depth,
    )
    run = infer.MCMC(
        kernel, n_draws, n_warmup, initial_params={"hidden": start}, disable_progbar=True
    )
    run.run()
    divergent = run.diagnostics()["divergences"].values()
    return run.get_samples()["hidden"], sum(map(len, divergent))


def _pyro(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ModuleNotFoundError(
            "the reference by Hamiltonian Monte Carlo needs Pyro: pip install pyro-ppl==1.9.2"
        ) from error


def features(hidden: Tensor, x: Tensor) -> Tensor:
    """What the output layer multiplies, ``(B, 51)``: hidden units in their prior's scale, and 1.

    ``hidden (3, 50)`` holds both weights and the bias of each unit over their prior stds, so that
    its prior is standard normal, and so is that of the output weights.
    """
    w_std = WEIGHT_STDS[1] / x.shape[1] ** 0.5
    units = torch.relu(x @ hidden[:2] * w_std + hidden[2])
    return torch.cat([WEIGHT_STDS[1] / WIDTH**0.5 * units, torch.ones_like(x[:, :1])], 1)


def minus_log_posterior(hidden: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """``-log p(hidden | x, y)`` in nats up to a constant, 0-dim, output weights integrated out."""
    Phi = features(hidden, x)
    factor, mean = _regression(Phi, y)
    misfit = y @ (y - Phi @ mean) / (2 * NOISE_VAR)
    return hidden.square().sum() / 2 + misfit + factor.diagonal().log().sum()


def output(hidden: Tensor, x: Tensor, y: Tensor, x_new: Tensor) -> tuple[Tensor, Tensor]:
    """Mean ``(B,)`` of f at ``x_new`` given the hidden layer, and a root ``(51, B)`` of its
    covariance: its columns' squared lengths are the variances."""
    factor, mean = _regression(features(hidden, x), y)
    Phi = features(hidden, x_new)
    return Phi @ mean, solve_triangular(factor, Phi.T, upper=False)


def _regression(Phi: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """The precision's Cholesky factor and the mean of the output weights (lesson 02)."""
    precision = Phi.T @ Phi / NOISE_VAR + torch.eye(Phi.shape[1], dtype=Phi.dtype)
    factor = torch.linalg.cholesky(precision)
    return factor, torch.cholesky_solve((Phi.T @ y / NOISE_VAR)[:, None], factor)[:, 0]
