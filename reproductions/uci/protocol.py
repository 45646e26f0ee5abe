r"""One protocol for all methods: choose inside the training part, train again, predict the test.

Up to the factor tau, the loss of a network is

.. math:: \frac1{2B} \sum_b (y_b - f_b)^2 + \frac{\kappa}{N} \mathrm{KL}, \qquad
          \kappa = \frac{\lambda}{\tau}

with the weight :math:`\lambda` of the KL and the noise precision :math:`\tau` of standardised
targets. Adam does not see a factor on the loss. So only :math:`\kappa` matters for training, and
every :math:`\tau` is tried afterwards on the same predictions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bdl_lessons.core import clock
from bdl_lessons.core.validation import same_shape
from bdl_lessons.datasets import Standardiser
from reproductions.uci.methods import Method, Task

TAUS = tuple(2 ** (k / 2) for k in range(-2, 33))
"""Noise precisions of standardised targets: 0.5 to 65,536, a factor of 1.41 apart."""

VALIDATION = 0.2
"""The last rows of the training part choose."""


@dataclass(frozen=True)
class Predicted:
    """Predictions for the test parts of S splits in original units, and how they were chosen."""

    draws: Tensor
    """``(n_draws, S, B)``."""
    points: list[int]
    """Which point of the grid was chosen, for each split."""
    taus: Tensor
    """``(S,)``: noise precisions, chosen from ``TAUS``."""
    grid_taus: Tensor
    """``(S,)``: chosen from a given grid, for the same networks."""
    kl_weights: Tensor
    """``(S,)``: the weights of the KL beside a log likelihood with ``taus``."""
    seconds_to_choose: float
    """CPU time of training all splits and points in one batch."""


def choose_and_predict(
    method: Method,
    x_train: Tensor,
    y_train: Tensor,
    x_test: Tensor,
    tau_grid: Sequence[float],
    config: Mapping[str, Any],
    generator: torch.Generator,
) -> Predicted:
    """Choose a point of the grid and a tau for each split, train again, predict.

    Chosen is what gives the last 20 % of the training part the highest log predictive likelihood
    after training on the first 80 %. No target of the test part comes in here.

    Args:
        x_train: ``(S, N, K)``. y_train: ``(S, N)``. x_test: ``(S, B, K)``. Original units.
        tau_grid: precisions in original units, for ``Predicted.grid_taus``.
        config: of the trial, with its ``grid``.
    """
    grid, (n_splits, n_train) = config["grid"], y_train.shape
    n_points, part = len(grid), n_train - int(VALIDATION * n_train)
    x, _ = _standardised(x_train, part)
    y, y_scale = _standardised(y_train, part)
    x, y = x.repeat(n_points, 1, 1), y.repeat(n_points, 1)
    every = [point for point in grid for _ in range(n_splits)]
    began = clock(x.device)
    predict = method.train(Task(every, x[:, :part], y[:, :part], config, generator))
    seconds = clock(x.device) - began
    draws, held_out = predict(x[:, part:], config["n_samples_val"], generator), y[:, part:]
    likelihood, at = torch.stack([log_likelihood(draws, held_out, tau) for tau in TAUS]).max(0)
    chosen = likelihood.unflatten(0, (n_points, n_splits)).argmax(0)
    index = chosen * n_splits + torch.arange(n_splits, device=chosen.device)
    y_var = y_scale.std[:, 0].square()
    taus = y_var.new_tensor(TAUS)[at[index]]
    draws, held_out = draws[:, index], held_out[index]
    on_grid = torch.stack([log_likelihood(draws, held_out, tau * y_var) for tau in tau_grid])

    points = [grid[i] for i in chosen.tolist()]
    weights = y_var.new_tensor([point["kl_weight"] for point in points])
    x, x_scale = _standardised(x_train, n_train)
    y, y_scale = _standardised(y_train, n_train)
    predict = method.train(Task(points, x, y, config, generator))
    draws = predict(x_scale.transform(x_test).float(), config["n_samples"], generator)
    return Predicted(
        y_scale.inverse_transform(draws),
        chosen.tolist(),
        taus / y_var,
        y_var.new_tensor(tau_grid)[on_grid.argmax(0)],
        weights * taus,
        seconds,
    )


def log_likelihood(draws: Tensor, y: Tensor, tau: float | Tensor) -> Tensor:
    """Mean over the rows of ``log (1/n) sum_s N(y; f_s, 1/tau)``, in nats: ``(M,)``.

    Args:
        draws: ``(n, M, B)``. y: ``(M, B)``. tau: one for all, or ``(M,)``.

    Raises:
        ValueError: if ``y`` has not the shape of a draw.
    """
    same_shape("y", y, "a draw", draws[0])
    tau = torch.as_tensor(tau, device=y.device).expand(len(y))
    error = -0.5 * tau[:, None] * (y - draws).square()
    rows = error.logsumexp(0) - math.log(len(draws))
    return rows.mean(-1) + (tau / (2 * math.pi)).log() / 2


def _standardised(values: Tensor, n: int) -> tuple[Tensor, Standardiser]:
    """``(S, N, ...)``, each split by its first ``n`` rows, in float32; and the scales."""
    each = [Standardiser.fit(rows[:n]) for rows in values]
    mean, std = (torch.stack([getattr(one, name) for one in each]) for name in ("mean", "std"))
    scale = Standardiser(mean[:, None], std[:, None])
    return scale.transform(values).float(), scale
