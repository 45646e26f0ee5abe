"""Lesson 07: seven kinds of dropout at three widths on the 8x8 digits, trained once.

The set-up follows figure 1a of Kingma, Salimans and Welling (2015) at a size that trains in a
second: p_drop 0.2 on the inputs and 0.5 on the hidden units, or starting there; test error with the
mean weights.
"""

from __future__ import annotations

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from bdl_lessons.datasets import digits
from bdl_lessons.evaluation import error_rate
from bdl_lessons.experiments.measure import mean_weights
from bdl_lessons.inference import adam, fit
from bdl_lessons.models import (
    BinaryDropout,
    Deterministic,
    GaussianDropout,
    LayerFactory,
    VariationalDropout,
    initialise,
    mlp,
)

WIDTHS = (16, 32, 96)
SEEDS = 4
N_TRAIN, N_TEST, N_STEPS = 1000, 797, 600
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
}


def make_arrays() -> dict[str, np.ndarray]:
    """``error`` in per cent, ``(method, width, seed)``, and ``alpha``, the same with a last axis
    for the three layers: NaN where nothing is learned."""
    runs = [
        [[train(method, width, seed) for seed in range(SEEDS)] for width in WIDTHS]
        for method in METHODS
    ]
    results = np.array(runs, dtype=np.float32)
    return {"error": results[..., 0], "alpha": results[..., 1:]}


def train(method: str, width: int, seed: int) -> list[float]:
    """Fit one network; returns its test error in per cent and the mean alpha of each layer."""
    data = digits(N_TRAIN, N_TEST, seed)
    generator = torch.Generator().manual_seed(seed)
    network = initialise(mlp((64, width, width, 10), METHODS[method]), generator)
    learned = method.startswith("variational")
    fit(
        network,
        data.x_train.float(),
        data.y_train,
        cross_entropy,
        n_steps=N_STEPS,
        generator=generator,
        optimizer=adam(3e-3),
        batch_size=100,
        kl_weight=1.0 if learned else 0.0,
    )
    layers = [module for module in network if hasattr(module, "noise")]
    alphas = [layer.alpha.mean().item() if learned else float("nan") for layer in layers]
    return [error_rate(mean_weights(network, data.x_test.float()), data.y_test), *alphas]
