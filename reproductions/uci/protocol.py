"""One protocol for all methods: choose inside the training part, train again, predict the test.

Up to the noise precision tau of standardised targets, the loss of a network is ``1/(2B) sum_b
(y_b - f_b)**2 + kappa/N KL`` with kappa the weight of the KL over tau. Adam does not see a factor
on the loss. So only kappa matters for training, and every tau is tried afterwards on the same
predictions.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from bdl_lessons.core import clock, device
from bdl_lessons.core.validation import same_shape
from bdl_lessons.datasets import UCI_SETS, Standardiser
from reproductions import datasets
from reproductions.experiment import Trial, TrialResult
from reproductions.uci.methods import METHODS, Method, Task

TAUS = tuple(2 ** (k / 2) for k in range(-2, 33))
"""Noise precisions of standardised targets: 0.5 to 65,536, a factor of 1.41 apart."""

VALIDATION = 0.2
"""The last rows of the training part choose."""


def run(trial: Trial) -> TrialResult:
    """One method on one data set, all splits side by side.

    Arrays, one entry for each split: ``rmse`` of the averaged draws and ``log_likelihood`` of a
    test point in nats, original units, with ``tau`` chosen freely (``log_likelihood_grid_tau``:
    from the published grid), and what was chosen. Metrics: means, ``*_error`` standard errors; CPU
    milliseconds of a step of one network among ``n_side_by_side`` in a batch.
    """
    config, on = trial.config, device(float64=True)
    method, data = METHODS[config["method"]], datasets.uci(config["data"])
    rows = datasets.splits(len(data.x), config["n_splits"])
    train, test = (torch.stack([torch.from_numpy(pair[i]) for pair in rows]) for i in (0, 1))
    x, y, generator = data.x.to(on), data.y.to(on), torch.Generator(on).manual_seed(trial.seed)
    tau_grid = UCI_SETS[config["data"]].tau_grid
    parts = x[train], y[train], x[test]
    draws, chosen, seconds = choose_and_predict(method, *parts, tau_grid, config, generator)
    grid_tau, scores = chosen.pop("grid_tau"), {}
    scores["rmse"] = (draws.mean(0) - y[test]).square().mean(1).sqrt()
    scores["log_likelihood"] = log_likelihood(draws, y[test], chosen["tau"])
    scores["log_likelihood_grid_tau"] = log_likelihood(draws, y[test], grid_tau)
    metrics = {}
    for name, values in scores.items():
        metrics[name] = values.mean().item()
        metrics[f"{name}_error"] = (values.std() / len(values) ** 0.5).item()
    if method.n_networks:
        n_networks = len(rows) * len(config["grid"]) * method.n_networks
        metrics["n_side_by_side"] = n_networks
        metrics["ms_side_by_side"] = 1e3 * seconds / config["n_steps"] / n_networks
    points = chosen.pop("point").tolist()
    arrays = {
        name: [float(f"{value:.6g}") for value in values.tolist()]
        for name, values in (scores | chosen).items()
    }
    return TrialResult(metrics, arrays | {"point": points})


def choose_and_predict(
    method: Method,
    x_train: Tensor,
    y_train: Tensor,
    x_test: Tensor,
    tau_grid: Sequence[float],
    config: Mapping[str, Any],
    generator: torch.Generator,
) -> tuple[Tensor, dict[str, Tensor], float]:
    """Choose a point of the grid and a tau for each split, train again, predict.

    Chosen is what gives the last 20 % of the training part the highest log predictive likelihood
    after training on the first 80 %. All is in original units: x ``(S, N, K)`` and ``(S, B, K)``, y
    ``(S, N)``. Returns predictions for the test parts, ``(n_draws, S, B)``; what was chosen,
    ``(S,)`` each: ``point`` of the grid, ``tau`` from ``TAUS``, ``grid_tau`` from ``tau_grid`` for
    the same networks, and with ``tau`` the ``kl_weight`` beside a log likelihood; CPU seconds of
    training all splits and points in one batch.
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
    found = {"tau": taus / y_var, "kl_weight": weights * taus, "point": chosen}
    found["grid_tau"] = y_var.new_tensor(tau_grid)[on_grid.argmax(0)]
    return y_scale.inverse_transform(draws), found, seconds


def log_likelihood(draws: Tensor, y: Tensor, tau: float | Tensor) -> Tensor:
    """Mean over the rows of ``log (1/n) sum_s N(y; f_s, 1/tau)``, in nats, ``(M,)``, of draws
    ``(n, M, B)`` and y ``(M, B)``, else ValueError; one tau for all, or ``(M,)``."""
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
