"""Lesson 07: kinds of dropout on the 8x8 digits, narrow, wide and with noisy labels.

The set-up follows figure 1a of Kingma, Salimans and Welling (2015) at a size that trains in
seconds: p_drop 0.2 on the inputs and 0.5 on the hidden units, or starting there; test error with
the mean weights. Concrete dropout starts at the same rates. Two fixed rates of 0.05 in all layers
and a network with concrete dropout's prior but no dropout are there to compare with.
"""

from __future__ import annotations

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from bdl_lessons.datasets import digits
from bdl_lessons.inference import BatchedNetworks, adam, fit_batched
from bdl_lessons.models import (
    BinaryDropout,
    ConcreteDropout,
    Deterministic,
    GaussianDropout,
    LayerFactory,
    VariationalDropout,
    initialise,
    mlp,
)

SETTINGS = {  # width, and the part of the training labels that is replaced by random ones
    "16 units": (16, 0.0),
    "96 units": (96, 0.0),
    "96 units, noisy labels": (96, 0.3),
}
SEEDS = 8
STEPS = (500, 1000, 2000)
N_TRAIN, N_TEST = 1000, 797
RATES = (0.2, 0.5, 0.5)

METHODS: dict[str, list[LayerFactory]] = {
    "none": [Deterministic()] * 3,
    "binary": [BinaryDropout(p_drop) for p_drop in RATES],
    "Gaussian A": [GaussianDropout(p_drop, "A") for p_drop in RATES],
    "Gaussian B": [GaussianDropout(p_drop, "B") for p_drop in RATES],
    "variational A": [VariationalDropout("A", init_p_drop=p_drop) for p_drop in RATES],
    "variational A2": [
        VariationalDropout("A", init_p_drop=p_drop, kl_scale=1 / 3) for p_drop in RATES
    ],
    "variational B": [VariationalDropout("B", init_p_drop=p_drop) for p_drop in RATES],
    "concrete": [ConcreteDropout(p_drop) for p_drop in RATES],
    "binary, 0.05": [BinaryDropout(0.05)] * 3,
    "Gaussian A, 0.05": [GaussianDropout(0.05, "A")] * 3,
    "none, prior": [Deterministic()] * 3,
}
LEARNED = ("variational A", "variational A2", "variational B", "concrete")
WITH_KL = (*LEARNED, "none, prior")


def make_arrays() -> dict[str, np.ndarray]:
    """``error`` in per cent and ``nll`` in nats, ``(method, setting, step, seed)``, and ``alpha``,
    ``(method, setting, seed, layer)`` after the last step: NaN where nothing is learned. The names
    of the methods are ``methods``."""
    runs = [[train(method, setting) for setting in SETTINGS] for method in METHODS]
    return {"methods": np.array(list(METHODS))} | {
        name: np.array([[run[name] for run in of_method] for of_method in runs], dtype=np.float32)
        for name in ("error", "nll", "alpha")
    }


def train(method: str, setting: str, steps: tuple[int, ...] = STEPS) -> dict[str, np.ndarray]:
    """Train one network for each seed; the optimizer starts again after each of ``steps``."""
    width, label_noise = SETTINGS[setting]
    x, y, x_test, y_test = splits(label_noise)
    generator = torch.Generator().manual_seed(0)
    networks = BatchedNetworks(
        [initialise(mlp((64, width, width, 10), METHODS[method]), generator) for _ in range(SEEDS)]
    )
    scores, done = [], 0
    for step in steps:
        fit_batched(
            networks,
            x,
            y,
            cross_entropy,
            n_steps=step - done,
            generator=generator,
            optimizer=adam(3e-3),
            batch_size=100,
            kl_weight=1.0 if method in WITH_KL else 0.0,
        )
        done = step
        with torch.no_grad():
            log_probs = networks(x_test, "mean").log_softmax(-1)
        error = 100 * (log_probs.argmax(-1) != y_test).double().mean(1)
        nll = -log_probs.gather(-1, y_test[..., None]).mean((1, 2))
        scores.append(torch.stack([error, nll]))
    error, nll = torch.stack(scores, 1)
    alpha = torch.full((SEEDS, len(RATES)), torch.nan)
    if method in LEARNED:
        layers = [[m for m in networks.network(i) if hasattr(m, "noise")] for i in range(SEEDS)]
        alpha = torch.tensor([[layer.alpha.item() for layer in network] for network in layers])
    return {"error": error.numpy(), "nll": nll.numpy(), "alpha": alpha.numpy()}


def splits(label_noise: float) -> list[torch.Tensor]:
    """x, y, x_test and y_test, first axis the seed; some training labels are drawn at random."""
    parts = [digits(N_TRAIN, N_TEST, seed) for seed in range(SEEDS)]
    x, y, x_test, y_test = (
        torch.stack([getattr(part, name) for part in parts])
        for name in ("x_train", "y_train", "x_test", "y_test")
    )
    generator = torch.Generator().manual_seed(1)
    replaced = torch.rand(y.shape, generator=generator) < label_noise
    y = torch.where(replaced, torch.randint(10, y.shape, generator=generator), y)
    return [x, y, x_test, y_test]
