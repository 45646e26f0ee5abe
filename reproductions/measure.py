"""What several experiments measure: outputs of the mean weights, and seconds of calls in turns."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from bdl_lessons.models import Network


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
    for number in range(-warm_up, n_rounds):
        for name, call in calls.items():
            began = clock()
            call()
            if number >= 0:
                seconds[name].append(clock() - began)
    return seconds
