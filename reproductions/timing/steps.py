"""Seconds of a training step of several networks that take turns, and their ratios to the first."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from statistics import median, quantiles

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from bdl_lessons.inference import adam
from bdl_lessons.models import Network
from reproductions.measure import interleaved_times


def step_times(
    networks: Mapping[str, nn.Module],
    x: Tensor,
    y: Tensor,
    generator: torch.Generator,
    n_rounds: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, dict[str, float]]:
    """For each network ``ms``, the median milliseconds of a step, and ``ratio``.

    ``ratio`` is the median over rounds of the time of a step by that of the first network in the
    same round, so that a machine that gets slower disturbs it little; ``low`` and ``high`` are its
    quartiles.
    """
    steps = {name: training_step(network, x, y, generator) for name, network in networks.items()}
    seconds = interleaved_times(steps, n_rounds, warm_up=2, clock=clock)
    first = next(iter(seconds.values()))
    rows = {}
    for name, taken in seconds.items():
        low, ratio, high = quantiles([a / b for a, b in zip(taken, first, strict=True)], n=4)
        rows[name] = {"ms": 1e3 * median(taken), "ratio": ratio, "low": low, "high": high}
    return rows


def training_step(
    network: nn.Module, x: Tensor, y: Tensor, generator: torch.Generator, n_train: int = 50_000
) -> Callable[[], None]:
    """A call that takes one step of fused Adam on the loss: with its KL for a ``Network``."""
    optimizer = adam(1e-3)(network.parameters())

    def step() -> None:
        if isinstance(network, Network):
            output = network(x, "per_example", generator)
            loss = cross_entropy(output, y) + network.kl() / n_train
        else:
            loss = cross_entropy(network(x), y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return step
