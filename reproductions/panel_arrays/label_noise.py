"""Lesson 12: what keeps a network from memorising random labels of the digits, trained once.

Networks 64-80-80-10 without a prior, stopped early, with a Gaussian prior, and with the noise of
VD, VSD and hierarchical VSD. Validation data choose the number of steps, the precision of the prior
and the weight of the KL of VSD at T = 0, which all kinds of noise share. A method's networks (one
for each share of random labels and each seed) are one batch; each has its own split, labels and
start, the same for every method, so that differences between methods are paired.
"""

import functools
import itertools
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from bdl_lessons.datasets import digits
from bdl_lessons.inference import BatchedNetworks, adam, fit_batched
from bdl_lessons.models import (
    Deterministic,
    HierarchicalDropout,
    Method,
    Network,
    StochasticLayer,
    StructuredDropout,
    initialise,
    mlp,
)
from bdl_lessons.probability import kl_warmup
from reproductions.penalties import layer_penalties

WIDTHS = (64, 80, 80, 10)
SHARES = (0.0, 0.15, 0.3, 0.45)
"""Of the labels, how many are replaced by random ones."""
SEEDS = 8
N_TRAIN = 1000
N_VALIDATION = 200
N_TEST = 700
N_STEPS = 1000
N_DRAWS = 40
TRIED = {
    "MAP": (0.0, 1.0, 3.0, 6.0, 10.0, 15.0, 25.0),  # precisions of its prior
    "early stopping": (30.0, 50.0, 80.0, 130.0, 200.0, 400.0, 1000.0),  # numbers of steps
    "VSD, T = 0": (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0),  # weights of the KL
}

_VSD = partial(StructuredDropout, init_p_drop=0.2, kl_per="factor", alpha_spread=0.5)
METHODS: dict[str, Method] = {
    "no prior": Deterministic,
    "early stopping": Deterministic,
    "MAP": Deterministic,
    "VD": partial(_VSD, n_reflections=0, prior="log_uniform"),
    "VSD, T = 0": partial(_VSD, n_reflections=0),
    "VSD, T = 2": partial(_VSD, n_reflections=2),
    "hierarchical VSD": partial(
        HierarchicalDropout, n_reflections=2, init_p_drop=0.2, kl_per="factor", alpha_spread=0.5
    ),
    "VSD, T = 0, untuned": partial(_VSD, n_reflections=0),
    "VSD, KL per weight": partial(StructuredDropout, n_reflections=2, kl_per="weight"),
}
_FIXED = {"no prior": 0.0, "VSD, T = 0, untuned": 1.0, "VSD, KL per weight": 1.0}


def make_arrays() -> dict[str, np.ndarray]:
    """All ``(method, share, seed, ...)``, see :func:`train`; and ``methods`` and ``shares``."""
    runs = [train(method) for method in METHODS]
    arrays = {}
    for name in runs[0]:
        arrays[name] = np.stack([run[name] for run in runs]).astype(np.float32)
    arrays["methods"] = np.array(list(METHODS))
    arrays["shares"] = np.array(SHARES)
    return arrays


def train(method: str, n_seeds: int = SEEDS, n_steps: int = N_STEPS) -> dict[str, np.ndarray]:
    """Fit a network for each share and seed; for each, with MC predictions of ``N_DRAWS`` draws:

    - ``clean_accuracy``: share of test digits that get their *true* label;
    - ``train_accuracy``: on the labels that were trained on;
    - ``test_nll``: on test labels with the same share of random ones, nats;
    - of each layer ``spectral_norm``, ``penalty`` (R under one reference noise, ``C = 0.1 I``, in
      nats) and ``alpha`` (mean variance of the noise, 0 without);
    - ``kl_weight``: for MAP the precision of its prior, for early stopping the number of steps.
    """
    labelled = data(n_seeds)
    x = labelled.x
    if method in _FIXED:
        weight = torch.full((len(x),), _FIXED[method])
    else:
        weight = chosen(method if method in TRIED else "VSD, T = 0", n_seeds, n_steps)
    members, generator = fitted(method, x, labelled.y, weight, n_seeds, n_steps)
    on_train = _probabilities(members, x, generator)
    on_test = _probabilities(members, labelled.x_test, generator)
    penalties = []
    norms = []
    alphas = []
    for number, rows in enumerate(x):
        network = members.network(number)
        penalties.append(_penalties(network, rows[:200]))
        norms.append(_spectral_norms(network))
        alphas.append(_mean_alphas(network))
    results = {
        "clean_accuracy": _accuracy(on_test, labelled.y_clean),
        "train_accuracy": _accuracy(on_train, labelled.y),
        "test_nll": _nll(on_test, labelled.y_test),
        "spectral_norm": torch.stack(norms),
        "penalty": torch.stack(penalties),
        "alpha": torch.stack(alphas),
        "kl_weight": weight,
    }
    arrays = {}
    for name, values in results.items():
        arrays[name] = values.unflatten(0, (len(SHARES), n_seeds)).numpy()
    return arrays


@torch.no_grad()
def _penalties(network: Network, x: Tensor) -> Tensor:
    """The penalty of each layer under the reference noise ``C = 0.1 I``, in nats."""
    noise_covs = [0.1 * torch.eye(n_inputs) for n_inputs in WIDTHS[:-1]]
    return layer_penalties(network, x, noise_covs)


@torch.no_grad()
def _spectral_norms(network: Network) -> Tensor:
    """The largest singular value of the mean weights of each layer."""
    return torch.stack([torch.linalg.matrix_norm(layer.weight, 2) for layer in _layers(network)])


@torch.no_grad()
def _mean_alphas(network: Network) -> Tensor:
    """The mean variance of the noise of each layer, 0 without noise."""
    no_noise = torch.zeros(1)
    return torch.stack([getattr(layer, "alpha", no_noise).mean() for layer in _layers(network)])


def _layers(network: Network) -> list[StochasticLayer]:
    return [module for module in network if isinstance(module, StochasticLayer)]


def fitted(
    method: str, x: Tensor, y: Tensor, weight: Tensor, n_seeds: int, n_steps: int
) -> tuple[BatchedNetworks, torch.Generator]:
    """Networks trained on ``x``, ``(M, N, 64)``; equal seeds have equal starts.

    ``weight``, ``(M,)``: what is chosen for each network, its number of steps for early stopping,
    else the weight of its KL. The generator is in the state after training.
    """
    if method == "early stopping":
        stops = weight.long()
        kl_weight = torch.zeros(len(x))
    else:
        stops = torch.full((len(x),), n_steps)
        kl_weight = weight
    grows = METHODS[method] is not Deterministic
    warm_up = kl_warmup(n_steps / 4)
    trained = {}
    for stop in stops.unique().tolist():
        members = _started(method, len(x), n_seeds)
        generator = torch.Generator().manual_seed(0)
        fit_batched(
            members,
            x,
            y,
            cross_entropy,
            n_steps=stop,
            batch_size=100,
            optimizer=adam(3e-3),
            kl_weight=(lambda step: kl_weight * warm_up(step)) if grows else kl_weight,
            generator=generator,
        )
        for number in (stops == stop).nonzero().flatten().tolist():
            trained[number] = members.network(number)
    return BatchedNetworks([trained[number] for number in range(len(x))]), generator


def _started(method: str, n_networks: int, n_seeds: int) -> BatchedNetworks:
    """New networks; those of one seed have one start, whatever their share and method."""
    networks = []
    for number in range(n_networks):
        generator = torch.Generator().manual_seed(number % n_seeds)
        networks.append(initialise(mlp(WIDTHS, METHODS[method]), generator))
    return BatchedNetworks(networks)


@functools.cache
def chosen(method: str, n_seeds: int, n_steps: int) -> Tensor:
    """The strength of each network, ``(M,)``, with the best NLL on the last training examples."""
    labelled = data(n_seeds)
    x = labelled.x[:, :-N_VALIDATION]
    y = labelled.y[:, :-N_VALIDATION]
    x_held_out = labelled.x[:, -N_VALIDATION:]
    y_held_out = labelled.y[:, -N_VALIDATION:]
    nlls = []
    for value in TRIED[method]:
        weight = torch.full((len(x),), value)
        members, generator = fitted(method, x, y, weight, n_seeds, n_steps)
        nlls.append(_nll(_probabilities(members, x_held_out, generator), y_held_out))
    best = torch.stack(nlls).argmin(0)
    return torch.tensor(TRIED[method])[best]


class Labelled(NamedTuple):
    """Digits for M networks, one for each share of random labels and each seed.

    Attributes:
        x: ``(M, N_TRAIN, 64)``.
        y: their labels, of which the share is random, ``(M, N_TRAIN)``.
        x_test: ``(M, N_TEST, 64)``.
        y_clean: their true labels.
        y_test: labels with the same share of random ones.
    """

    x: Tensor
    y: Tensor
    x_test: Tensor
    y_clean: Tensor
    y_test: Tensor


def data(n_seeds: int) -> Labelled:
    """The digits of every network, share by share."""
    parts = []
    for share, seed in itertools.product(SHARES, range(n_seeds)):
        rows = digits(N_TRAIN, N_TEST, seed)
        generator = torch.Generator().manual_seed(seed)
        parts.append(
            Labelled(
                x=rows.x_train,
                y=_partly_random(rows.y_train, share, generator),
                x_test=rows.x_test,
                y_clean=rows.y_test,
                y_test=_partly_random(rows.y_test, share, generator),
            )
        )
    return Labelled(*map(torch.stack, zip(*parts, strict=True)))


def _partly_random(labels: Tensor, share: float, generator: torch.Generator) -> Tensor:
    """Labels of which a share is replaced by random ones, some of them the same."""
    random = torch.randint(10, labels.shape, generator=generator)
    is_replaced = torch.rand(labels.shape, generator=generator) < share
    return torch.where(is_replaced, random, labels)


@torch.no_grad()
def _probabilities(members: BatchedNetworks, x: Tensor, generator: torch.Generator) -> Tensor:
    """``(M, B, C)``; the axis of the draws gives every draw a scale of its own."""
    draws = x[:, None].expand(len(x), 5, *x.shape[1:])
    passes = [members(draws, "per_example", generator).softmax(-1) for _ in range(N_DRAWS // 5)]
    return torch.stack(passes).mean((0, 2))


def _accuracy(probs: Tensor, labels: Tensor) -> Tensor:
    """Of each network, ``(M,)``."""
    return (probs.argmax(-1) == labels).double().mean(1)


def _nll(probs: Tensor, labels: Tensor) -> Tensor:
    """Of each network, ``(M,)``, in nats."""
    return -probs.gather(-1, labels[..., None]).log().mean((1, 2))
