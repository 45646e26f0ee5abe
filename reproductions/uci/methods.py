"""The rows of the UCI tables, and how each is trained: for all splits and settings at once."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import gpytorch
import torch
from torch import Tensor

from bdl_lessons import models
from bdl_lessons.core.random import standard_normal
from bdl_lessons.inference import BatchedNetworks, adam, fit_batched, predict_batched, sgd
from bdl_lessons.models import Deterministic, Sampling, initialise, mlp
from bdl_lessons.probability import gaussian_nll
from bdl_lessons.reference import GaussianProcess
from reproductions import methods
from reproductions.posteriors.slang import LowRankPrecision, fit_slang, predict_slang
from reproductions.posteriors.swag import fit_swag, predict_swag

Point = Mapping[str, float]
Predict = Callable[[Tensor, int, torch.Generator], Tensor]
"""``predict(x, n_samples, generator)``: ``(M, B, K)`` to draws ``(n_draws, M, B)``."""

_KL_WEIGHTS = (100.0, 10.0, 1.0, 0.1, 0.01, 1e-3, 1e-4, 1e-5, 1e-6)
"""Factors on the KL where the data term is half the squared error of standardised targets."""
_RATES = (1e-6, 1e-5, 1e-4, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.1, 0.2, 0.3)
_DROPOUT = tuple({"kl_weight": 1e-2, "p_drop": rate} for rate in _RATES)
_VSD = tuple({"kl_weight": weight, "min_alpha": 1e-9} for weight in _KL_WEIGHTS)
"""On Naval the default bound on alpha, 1e-4, and a rate of 0.0005 are too much noise."""
_ROWS_AT_ONCE = 50_000
_NLL = partial(gaussian_nll, tau=1.0)


@dataclass(frozen=True)
class Task:
    """M trainings under the ``config`` of a trial: a point of the grid for each, and a training
    set, standardised: x ``(M, N, K)``, y ``(M, N)``."""

    points: Sequence[Point]
    x: Tensor
    y: Tensor
    config: Mapping[str, Any]
    generator: torch.Generator

    @property
    def kl_weights(self) -> Tensor:
        """``(M,)``."""
        return torch.tensor([point["kl_weight"] for point in self.points], device=self.x.device)

    def started(self, layer_at: Callable[[Point], models.Method]) -> BatchedNetworks:
        """A new network for each point."""
        widths = (self.x.shape[-1], self.config["n_hidden"], 1)
        g = self.generator
        networks = (mlp(widths, layer_at(point)).to(g.device) for point in self.points)
        return BatchedNetworks([initialise(network, g) for network in networks])


@dataclass(frozen=True)
class Method:
    """A row of the tables: how it is trained, and the points of its grid."""

    train: Callable[[Task], Predict]
    grid: tuple[Point, ...] = tuple({"kl_weight": weight} for weight in _KL_WEIGHTS)
    n_networks: int = 0
    """Of a point, trained side by side in the one batch of all; 0 where training is another."""


def networks(method: methods.Method, **grid: tuple[Point, ...]) -> Method:
    """Networks with the layers of a method of the registry, all of them in one batch: five for each
    point of an ensemble. Noise that is learned starts at ``p_drop = 0.05``."""
    n_networks = 5 if "ensemble" in method.tags else 1

    def train(task: Task) -> Predict:
        x, y = (torch.cat([part] * n_networks) for part in (task.x, task.y))
        task = replace(task, points=[*task.points] * n_networks, x=x, y=y)
        members = task.started(lambda point: method.configured({"p_drop": 0.05} | point))
        sampling = "shared" if "shared" in method.tags else "per_example"
        _fit_by_adam(members, task, task.config["n_steps"], sampling)

        def predict(x: Tensor, n_samples: int, generator: torch.Generator) -> Tensor:
            draws = predict_batched(
                members,
                torch.cat([x] * n_networks),
                1 if "plain" in method.tags else n_samples,
                generator=generator,
                chunk_rows=max(1, _ROWS_AT_ONCE // len(members)),
            )
            return draws[..., 0].unflatten(1, (n_networks, len(x))).flatten(0, 1)

        return predict

    return Method(train, n_networks=n_networks, **grid)


def swag(task: Task) -> Predict:
    """SWAG goes on from the MAP weights, by descent with momentum at a constant rate, over as many
    steps again."""
    members = task.started(lambda _: Deterministic)
    batch_size = task.config["batch_size"]
    _fit_by_adam(members, task, task.config["n_steps"], "mean")
    found = fit_swag(
        members,
        task.x,
        task.y[..., None],
        _NLL,
        kl_weight=task.kl_weights,
        n_epochs=max(2, task.config["n_steps"] // max(1, task.x.shape[1] // batch_size)),
        collect_from=0,
        batch_size=batch_size,
        generator=task.generator,
        optimizer=sgd(0.05),
        final_factor=1.0,
    )
    return lambda x, n_samples, g: predict_swag(found, members, x, n_samples, generator=g)[..., 0]


def slang(task: Task) -> Predict:
    """SLANG by :func:`slang_posterior`."""
    members = task.started(lambda _: Deterministic)
    q = slang_posterior(members, task)
    network = members.network(0)
    return lambda x, n_samples, g: predict_slang(q, network, x, n_samples, generator=g)[..., 0]


def slang_posterior(members: BatchedNetworks, task: Task) -> LowRankPrecision:
    """M Gaussians over the weights of M networks.

    SLANG goes on from the MAP weights of the full schedule, for half as many steps. Published for
    these sets are rank 1, natural-gradient steps of mostly 0.01, and four draws in a step.

    The ``kl_weight`` of a point is the noise variance of the likelihood, so that the target is the
    optimum of the others' loss. The empirical Fisher matrix of SLANG is its curvature only where
    the residuals have this variance. Where theirs is larger, it is too large by their ratio: q is
    too narrow, and steps are too short to leave the start.
    """
    _fit_by_adam(members, task, task.config["n_steps"], "mean")
    return fit_slang(
        [members.network(member) for member in range(len(members))],
        task.x,
        task.y[..., None],
        gaussian_nll,
        nll_args=(1 / task.kl_weights,),
        n_steps=task.config["n_steps"] // 2,
        batch_size=min(task.config["batch_size"], task.x.shape[1]),
        generator=task.generator,
        rank=5,
        n_samples=2,
        lr=0.02,
        init_precision=100.0,  # near enough to the MAP weights
    )


def exact_gp(task: Task) -> Predict:
    """A Gaussian process with one length scale for each feature, fitted by its evidence: draws of
    the noise-free function at each row. tau is chosen as for the others."""
    processes = [fitted_process(*rows) for rows in zip(task.x, task.y, strict=True)]

    def predict(x: Tensor, n_samples: int, generator: torch.Generator) -> Tensor:
        each = [gp.predict(rows) for gp, rows in zip(processes, x, strict=True)]
        mean, var = (torch.stack(values).float() for values in zip(*each, strict=True))
        return mean + var.sqrt() * standard_normal((n_samples, *mean.shape), generator, mean)

    return predict


def fitted_process(x: Tensor, y: Tensor) -> GaussianProcess:
    """The process for one training set, its kernel a squared exponential.

    Length scales are at least 0.01 standard deviations of the inputs. Without the bound the line
    search tries 1e-6 on features of a few levels, and rounding leaves negative eigenvalues.
    """
    bound = gpytorch.constraints.GreaterThan(0.01)
    kernel = gpytorch.kernels.RBFKernel(ard_num_dims=x.shape[-1], lengthscale_constraint=bound)
    kernel = gpytorch.kernels.ScaleKernel(kernel)
    kernel.base_kernel.lengthscale = 2.0
    return GaussianProcess(x, y, kernel, noise_var=0.05).to(x.device).fit(15)


def _fit_by_adam(members: BatchedNetworks, task: Task, n_steps: int, sampling: Sampling) -> None:
    """The learning rate falls to 0 along half a cosine."""
    fit_batched(
        members,
        task.x,
        task.y[..., None],
        _NLL,
        kl_weight=task.kl_weights,
        n_steps=n_steps,
        sampling=sampling,
        generator=task.generator,
        batch_size=min(task.config["batch_size"], task.x.shape[1]),
        optimizer=adam(task.config["learning_rate"]),
        schedule=lambda step: (1 + math.cos(math.pi * step / n_steps)) / 2,
    )


_IN_THEIR_TURN = ("MCD", "VD", "VSD", "BBB", "D.E", "VSD, T = 0", "VSD, T = 1", "VMG", "SWAG")
_IN_THEIR_TURN += ("SLANG", "GP", "ELRG", "MAP", "BBB-LRT", "MNF")
"""As they were run; methods that are not named come after these."""
_UCI = methods.tagged("uci")
_ALL = {name: networks(method) for name, method in _UCI.items()}
_ALL |= {name: networks(_UCI[name], grid=_VSD) for name in ("VSD, T = 0", "VSD, T = 1", "VSD")}
_ALL |= {"MCD": networks(_UCI["MCD"], grid=_DROPOUT), "SWAG": Method(swag), "SLANG": Method(slang)}
_ALL |= {"GP": Method(exact_gp, ({"kl_weight": 1.0},))}
METHODS = {name: _ALL[name] for name in dict.fromkeys((*_IN_THEIR_TURN, *_ALL))}
