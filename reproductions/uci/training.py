"""How the methods of the UCI tables are trained: for all splits and settings at once."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import gpytorch
import torch
from torch import Tensor

from bdl_lessons import models
from bdl_lessons.core.random import standard_normal
from bdl_lessons.inference import BatchedNetworks, adam, fit_batched, predict_batched, sgd
from bdl_lessons.models import Sampling, initialise, mlp
from bdl_lessons.probability import gaussian_nll
from bdl_lessons.reference import GaussianProcess
from reproductions.posteriors.slang import LowRankPrecision, fit_slang, predict_slang
from reproductions.posteriors.swag import fit_swag, predict_swag

if TYPE_CHECKING:
    from reproductions.methods import Method

Point = Mapping[str, float]
Predict = Callable[[Tensor, int, torch.Generator], Tensor]
"""``predict(x, n_samples, generator)``: ``(M, B, K)`` to draws ``(n_draws, M, B)``."""

_ROWS_AT_ONCE = 50_000
_NLL = partial(gaussian_nll, tau=1.0)


@dataclass(frozen=True)
class Task:
    """M trainings under the ``config`` of a trial.

    Attributes:
        points: of the grid, one for each training.
        x: the training sets, standardised, ``(M, N, K)``.
        y: their targets, standardised, ``(M, N)``.
        config: of the trial.
        generator: the source of all random numbers.
    """

    points: Sequence[Point]
    x: Tensor
    y: Tensor
    config: Mapping[str, Any]
    generator: torch.Generator

    @property
    def kl_weights(self) -> Tensor:
        """Those of the points, ``(M,)``."""
        return torch.tensor([point["kl_weight"] for point in self.points], device=self.x.device)

    def started(self, layer_at: Callable[[Point], models.Method]) -> BatchedNetworks:
        """A new network for each point."""
        widths = (self.x.shape[-1], self.config["n_hidden"], 1)
        networks = []
        for point in self.points:
            network = mlp(widths, layer_at(point)).to(self.generator.device)
            networks.append(initialise(network, self.generator))
        return BatchedNetworks(networks)


def networks(method: "Method", task: Task) -> Predict:
    """Networks under a method of the registry, all of them in one batch.

    ``method.n_networks`` for each point, which predict together. Noise that is learned starts at
    ``p_drop = 0.05``.
    """
    n_networks = method.n_networks
    x = torch.cat([task.x] * n_networks)
    y = torch.cat([task.y] * n_networks)
    points = list(task.points) * n_networks
    task = replace(task, points=points, x=x, y=y)
    members = task.started(lambda point: method.configured({"p_drop": 0.05, **point}))
    _fit_by_adam(members, task, task.config["n_steps"], method.sampling)

    def predict(x: Tensor, n_samples: int, generator: torch.Generator) -> Tensor:
        draws = predict_batched(
            members,
            torch.cat([x] * n_networks),
            n_samples if method.is_random else 1,
            generator=generator,
            chunk_rows=max(1, _ROWS_AT_ONCE // len(members)),
        )
        return draws[..., 0].unflatten(1, (n_networks, len(x))).flatten(0, 1)

    return predict


def swag(method: "Method", task: Task) -> Predict:
    """SWAG goes on from the MAP weights, over as many steps again.

    It descends with momentum at a constant rate.
    """
    members = task.started(lambda _: method.layer)
    n_steps = task.config["n_steps"]
    batch_size = task.config["batch_size"]
    steps_an_epoch = max(1, task.x.shape[1] // batch_size)
    _fit_by_adam(members, task, n_steps, "mean")
    posterior = fit_swag(
        members,
        task.x,
        task.y[..., None],
        _NLL,
        kl_weight=task.kl_weights,
        n_epochs=max(2, n_steps // steps_an_epoch),
        collect_from=0,
        batch_size=batch_size,
        generator=task.generator,
        optimizer=sgd(0.05),
        final_factor=1.0,
    )

    def predict(x: Tensor, n_samples: int, generator: torch.Generator) -> Tensor:
        return predict_swag(posterior, members, x, n_samples, generator=generator)[..., 0]

    return predict


def slang(method: "Method", task: Task) -> Predict:
    """SLANG by :func:`slang_posterior`."""
    members = task.started(lambda _: method.layer)
    q = slang_posterior(members, task)
    network = members.network(0)

    def predict(x: Tensor, n_samples: int, generator: torch.Generator) -> Tensor:
        return predict_slang(q, network, x, n_samples, generator=generator)[..., 0]

    return predict


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


def exact_gp(method: "Method", task: Task) -> Predict:
    """A Gaussian process with one length scale for each feature, fitted by its evidence.

    It predicts draws of the noise-free function at each row. tau is chosen as for the others.
    """
    processes = [fitted_process(x, y) for x, y in zip(task.x, task.y, strict=True)]

    def predict(x: Tensor, n_samples: int, generator: torch.Generator) -> Tensor:
        means = []
        variances = []
        for process, rows in zip(processes, x, strict=True):
            mean, var = process.predict(rows)
            means.append(mean)
            variances.append(var)
        mean = torch.stack(means).float()
        var = torch.stack(variances).float()
        return mean + var.sqrt() * standard_normal((n_samples, *mean.shape), generator, mean)

    return predict


def fitted_process(x: Tensor, y: Tensor) -> GaussianProcess:
    """The process for one training set, its kernel a squared exponential.

    Length scales are at least 0.01 standard deviations of the inputs. Without the bound the line
    search tries 1e-6 on features of a few levels, and rounding leaves negative eigenvalues.
    """
    bound = gpytorch.constraints.GreaterThan(0.01)
    rbf = gpytorch.kernels.RBFKernel(ard_num_dims=x.shape[-1], lengthscale_constraint=bound)
    rbf.lengthscale = 2.0
    kernel = gpytorch.kernels.ScaleKernel(rbf)
    process = GaussianProcess(x, y, kernel, noise_var=0.05).to(x.device)
    return process.fit(15)


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
