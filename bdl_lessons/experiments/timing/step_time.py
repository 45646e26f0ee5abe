"""What a stochastic layer costs: one training step against the same network of plain layers."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from statistics import median, quantiles

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from bdl_lessons.inference import adam
from bdl_lessons.models import (
    ARD,
    BayesByBackprop,
    GaussianDropout,
    LayerFactory,
    SparseVD,
    StructuredDropout,
    VariationalDropout,
    initialise,
    mlp,
)

WIDTHS, BATCH_SIZE, N_TRAIN = (784, 1200, 1200, 1200, 10), 100, 60_000
P_DROP = 0.5
INDEPENDENT: dict[str, LayerFactory] = {
    "Gaussian dropout A, alpha fixed": GaussianDropout(P_DROP, "A"),
    "Gaussian dropout B, alpha fixed": GaussianDropout(P_DROP, "B"),
    "variational dropout A, alpha per layer": VariationalDropout("A"),
    "variational dropout B, alpha per layer": VariationalDropout("B"),
    "variational dropout B, alpha per weight": VariationalDropout("B", "weight"),
    "Bayes by backprop, local reparameterization": BayesByBackprop(),
    "sparse variational dropout": SparseVD(),
    "automatic relevance determination": ARD(),
}
"""Noise on units or weights that knows nothing of its neighbours."""

STRUCTURED: dict[str, LayerFactory] = {
    "variational dropout A, alpha per unit": VariationalDropout("A", "unit"),
    "VSD, T = 0": StructuredDropout(0),
    "VSD, T = 1": StructuredDropout(1),
    "VSD, T = 2": StructuredDropout(2),
    "VSD, T = 5": StructuredDropout(5),
    "VSD, T = 2, fc_lowrank, rank 8": StructuredDropout(2, "fc_lowrank"),
    "VSD, T = 2, fc": StructuredDropout(2, "fc"),
}
"""Rotated noise: free vectors, and the chains of maps that were published."""

PLAIN = "nn.Linear"


def compare(
    layers: dict[str, LayerFactory],
    n_repeats: int = 30,
    n_threads: int = 2,
    widths: Sequence[int] = WIDTHS,
    seed: int = 0,
) -> list[dict]:
    """Time one step of fused Adam on the sum of loss and KL, all candidates in one run.

    Each repeat takes every candidate once, in a random order. ``ratio`` is the median over repeats
    of the candidate's time over that of the plain network in the same repeat, ``low`` and ``high``
    are its quartiles; ``parameters`` counts those that Adam moves. ``nn.Linear again`` is a second
    plain network: how far its ratio is from 1 is what the measurement can tell apart.
    """
    threads_before = torch.get_num_threads()
    torch.set_num_threads(n_threads)
    try:
        return _rows(*_measure(layers, n_repeats, widths, random.Random(seed)))
    finally:
        torch.set_num_threads(threads_before)


def _measure(
    layers: dict[str, LayerFactory], n_repeats: int, widths: Sequence[int], order: random.Random
) -> tuple[dict[str, nn.Module], dict[str, list[float]]]:
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(BATCH_SIZE, widths[0], generator=generator)
    y = torch.randint(widths[-1], (BATCH_SIZE,), generator=generator)
    networks = {
        PLAIN: _plain(widths),
        f"{PLAIN} again": _plain(widths),
        "nn.Dropout": _plain(widths, nn.Dropout(P_DROP)),
    } | {name: initialise(mlp(widths, factory), generator) for name, factory in layers.items()}
    steps = {name: _step(network, x, y, generator) for name, network in networks.items()}
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for repeat in range(n_repeats + 2):
        for name in order.sample(list(steps), len(steps)):
            began = time.perf_counter()
            steps[name]()
            if repeat > 1:  # the first two rounds warm up
                seconds[name].append(time.perf_counter() - began)
    return networks, seconds


def _rows(networks: dict[str, nn.Module], seconds: dict[str, list[float]]) -> list[dict]:
    rows = []
    for name, own in seconds.items():
        ratios = [time / base for time, base in zip(own, seconds[PLAIN], strict=True)]
        low, middle, high = quantiles(ratios, n=4)
        moved = sum(p.numel() for p in networks[name].parameters() if p.requires_grad)
        rows.append(
            {
                "network": name,
                "ms": 1e3 * median(own),
                "ratio": middle,
                "low": low,
                "high": high,
                "parameters": moved,
            }
        )
    return rows


def _plain(widths: Sequence[int], dropout: nn.Module | None = None) -> nn.Sequential:
    """A network as a reader would write it, with ``dropout`` before each linear layer."""
    modules: list[nn.Module] = []
    for n_in, n_out in pairwise(widths):
        modules += [dropout] if dropout else []
        modules += [nn.Linear(n_in, n_out), nn.ReLU()]
    return nn.Sequential(*modules[:-1])


def _step(
    network: nn.Module, x: Tensor, y: Tensor, generator: torch.Generator
) -> Callable[[], None]:
    stepper = adam(1e-3)(network.parameters())
    stochastic = hasattr(network, "kl")
    forward = partial(network, x, "per_example", generator) if stochastic else partial(network, x)

    def step() -> None:
        loss = cross_entropy(forward(), y)
        if stochastic:
            loss = loss + network.kl() / N_TRAIN
        stepper.zero_grad(set_to_none=True)
        loss.backward()
        stepper.step()

    return step
