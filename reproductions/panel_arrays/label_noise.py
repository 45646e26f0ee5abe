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
N_TRAIN, N_VALIDATION, N_TEST, N_STEPS, N_DRAWS = 1000, 200, 700, 1000, 40
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
    made = {key: np.stack([run[key] for run in runs]).astype(np.float32) for key in runs[0]}
    return made | {"methods": np.array(list(METHODS)), "shares": np.array(SHARES)}


def train(method: str, n_seeds: int = SEEDS, n_steps: int = N_STEPS) -> dict[str, np.ndarray]:
    """Fit a network for each share and seed; for each, with MC predictions of ``N_DRAWS`` draws:

    - ``clean_accuracy``: share of test digits that get their *true* label;
    - ``train_accuracy``: on the labels that were trained on;
    - ``test_nll``: on test labels with the same share of random ones, nats;
    - of each layer ``spectral_norm``, ``penalty`` (R under one reference noise, ``C = 0.1 I``, in
      nats) and ``alpha`` (mean variance of the noise, 0 without);
    - ``kl_weight``: for MAP the precision of its prior, for early stopping the number of steps.
    """
    x, y, x_test, y_clean, y_test = data(n_seeds)
    if method in _FIXED:
        weight = torch.full((len(x),), _FIXED[method])
    else:
        weight = chosen(method if method in TRIED else "VSD, T = 0", n_seeds, n_steps)
    members, generator = fitted(method, x, y, weight, n_seeds, n_steps)
    on_train, on_test = (_probabilities(members, rows, generator) for rows in (x, x_test))
    covs = [0.1 * torch.eye(width) for width in WIDTHS[:-1]]
    penalties = []
    norms = []
    alphas = []
    with torch.no_grad():
        for number, rows in enumerate(x):
            network = members.network(number)
            layers = [module for module in network if isinstance(module, StochasticLayer)]
            penalties.append(layer_penalties(network, rows[:200], covs))
            norms.append([torch.linalg.matrix_norm(layer.weight, 2) for layer in layers])
            alphas.append([getattr(layer, "alpha", torch.zeros(1)).mean() for layer in layers])
    results = {
        "clean_accuracy": _accuracy(on_test, y_clean),
        "train_accuracy": _accuracy(on_train, y),
        "test_nll": _nll(on_test, y_test),
        "spectral_norm": torch.tensor(norms),
        "penalty": torch.stack(penalties),
        "alpha": torch.tensor(alphas),
        "kl_weight": weight,
    }
    return {key: v.unflatten(0, (len(SHARES), n_seeds)).numpy() for key, v in results.items()}


def fitted(
    method: str, x: Tensor, y: Tensor, weight: Tensor, n_seeds: int, n_steps: int
) -> tuple[BatchedNetworks, torch.Generator]:
    """Networks trained on ``x``, ``(M, N, 64)``; equal seeds have equal starts."""
    stops = torch.full((len(x),), n_steps)
    kept = {}
    growing = kl_warmup(n_steps / 4)
    if method == "early stopping":
        stops = weight.long()
        weight = torch.zeros(len(x))
    for stop in stops.unique().tolist():
        networks = [
            initialise(mlp(WIDTHS, METHODS[method]), torch.Generator().manual_seed(n % n_seeds))
            for n in range(len(x))
        ]
        noisy = not isinstance(networks[0][0], Deterministic)
        kl_weight = (lambda step: weight * growing(step)) if noisy else weight
        members = BatchedNetworks(networks)
        generator = torch.Generator().manual_seed(0)
        fit_batched(
            members,
            x,
            y,
            cross_entropy,
            n_steps=stop,
            batch_size=100,
            optimizer=adam(3e-3),
            kl_weight=kl_weight,
            generator=generator,
        )
        kept |= {n: members.network(n) for n in (stops == stop).nonzero().flatten().tolist()}
    return BatchedNetworks([kept[n] for n in range(len(x))]), generator


@functools.cache
def chosen(method: str, n_seeds: int, n_steps: int) -> Tensor:
    """The strength of each network, ``(M,)``, with the best NLL on the last training examples."""
    x, y, *_ = data(n_seeds)
    nlls = []
    for value in TRIED[method]:
        parts = x[:, :-N_VALIDATION], y[:, :-N_VALIDATION], torch.full((len(x),), value)
        members, generator = fitted(method, *parts, n_seeds, n_steps)
        validated = _probabilities(members, x[:, -N_VALIDATION:], generator)
        nlls.append(_nll(validated, y[:, -N_VALIDATION:]))
    return torch.tensor(TRIED[method])[torch.stack(nlls).argmin(0)]


def data(n_seeds: int) -> list[Tensor]:
    """For each share and seed x, y, x of the tested, their true labels, and those with the share
    of random ones."""
    runs = []
    for share, seed in itertools.product(SHARES, range(n_seeds)):
        rows = digits(N_TRAIN, N_TEST, seed)
        generator = torch.Generator().manual_seed(seed)
        noisy = []
        for labels in (rows.y_train, rows.y_test):
            random = torch.randint(10, labels.shape, generator=generator)
            replaced = torch.rand(labels.shape, generator=generator) < share
            noisy.append(torch.where(replaced, random, labels))
        runs.append((rows.x_train, noisy[0], rows.x_test, rows.y_test, noisy[1]))
    return [*map(torch.stack, zip(*runs, strict=True))]


@torch.no_grad()
def _probabilities(members: BatchedNetworks, x: Tensor, generator: torch.Generator) -> Tensor:
    """``(M, B, C)``; the axis of the draws gives every draw a scale of its own."""
    draws = x[:, None].expand(len(x), 5, *x.shape[1:])
    passes = [members(draws, "per_example", generator).softmax(-1) for _ in range(N_DRAWS // 5)]
    return torch.stack(passes).mean((0, 2))


def _accuracy(probs: Tensor, labels: Tensor) -> Tensor:
    return (probs.argmax(-1) == labels).double().mean(1)


def _nll(probs: Tensor, labels: Tensor) -> Tensor:
    return -probs.gather(-1, labels[..., None]).log().mean((1, 2))
