"""What several experiments do: load digits, train, use the mean weights, time, correlate."""

import time
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.optim import Optimizer
from tqdm import tqdm

from bdl_lessons.core import device
from bdl_lessons.inference import OptimizerFactory, adam, fit
from bdl_lessons.models import Network
from reproductions import datasets

ALL_OF_MNIST = {"n_train": 60_000, "n_test": 10_000}


def digits(config: Mapping[str, Any], prepare: Callable[[Tensor], Tensor]) -> list[Tensor]:
    """MNIST of a trial's sizes on the device, images prepared: ``x, y, x_test, y_test``."""
    data = datasets.load("mnist", n_train=config["n_train"], n_test=config["n_test"])
    x = prepare(data.x_train)
    x_test = prepare(data.x_test)
    return [part.to(device()) for part in (x, data.y_train, x_test, data.y_test)]


def train_by(
    config: Mapping[str, Any],
    net: Network,
    x: Tensor,
    y: Tensor,
    generator: torch.Generator,
    n_steps: int,
    loss: Callable[[Tensor, Tensor], Tensor] = cross_entropy,
    optimizer: Optimizer | OptimizerFactory | None = None,
    **options: Any,
) -> None:
    """:func:`bdl_lessons.inference.fit` with a trial's batches, by Adam at its learning rate.

    ``optimizer``: another than this; ``options``: those of ``fit``.
    """
    fit(
        net,
        x,
        y,
        loss,
        n_steps=n_steps,
        batch_size=config["batch_size"],
        optimizer=optimizer or adam(config["learning_rate"]),
        generator=generator,
        **options,
    )


@torch.no_grad()
def mean_weights(network: Network, x: Tensor) -> Tensor:
    """Outputs of the mean weights at ``x``, ``(B, ...)``, 1000 examples at a time."""
    return torch.cat([network(rows, "mean") for rows in x.split(1000)])


def interleaved_times(
    calls: Mapping[str, Callable[[], object]],
    n_rounds: int,
    warm_up: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Seconds of every call in every round.

    The calls take turns, so that other work on the machine meets all of them alike. The first
    ``warm_up`` rounds come on top and are left out.
    """
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for number in tqdm(range(-warm_up, n_rounds), delay=5, leave=False, disable=None):
        for name, call in calls.items():
            began = clock()
            call()
            if number >= 0:
                seconds[name].append(clock() - began)
    return seconds


def rms_correlation(cov: Tensor) -> Tensor:
    """Root mean square of the correlations of a covariance ``(K, K)``, K >= 2; 0-dim.

    >>> rms_correlation(torch.tensor([[4.0, 1.0], [1.0, 1.0]]))
    tensor(0.5000)
    """
    std = cov.diagonal().sqrt()
    correlation = cov / std[:, None] / std
    n_pairs = len(cov) * (len(cov) - 1)
    off_diagonal = correlation - torch.diag(correlation.diagonal())
    return (off_diagonal.square().sum() / n_pairs).sqrt()
