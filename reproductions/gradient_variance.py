"""Kingma, Salimans and Welling (2015), Table 1: the variance of four gradient estimators.

One network with three hidden layers of ReLU and independent weight noise is trained on MNIST. After
10 and after 100 epochs it stands still, and the gradient of the N-scaled log likelihood of 1000
rows is drawn again and again: once with the local reparameterization trick, once with a draw of the
weights for each row, once with one draw for all rows, once without noise. All four share the
network, so a trial is a seed. Lesson 06.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from bdl_lessons.core import device
from bdl_lessons.datasets import mnist
from bdl_lessons.evaluation import error_percent, gradient_variance, noisy_outputs
from bdl_lessons.evaluation.gradient_variance import Estimator
from bdl_lessons.inference import adam, fit
from bdl_lessons.models import Network, VariationalDropout, initialise, mlp
from reproductions.experiment import Experiment, Trial, TrialResult
from reproductions.gradient_variance_report import figure, table
from reproductions.measure import mean_weights

_PAPER = {
    "n_train": 60_000,
    "n_test": 10_000,
    "width": 256,
    "batch_size": 200,
    "learning_rate": 1e-3,
    "p_drop_input": 0.2,
    "p_drop_hidden": 0.5,
    "epochs": [10, 100],
    "rows": 1000,
    "n_draws": 100,
    "n_draws_per_example": 16,
}
_QUICK = {
    **_PAPER,
    "n_train": 400,
    "n_test": 50,
    "width": 16,
    "epochs": [1, 2],
    "rows": 40,
    "n_draws": 6,
    "n_draws_per_example": 4,
}
_ROWS_AT_ONCE = 25
"""Rows whose own weights are held in memory at the same time."""


def trials(scale: str) -> list[Trial]:
    """One network for each seed."""
    if scale == "quick":
        return [Trial(_QUICK, seed=0)]
    return [Trial(_PAPER, seed) for seed in range(3)]


def run(trial: Trial) -> TrialResult:
    """Train, stop twice, and measure all four estimators each time.

    Metrics: ``<layer>, <estimator>, <epochs>``, the variance of the gradient for the mean weights
    of the first (``bottom``) or last (``top``) layer, averaged over the layer, and the same with
    ``standard error``; ``test_error, <epochs>`` of the mean weights in percent.
    """
    config, on = trial.config, device()
    data = mnist(config["n_train"], config["n_test"])
    x, y = data.x_train.flatten(1).to(on), data.y_train.to(on)
    x_test, y_test = data.x_test.flatten(1).to(on), data.y_test.to(on)
    generator = torch.Generator(on).manual_seed(trial.seed)
    net = make_network(config, generator)
    metrics, done = {}, 0
    for epochs in config["epochs"]:
        fit(
            net,
            x,
            y,
            cross_entropy,
            n_steps=(epochs - done) * (len(x) // config["batch_size"]),
            generator=generator,
            optimizer=adam(config["learning_rate"]),
            batch_size=config["batch_size"],
        )
        done = epochs
        metrics[f"test_error, {epochs}"] = error_percent(mean_weights(net, x_test), y_test)
        for estimator in get_args(Estimator):
            variances = measure(net, x, y, estimator, config, generator)
            for layer, (value, std_err) in variances.items():
                metrics[f"{layer}, {estimator}, {epochs}"] = value
                metrics[f"{layer}, {estimator}, {epochs}, standard error"] = std_err
    return TrialResult(metrics)


def make_network(config: dict, generator: torch.Generator) -> Network:
    """Variational dropout of type B, one learned alpha a layer."""
    noisy_input = VariationalDropout("B", init_p_drop=config["p_drop_input"])
    noisy = VariationalDropout("B", init_p_drop=config["p_drop_hidden"])
    widths = (784, *[config["width"]] * 3, 10)
    net = mlp(widths, [noisy_input, noisy, noisy, noisy]).to(generator.device)
    return initialise(net, generator)


def measure(
    net: Network,
    x: Tensor,
    y: Tensor,
    estimator: Estimator,
    config: dict,
    generator: torch.Generator,
) -> dict[str, tuple[float, float]]:
    """Variance and standard error for ``bottom`` and ``top`` over fresh rows and fresh noise."""
    n_draws = config["n_draws_per_example" if estimator == "per example" else "n_draws"]
    draws: dict[str, list[Tensor]] = {"bottom": [], "top": []}
    for _ in range(n_draws):
        rows = torch.randperm(len(x), generator=generator, device=generator.device)
        rows = rows[: config["rows"]]
        gradients = gradient(net, x[rows], y[rows], estimator, len(x), generator)
        for layer, value in zip(draws, gradients, strict=True):
            draws[layer].append(value)
    return {layer: gradient_variance(torch.stack(values)) for layer, values in draws.items()}


def gradient(
    net: Network,
    x: Tensor,
    y: Tensor,
    estimator: Estimator,
    n_train: int,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """One draw of the gradient of ``N/M sum_m -log p(y_m | x_m)``, first and last mean weights.

    The KL and its gradient are known exactly and vary in none of the estimators.
    """
    weights = (net[0].weight, net[-1].weight)
    total = [torch.zeros_like(weight) for weight in weights]
    for inputs, targets in _independent_parts(x, y, estimator):
        outputs = noisy_outputs(net, inputs, estimator, generator)
        nll = cross_entropy(outputs, targets, reduction="sum") * n_train / len(x)
        for sum_, part in zip(total, torch.autograd.grad(nll, weights), strict=True):
            sum_ += part
    return total[0], total[1]


def _independent_parts(
    x: Tensor, y: Tensor, estimator: Estimator
) -> Iterator[tuple[Tensor, Tensor]]:
    """The minibatch, in pieces if its rows do not share their noise and need much memory."""
    size = _ROWS_AT_ONCE if estimator == "per example" else len(x)
    return zip(x.split(size), y.split(size), strict=True)


TITLE = "Variance of gradient estimators (Kingma, Salimans and Welling 2015, table 1)"
EXPERIMENT = Experiment("gradient_variance", TITLE, trials, run, table, figure)
