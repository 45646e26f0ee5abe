"""UCI regression on the standard splits (VSD, Tables 10 and 11): error and log likelihood.

A trial is a data set and a method: all splits and all points of the method's grid in it, trained
in one batch. The protocol is that of :mod:`bdl_lessons.experiments.uci.protocol`.
Lessons 10 and 12.
"""

from __future__ import annotations

import torch

from bdl_lessons.core import device
from bdl_lessons.datasets import uci
from bdl_lessons.datasets.splits import splits
from bdl_lessons.experiments.experiment import Experiment, Trial, TrialResult
from bdl_lessons.experiments.uci.methods import METHODS
from bdl_lessons.experiments.uci.networks import Networks
from bdl_lessons.experiments.uci.protocol import choose_and_predict, log_likelihood
from bdl_lessons.experiments.uci.report import figure, table
from bdl_lessons.experiments.uci.trials import TAU_GRIDS, trials


def run(trial: Trial) -> TrialResult:
    """One method on one data set.

    Arrays, one entry for each split: ``rmse`` of the averaged draws and ``log_likelihood`` of a
    test point in nats, original units, with ``tau`` chosen freely (``log_likelihood_grid_tau``:
    from the published grid); ``point``: which of the grid was chosen; ``kl_weight``: on
    the KL beside the log likelihood. Metrics: their means, ``*_error`` the standard errors; CPU
    milliseconds of a step of one network, batched and alone.
    """
    config, on = trial.config, device()
    method = METHODS[config["method"]]
    data = uci(config["data"])
    rows = splits(len(data.x), config["n_splits"])
    train, test = (torch.stack([torch.from_numpy(pair[i]) for pair in rows]) for i in (0, 1))
    x, y = data.x.to(on), data.y.to(on)
    generator = torch.Generator(on).manual_seed(trial.seed)
    predicted = choose_and_predict(
        method, x[train], y[train], x[test], TAU_GRIDS[config["data"]], config, generator
    )
    y_test = y[test]
    per_split = {
        "rmse": (predicted.draws.mean(0) - y_test).square().mean(1).sqrt(),
        "log_likelihood": log_likelihood(predicted.draws, y_test, predicted.taus),
        "log_likelihood_grid_tau": log_likelihood(predicted.draws, y_test, predicted.grid_taus),
    }
    metrics = {}
    for name, values in per_split.items():
        metrics[name] = values.mean().item()
        metrics[f"{name}_error"] = (values.std() / len(values) ** 0.5).item()
    if isinstance(method, Networks):
        n_networks = len(rows) * len(config["grid"]) * method.n_networks
        together = predicted.seconds_to_choose / config["n_steps"] / n_networks
        alone = method.seconds_alone(x[train][0], y[train][0], config, generator)
        metrics |= {
            "n_side_by_side": n_networks,
            "ms_side_by_side": 1e3 * together,
            "ms_alone": 1e3 * alone,
        }
    chosen = {"point": predicted.points, "tau": _rounded(predicted.taus)}
    chosen["kl_weight"] = _rounded(predicted.kl_weights)
    arrays = {name: _rounded(values) for name, values in per_split.items()}
    return TrialResult(metrics, arrays | chosen)


TITLE = "Regression on the UCI sets (Variational structured dropout, Tables 10 and 11)"
EXPERIMENT = Experiment("uci", TITLE, trials, run, table, figure)


def _rounded(values: torch.Tensor) -> list[float]:
    return [float(f"{value:.6g}") for value in values.tolist()]
