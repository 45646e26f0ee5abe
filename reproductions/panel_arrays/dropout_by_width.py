"""Lesson 07: fixed noise, and noise learned from several starts, on the 8x8 digits.

Narrow networks with two hidden layers, and wide ones with noisy labels. All layers have the same
rate, or start at it. The rivals have no noise, and no noise but the prior of concrete dropout.
"""

from collections.abc import Callable
from math import nan

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from bdl_lessons import models
from bdl_lessons.datasets import digits
from bdl_lessons.inference import BatchedNetworks, adam, fit_batched
from bdl_lessons.models import initialise, mlp

SETTINGS = {  # width, and the part of the training labels that is replaced by random ones
    "16 units": (16, 0.0),
    "96 units, noisy labels": (96, 0.3),
}
SEEDS = 15
STEPS = (1000, 2000, 4000)
N_TRAIN, N_VALIDATION, N_TEST = 1000, 397, 400
METHODS: dict[str, Callable[[float], models.LayerFactory]] = {
    "none": lambda _: models.Deterministic(),
    "prior": models.Deterministic,
    "Gaussian A": lambda p_drop: models.GaussianDropout(p_drop, "A"),
    "variational A": lambda p_drop: models.VariationalDropout("A", init_p_drop=p_drop),
    "concrete": models.ConcreteDropout,
}
LEARNED = ("variational A", "concrete")
CASES = [  # method, and its p_drop, start of p_drop or length-scale
    ("none", 0.0),
    *(("prior", length_scale) for length_scale in (0.5, 1.0, 2.0, 4.0, 8.0)),
    *(("Gaussian A", p_drop) for p_drop in (0.02, 0.05, 0.1, 0.2, 0.5)),
    *((method, p_drop) for method in LEARNED for p_drop in (0.02, 0.1, 0.5)),
]


def make_arrays() -> dict[str, np.ndarray]:
    """``error``, ``(setting, case, step, 2, seed)``, in per cent of the validation and of the test
    digits, and ``alpha``, ``(setting, case, step, seed, layer)``: NaN where nothing is learned. The
    cases are ``methods`` and ``numbers``, ``settings`` what they were tried on."""
    methods, numbers = zip(*CASES, strict=True)
    runs = [[train(*case, setting) for case in CASES] for setting in SETTINGS]
    named = {"settings": list(SETTINGS), "methods": methods, "numbers": numbers}
    return {name: np.array(values) for name, values in named.items()} | {
        name: np.array([[run[name] for run in of_setting] for of_setting in runs], np.float32)
        for name in ("error", "alpha")
    }


def train(
    method: str, number: float, setting: str, steps: tuple[int, ...] = STEPS
) -> dict[str, np.ndarray]:
    """Train one network for each seed; the optimizer starts again after each of ``steps``."""
    width, label_noise = SETTINGS[setting]
    x, y, x_held, y_held = splits(label_noise)
    generator = torch.Generator().manual_seed(0)
    layer = METHODS[method](number)
    made = [initialise(mlp((64, width, width, 10), layer), generator) for _ in range(SEEDS)]
    networks, done, error, alpha = BatchedNetworks(made), 0, [], []
    how = {"optimizer": adam(3e-3), "batch_size": 100}
    how |= {"kl_weight": 1.0 if method in (*LEARNED, "prior") else 0.0}
    for step in steps:
        fit_batched(networks, x, y, cross_entropy, n_steps=step - done, generator=generator, **how)
        done = step
        with torch.no_grad():
            wrong = (networks(x_held, "mean").argmax(-1) != y_held).double()
        halves = wrong.split([N_VALIDATION, N_TEST], 1)
        error.append(torch.stack([100 * part.mean(1) for part in halves]))
        layers = [[*networks.network(i)][::2] for i in range(SEEDS)]  # ReLUs are between them
        learned = method in LEARNED
        alpha.append([[part.alpha.item() if learned else nan for part in net] for net in layers])
    return {"error": torch.stack(error).numpy(), "alpha": np.array(alpha)}


def splits(label_noise: float) -> list[torch.Tensor]:
    """x, y and x, y of what is held out, first axis the seed; some training labels are random."""
    parts = [digits(N_TRAIN, N_VALIDATION + N_TEST, seed) for seed in range(SEEDS)]
    rows = ((data.x_train, data.y_train, data.x_test, data.y_test) for data in parts)
    x, y, x_held, y_held = map(torch.stack, zip(*rows, strict=True))
    generator = torch.Generator().manual_seed(1)
    replaced = torch.rand(y.shape, generator=generator) < label_noise
    y = torch.where(replaced, torch.randint(10, y.shape, generator=generator), y)
    return [x, y, x_held, y_held]
