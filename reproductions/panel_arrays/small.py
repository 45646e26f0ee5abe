"""Trainings of a page or less, for the panels of lessons 00, 01, 05, 07 and 08."""

from collections.abc import Callable, Iterable
from functools import partial
from itertools import pairwise
from math import nan
from typing import NamedTuple

import numpy as np
import torch
from sklearn.datasets import make_moons
from torch import Tensor, nn, vmap
from torch.func import functional_call, stack_module_state
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy
from torch.nn.utils import parameters_to_vector

from bdl_lessons import models
from bdl_lessons.datasets import digits, rotated
from bdl_lessons.evaluation import log_mean_probs
from bdl_lessons.inference import BatchedNetworks, adam, fit_batched, layer_log_alpha, predict
from bdl_lessons.inference.train import Run, optimize
from bdl_lessons.models import (
    ARD,
    Deterministic,
    Method,
    Network,
    SparseVD,
    StochasticLayer,
    initialise,
    mlp,
)
from bdl_lessons.panels import (
    dropout_rate,
    many_networks,
    pruning_threshold,
    rotated_digit,
)
from bdl_lessons.probability import kl_warmup
from reproductions.measure import train_by
from reproductions.panel_arrays.labels import partly_random

Arrays = dict[str, np.ndarray]


def make_many_networks(n_networks: int = 20, n_steps: int = 500) -> Arrays:
    """Lesson 00: twenty networks, trained on the same points from different initial weights.

    The points, their classes, and the logits of each network on a square grid, ``(weight decay,
    network, column, row)``. Equal numbers have equal initial weights.
    """
    torch.manual_seed(0)
    corners = torch.tensor([[-2.0, 2.0], [2.0, -2.0], [2.0, 2.0], [-2.0, -2.0]])
    x = (corners[:, None] + 0.35 * torch.randn(4, 10, 2)).flatten(0, 1)
    y = torch.arange(40).ge(20).float()
    axis = torch.tensor(many_networks.AXIS).float()
    grid = torch.cartesian_prod(axis, axis)
    logits = []
    for weight_decay in many_networks.WEIGHT_DECAYS:
        networks = [_two_hidden_layers(seed) for seed in range(n_networks)]
        parameters, _ = stack_module_state(networks)
        answer = vmap(partial(functional_call, networks[0]), in_dims=(0, None))
        optimizer = torch.optim.Adam(parameters.values(), lr=0.02, weight_decay=weight_decay)
        for _ in range(n_steps):
            a = answer(parameters, x)[..., 0]
            loss = n_networks * binary_cross_entropy_with_logits(a, y.expand(n_networks, -1))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        on_grid = answer(parameters, grid).view(n_networks, len(axis), len(axis))
        logits.append(on_grid.detach())
    return {
        "x": x.numpy(),
        "y": y.numpy(),
        "logits": torch.stack(logits).half().numpy(),
    }


def _two_hidden_layers(seed: int) -> nn.Sequential:
    """A new network of lesson 00."""
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Linear(2, 16),
        nn.Tanh(),
        nn.Linear(16, 16),
        nn.Tanh(),
        nn.Linear(16, 1),
    )


def make_dropout_rate(n_steps: int = 4000) -> Arrays:
    """Lesson 01: a classifier with ten hidden units on two moons for each dropout rate.

    All are trained in one batch; data and weights. Masks are fresh for every example and step;
    nothing is rescaled (classic dropout), so weight scaling at prediction multiplies the hidden
    units by keep.
    """
    x, y = make_moons(80, noise=0.22, random_state=3)
    generator = torch.Generator().manual_seed(0)
    rates = dropout_rate.RATES
    n_hidden = dropout_rate.N_HIDDEN
    inputs = torch.from_numpy(x)
    labels = torch.from_numpy(y).double()
    keep = 1 - torch.tensor(rates, dtype=torch.float64)[:, None, None]

    def start(*shape: int, scale: float) -> Tensor:
        draw = torch.randn(*shape, generator=generator, dtype=torch.float64) * scale
        return draw.expand(len(rates), *shape).clone().requires_grad_()

    w1 = start(2, n_hidden, scale=1.5)
    b1 = start(1, n_hidden, scale=0.5)
    w2 = start(n_hidden, 1, scale=0.5)
    b2 = start(1, 1, scale=0.0)

    def loss_at(_: int) -> Tensor:
        uniforms = torch.rand(1, len(x), n_hidden, generator=generator, dtype=torch.float64)
        hidden = torch.tanh(inputs @ w1 + b1) * (uniforms < keep)
        logits = (hidden @ w2 + b2).squeeze(-1)
        return len(rates) * binary_cross_entropy_with_logits(logits, labels.expand_as(logits))

    optimize(
        [w1, b1, w2, b2],
        loss_at,
        Run(n_steps, epoch=1, kl_weight=0.0, nll=binary_cross_entropy_with_logits),
        partial(torch.optim.Adam, lr=0.02, weight_decay=1e-4),
        schedule=None,
        progress=True,
    )
    generator.manual_seed(12)
    uniforms = torch.rand(n_hidden, generator=generator, dtype=torch.float64)
    return {
        "x": x,
        "y": y,
        "uniforms": uniforms.numpy(),
        "w1": w1.detach().numpy(),
        "b1": b1.detach().numpy(),
        "w2": w2.detach().numpy(),
        "b2": b2.detach().numpy(),
    }


def make_rotated_digit(n_steps: int = 1500, n_draws: int = rotated_digit.MANY_SAMPLES) -> Arrays:
    """Lesson 05: digit classifiers with dropout, one for each rate; what they say of turned ones.

    ``probs``: averaged probabilities of ``n_draws``, ``(rates, ones, angles, classes)``, and the
    ``weights`` of each network.
    """
    panel = rotated_digit
    data = digits(seed=0)
    ones = panel.ones()
    copies = ones.repeat_interleave(len(panel.ANGLES), dim=0)
    angles = torch.tensor(panel.ANGLES).repeat(len(ones))
    turned = rotated(copies, angles).flatten(1)
    training = {"learning_rate": 2e-3, "batch_size": 100}
    probs = []
    weights = []
    for p_drop in panel.RATES:
        generator = torch.Generator().manual_seed(2)
        net = initialise(panel.classifier(p_drop), generator)
        train_by(training, net, data.x_train, data.y_train, generator=generator, n_steps=n_steps)
        logits = predict(net, turned, n_draws, "shared", generator=generator)
        mean_probs = log_mean_probs(logits).exp()
        probs.append(mean_probs.unflatten(0, (len(ones), len(panel.ANGLES))))
        weights.append(parameters_to_vector(net.parameters()).detach())
    return {
        "probs": torch.stack(probs).half().numpy(),
        "weights": torch.stack(weights).half().numpy(),
    }


NOISE_SETTINGS = {
    "16 units": (16, 0.0),
    "96 units, noisy labels": (96, 0.3),
}
"""Width, and the part of the training labels that is replaced by random ones."""
OTHER_CORNERS = {
    "16 units, noisy labels": (16, 0.3),
    "96 units": (96, 0.0),
}
"""What completes ``NOISE_SETTINGS`` to a two by two of width and labels."""
SEEDS = 15
STEPS = (1000, 2000, 4000)
N_TRAIN = 1000
N_VALIDATION = 397
N_TEST = 400
METHODS: dict[str, Callable[[float], Method]] = {
    "none": lambda _: Deterministic,
    "prior": lambda length_scale: partial(Deterministic, length_scale=length_scale),
    "Gaussian A": lambda p_drop: partial(models.GaussianDropout, p_drop=p_drop),
    "variational A": lambda p_drop: partial(models.VariationalDropout, init_p_drop=p_drop),
    "concrete": lambda p_drop: partial(models.ConcreteDropout, init_p_drop=p_drop),
}
LEARNED = ("variational A", "concrete")
CASES = [
    ("none", 0.0),
    *(("prior", length_scale) for length_scale in (0.5, 1.0, 2.0, 4.0, 8.0)),
    *(("Gaussian A", p_drop) for p_drop in (0.02, 0.05, 0.1, 0.2, 0.5)),
    *(("variational A", init_p_drop) for init_p_drop in (0.02, 0.1, 0.5)),
    *(("concrete", init_p_drop) for init_p_drop in (0.02, 0.1, 0.5)),
]
"""Method, and its p_drop, start of p_drop or length-scale."""
CASES_OF_A = [case for case in CASES if case[0] in ("Gaussian A", "variational A")]


def make_dropout_by_width() -> Arrays:
    """Lesson 07: fixed noise, and noise learned from several starts, on the 8x8 digits.

    Narrow networks with two hidden layers, and wide ones with noisy labels; all layers have one
    rate or start. The rivals have no noise, and no noise but the prior of concrete dropout.
    ``error``, ``(setting, case, step, 2, seed)``, in per cent of the validation and of the test
    digits; ``alpha``, ``(setting, case, step, seed, layer)``: NaN where nothing is learned. The
    cases are ``methods`` and ``numbers``, ``settings`` what they were tried on.
    """
    return _noise_runs(NOISE_SETTINGS, CASES)


def make_width_and_labels() -> Arrays:
    """Lesson 07: noise of type A, fixed and learned, in ``OTHER_CORNERS``.

    ``error``, ``alpha``, ``settings``, ``methods`` and ``numbers`` as in ``dropout_by_width``.
    """
    return _noise_runs(OTHER_CORNERS, CASES_OF_A)


def _noise_runs(settings: Iterable[str], cases: list[tuple[str, float]]) -> Arrays:
    """Every case in every setting: names, numbers, errors and alphas, as stored."""
    settings = list(settings)
    runs = [
        [train_noise(method, number, setting) for method, number in cases] for setting in settings
    ]
    arrays = {
        "settings": np.array(settings),
        "methods": np.array([method for method, _ in cases]),
        "numbers": np.array([number for _, number in cases]),
    }
    for key in ("error", "alpha"):
        values = [[run[key] for run in of_setting] for of_setting in runs]
        arrays[key] = np.array(values, np.float32)
    return arrays


def train_noise(method: str, number: float, setting: str, steps: tuple[int, ...] = STEPS) -> Arrays:
    """Train one network for each seed; the optimizer starts again after each of ``steps``.

    Returns ``error``, ``(step, 2, seed)``, and ``alpha``, ``(step, seed, layer)``.
    """
    width, label_noise = (NOISE_SETTINGS | OTHER_CORNERS)[setting]
    splits = noisy_splits(label_noise)
    generator = torch.Generator().manual_seed(0)
    networks = BatchedNetworks(
        [
            initialise(mlp((64, width, width, 10), METHODS[method](number)), generator)
            for _ in range(SEEDS)
        ]
    )
    has_kl = method in LEARNED or method == "prior"
    errors = []
    alphas = []
    for n_before, n_after in pairwise([0, *steps]):
        fit_batched(
            networks,
            splits.x,
            splits.y,
            cross_entropy,
            n_steps=n_after - n_before,
            batch_size=100,
            optimizer=adam(3e-3),
            kl_weight=1.0 if has_kl else 0.0,
            generator=generator,
        )
        errors.append(_errors(networks, splits))
        alphas.append([_alphas(networks.network(seed), method) for seed in range(SEEDS)])
    return {"error": torch.stack(errors).numpy(), "alpha": np.array(alphas)}


@torch.no_grad()
def _errors(networks: BatchedNetworks, splits: "NoisySplits") -> Tensor:
    """Errors in per cent of the validation and of the test digits, ``(2, seed)``."""
    predicted = networks(splits.x_held_out, "mean").argmax(-1)
    is_wrong = (predicted != splits.y_held_out).double()
    validation, test = is_wrong.split([N_VALIDATION, N_TEST], dim=1)
    return torch.stack([100 * validation.mean(1), 100 * test.mean(1)])


def _alphas(network: Network, method: str) -> list[float]:
    """The variance of the noise of each layer; NaN where it is not learned."""
    layers = [module for module in network if isinstance(module, StochasticLayer)]
    if method not in LEARNED:
        return [nan] * len(layers)
    return [layer.alpha.item() for layer in layers]


class NoisySplits(NamedTuple):
    """Digits of every seed, on the first axis; some of the training labels are random.

    The validation digits are the first of those that are held out, the test digits the others.
    """

    x: Tensor
    y: Tensor
    x_held_out: Tensor
    y_held_out: Tensor


def noisy_splits(label_noise: float) -> NoisySplits:
    """A split for each seed; this part of the training labels is replaced by random ones."""
    parts = [digits(N_TRAIN, N_VALIDATION + N_TEST, seed) for seed in range(SEEDS)]
    y = torch.stack([data.y_train for data in parts])
    generator = torch.Generator().manual_seed(1)
    return NoisySplits(
        x=torch.stack([data.x_train for data in parts]),
        y=partly_random(y, label_noise, generator),
        x_held_out=torch.stack([data.x_test for data in parts]),
        y_held_out=torch.stack([data.y_test for data in parts]),
    )


def make_pruning_threshold(n_steps: int = 3000) -> Arrays:
    """Lesson 08: networks 64-50-10 with one noise variance for each weight, on the digits.

    Two priors on the true labels, one of them again on random labels, and an ordinary network for
    the first figure of the lesson.
    """
    data = digits(seed=0)
    generator = torch.Generator()
    generator.manual_seed(5)
    random_labels = torch.randint(10, data.y_train.shape, generator=generator)

    def train(method: Method, y: Tensor) -> Network:
        """The KL's weight rises to 1 over the first quarter of the steps."""
        generator.manual_seed(0)
        net = initialise(mlp((64, pruning_threshold.WIDTH, 10), method), generator)
        train_by(
            {"learning_rate": 1e-2, "batch_size": 100},
            net,
            data.x_train,
            y,
            generator=generator,
            n_steps=n_steps,
            schedule=lambda step: min(1, 2 - 2 * step / n_steps),
            kl_weight=kl_warmup(n_steps / 4),
        )
        return net

    sparse_vd = partial(SparseVD, init_log_sigma2=-6.0)
    trained = {
        "sparse VD": train(sparse_vd, data.y_train),
        "ARD": train(partial(ARD, init_log_sigma2=-6.0), data.y_train),
        "sparse VD, random labels": train(sparse_vd, random_labels),
    }
    nets = [trained[name] for name in pruning_threshold.NETWORKS]
    ordinary = train(partial(Deterministic, length_scale=0.1), data.y_train)
    stored = {}
    for number, position in ((1, 0), (2, 2)):
        layers = [net[position] for net in nets]
        stored[f"mu_{number}"] = torch.stack([layer.weight for layer in layers])
        stored[f"bias_{number}"] = torch.stack([layer.bias for layer in layers])
        stored[f"log_alpha_{number}"] = torch.stack([layer_log_alpha(layer) for layer in layers])
        stored[f"ordinary_mu_{number}"] = ordinary[position].weight
        stored[f"ordinary_bias_{number}"] = ordinary[position].bias
    return {name: values.detach().numpy() for name, values in stored.items()}
