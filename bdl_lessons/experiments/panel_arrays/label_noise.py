"""Lesson 11: five ways to train on digits of which three in ten have a random label, trained once.

The networks 64-80-80-10 of one method are trained as one batch, each with its own split, label
noise and start. What is stored says how far each went to learn the wrong labels.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from bdl_lessons.datasets import digits
from bdl_lessons.evaluation import layer_penalties
from bdl_lessons.inference import BatchedNetworks, adam, fit_batched
from bdl_lessons.models import (
    Deterministic,
    HierarchicalDropout,
    LayerFactory,
    StructuredDropout,
    initialise,
    mlp,
)
from bdl_lessons.probability import kl_warmup

WIDTHS = (64, 80, 80, 10)
SEEDS = 5
N_TRAIN, N_TEST, N_STEPS, N_DRAWS = 1000, 700, 800, 40
RANDOM_LABELS = 0.3
REFERENCE_ALPHA = 0.1

METHODS: dict[str, LayerFactory] = {
    "MAP": Deterministic(),
    "VD": StructuredDropout(n_reflections=0, kl_per="factor"),
    "VSD": StructuredDropout(n_reflections=2, kl_per="factor"),
    "hierarchical VSD": HierarchicalDropout(StructuredDropout(n_reflections=2, kl_per="factor")),
    "VSD, KL per weight": StructuredDropout(n_reflections=2, kl_per="weight"),
}


def make_arrays() -> dict[str, np.ndarray]:
    """All ``(method, seed, ...)``, see :func:`train`."""
    runs = [train(method) for method in METHODS]
    return {key: np.stack([run[key] for run in runs]).astype(np.float32) for key in runs[0]}


def train(method: str, n_seeds: int = SEEDS, n_steps: int = N_STEPS) -> dict[str, np.ndarray]:
    """Fit ``n_seeds`` networks; for each of them, with MC predictions of ``N_DRAWS`` draws:

    - ``clean_accuracy``: share of test digits that get their *true* label;
    - ``train_accuracy``, ``train_nll``: on the labels that were trained on, nats;
    - ``test_nll``: on test labels with the same share of random ones, nats;
    - ``spectral_norm``: of the three mean weight matrices;
    - ``penalty``: R of each layer under one reference noise, ``C = 0.1 I``, nats;
    - ``alpha``: mean variance of the noise of each layer (0 for MAP).
    """
    x, y, x_test, y_clean, y_test = map(torch.stack, zip(*map(_data, range(n_seeds)), strict=True))
    networks = [
        initialise(mlp(WIDTHS, METHODS[method]), torch.Generator().manual_seed(seed))
        for seed in range(n_seeds)
    ]
    members, generator = BatchedNetworks(networks), torch.Generator().manual_seed(0)
    fit_batched(
        members,
        x,
        y,
        cross_entropy,
        n_steps=n_steps,
        generator=generator,
        optimizer=adam(3e-3),
        batch_size=100,
        kl_weight=0.0 if method == "MAP" else lambda step: kl_warmup(step, 0, n_steps / 4),
    )
    on_train, on_test = (_probabilities(members, rows, generator) for rows in (x, x_test))
    networks = [members.network(seed) for seed in range(n_seeds)]
    layers = [[module for module in network if hasattr(module, "noise")] for network in networks]
    covs = [REFERENCE_ALPHA * torch.eye(width) for width in WIDTHS[:-1]]
    with torch.no_grad():
        results = {
            "clean_accuracy": _accuracy(on_test, y_clean),
            "train_accuracy": _accuracy(on_train, y),
            "train_nll": _nll(on_train, y),
            "test_nll": _nll(on_test, y_test),
            "spectral_norm": torch.tensor(
                [[torch.linalg.matrix_norm(layer.weight, 2) for layer in row] for row in layers]
            ),
            "penalty": torch.stack(
                [
                    layer_penalties(net, rows[:200], covs)
                    for net, rows in zip(networks, x, strict=True)
                ]
            ),
            "alpha": torch.tensor([[_mean_alpha(layer) for layer in row] for row in layers]),
        }
    return {key: value.numpy() for key, value in results.items()}


def _data(seed: int) -> tuple[Tensor, ...]:
    data = digits(N_TRAIN, N_TEST, seed)
    generator = torch.Generator().manual_seed(seed)

    def some_random(labels: Tensor) -> Tensor:
        random = torch.randint(10, labels.shape, generator=generator)
        chosen = torch.rand(labels.shape, generator=generator) < RANDOM_LABELS
        return torch.where(chosen, random, labels)

    noisy = some_random(data.y_train), some_random(data.y_test)
    return data.x_train, noisy[0], data.x_test, data.y_test, noisy[1]


@torch.no_grad()
def _probabilities(members: BatchedNetworks, x: Tensor, generator: torch.Generator) -> Tensor:
    """``(M, B, C)``; the axis of the draws gives every draw a scale z of its own."""
    draws = x[:, None].expand(len(x), 10, *x.shape[1:])
    passes = [members(draws, "per_example", generator).softmax(-1) for _ in range(N_DRAWS // 10)]
    return torch.stack(passes).mean((0, 2))


def _accuracy(probs: Tensor, labels: Tensor) -> Tensor:
    return (probs.argmax(-1) == labels).double().mean(1)


def _nll(probs: Tensor, labels: Tensor) -> Tensor:
    return -probs.gather(-1, labels[..., None]).log().mean((1, 2))


def _mean_alpha(layer: torch.nn.Module) -> float:
    return layer.alpha.mean().item() if hasattr(layer, "alpha") else 0.0
