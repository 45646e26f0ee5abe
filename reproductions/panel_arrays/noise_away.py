"""Lesson 12: its race between noise and a Gaussian prior, on MNIST and Fashion-MNIST.

What the lesson trains on the 8x8 digits, on images of half their size and with correct labels too.
Each split has training, validation and test images of its own, so that the splits are independent.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Generator, Tensor
from torch.nn.functional import avg_pool2d, cross_entropy, pad

from bdl_lessons.datasets import rotated
from bdl_lessons.inference import BatchedNetworks, adam, fit_batched, predict_batched
from bdl_lessons.models import Deterministic, Method, StructuredDropout, initialise, mlp
from bdl_lessons.probability import kl_warmup
from reproductions.datasets import images
from reproductions.panel_arrays.labels import partly_random

DATA_SETS = ("mnist", "fashion-mnist")
LABEL_NOISE = (0.3, 0.0)
"""The share of random labels, of training and validation images and where the NLL is measured."""
CHANGES = (
    "at home",
    "one pixel",
    "turned 20°",
    "permuted",
    "noisy ink",
    "noisy pixels",
    "noisy blanks",
)
PREDICTIONS = ("MAP", "mean weights", "30 draws")
PRECISIONS = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
"""Of the Gaussian prior of MAP."""
KL_WEIGHTS = (0.15, 0.5, 1.5, 4.0, 8.0)
"""Of structured dropout with T = 0: one learned rate for each unit."""
N_SPLITS = 8
N_TRAIN = 800
N_VALIDATION = 200
N_TEST = 360
N_STEPS = 400
N_DRAWS = 30
SIDE = 14

Scores = dict[str, np.ndarray]


@dataclass(frozen=True)
class Splits:
    """S splits: images ``(S, N, 196)`` in [0, 1], labels ``(S, N)``."""

    x_train: Tensor
    y_train: Tensor
    x_validation: Tensor
    y_validation: Tensor
    x_test: Tensor
    y_test: Tensor
    """As noisy as those of the training images; for the NLL."""
    y_true: Tensor
    """The true labels of the test images; for the accuracy."""


def make_arrays(n_splits: int = N_SPLITS, n_steps: int = N_STEPS) -> Scores:
    """Percent of the test images that are right, and NLL in nats.

    ``accuracy`` and ``nll`` are ``(label noise, data set, prediction, change, S)``, in the order
    of the constants of this module, of which ``predictions`` and ``changes`` are names;
    ``precision`` and ``kl_weight``, ``(label noise, data set, S)``, were chosen for each split by
    the NLL of its validation images.
    """
    arrays: Scores = {"predictions": np.array(PREDICTIONS), "changes": np.array(CHANGES)}
    runs = [
        [_race(splits(name, share, n_splits), n_steps) for name in DATA_SETS]
        for share in LABEL_NOISE
    ]
    for score in runs[0][0]:
        arrays[score] = np.array([[run[score] for run in row] for row in runs], np.float32)
    return arrays


def splits(data_set: str, label_noise: float, n_splits: int = N_SPLITS) -> Splits:
    """Images of half their size; no image is in two splits."""
    n_of_each = N_TRAIN + N_VALIDATION
    data = images.load(data_set, n_train=n_splits * n_of_each, n_test=n_splits * N_TEST)
    x = avg_pool2d(data.x_train, 2).view(n_splits, n_of_each, -1)
    x_test = avg_pool2d(data.x_test, 2).view(n_splits, N_TEST, -1)
    y_true = data.y_test.view(n_splits, N_TEST)
    generator = Generator().manual_seed(0)
    y = partly_random(data.y_train.view(n_splits, n_of_each), label_noise, generator)
    return Splits(
        x_train=x[:, :N_TRAIN],
        y_train=y[:, :N_TRAIN],
        x_validation=x[:, N_TRAIN:],
        y_validation=y[:, N_TRAIN:],
        x_test=x_test,
        y_test=partly_random(y_true, label_noise, generator),
        y_true=y_true,
    )


def changed(x: Tensor, generator: Generator) -> dict[str, Tensor]:
    """Images ``(S, N, 196)`` as they are and changed, by the names in ``CHANGES``."""
    pictures = x.unflatten(-1, (SIDE, SIDE))
    noise = torch.randn(x.shape, generator=generator)
    order = torch.rand(x.shape, generator=generator).argsort(1)
    return {
        "at home": x,
        "one pixel": pad(pictures, (1, -1)).flatten(-2),
        "turned 20°": rotated(pictures, 20.0).flatten(-2),
        "permuted": x.gather(1, order),  # each pixel is that of another image
        "noisy ink": x * (1 + 0.6 * noise),
        "noisy pixels": x + 0.3 * noise,
        "noisy blanks": x + 0.3 * noise * (x == 0),
    }


def _race(data: Splits, n_steps: int) -> Scores:
    """Both methods, each with the number that the validation images chose."""
    generator = Generator().manual_seed(1)
    vsd = partial(StructuredDropout, n_reflections=0, alpha_spread=0.5)
    prior, precision = _tuned(Deterministic, PRECISIONS, data, n_steps, 0, generator)
    noise, kl_weight = _tuned(vsd, KL_WEIGHTS, data, n_steps, N_DRAWS, generator)
    predictions = ((prior, 0), (noise, 0), (noise, N_DRAWS))
    of_changes = changed(data.x_test, Generator().manual_seed(2)).values()
    accuracy = []
    nll = []
    for networks, n_draws in predictions:
        probs = [_probabilities(networks, x, n_draws, generator) for x in of_changes]
        right = [(each.argmax(-1) == data.y_true).double().mean(1) for each in probs]
        accuracy.append(100 * torch.stack(right).numpy())
        nll.append(torch.stack([_nll(each, data.y_test) for each in probs]).numpy())
    return {
        "accuracy": np.stack(accuracy),
        "nll": np.stack(nll),
        "precision": precision.numpy(),
        "kl_weight": kl_weight.numpy(),
    }


def _tuned(
    method: Method,
    strengths: Sequence[float],
    data: Splits,
    n_steps: int,
    n_draws: int,
    generator: Generator,
) -> tuple[BatchedNetworks, Tensor]:
    """For each split the network with the smallest NLL on its validation images, its strength."""
    n_splits = len(data.x_train)
    strength = torch.tensor(strengths).repeat_interleave(n_splits)
    starts = [Generator().manual_seed(number % n_splits) for number in range(len(strength))]
    sizes = (data.x_train.shape[-1], 50, 10)
    networks = BatchedNetworks([initialise(mlp(sizes, method), start) for start in starts])
    warm_up = kl_warmup(n_steps / 4)
    fit_batched(
        networks,
        data.x_train.repeat(len(strengths), 1, 1),
        data.y_train.repeat(len(strengths), 1),
        cross_entropy,
        n_steps=n_steps,
        batch_size=100,
        optimizer=adam(5e-3),
        kl_weight=lambda step: strength * warm_up(step),
        generator=Generator().manual_seed(0),
    )
    x = data.x_validation.repeat(len(strengths), 1, 1)
    probs = _probabilities(networks, x, n_draws, generator)
    nll = _nll(probs, data.y_validation.repeat(len(strengths), 1))
    best = nll.view(-1, n_splits).argmin(0)
    chosen = best * n_splits + torch.arange(n_splits)
    return BatchedNetworks([networks.network(i) for i in chosen.tolist()]), strength[chosen]


@torch.no_grad()
def _probabilities(
    networks: BatchedNetworks, x: Tensor, n_draws: int, generator: Generator
) -> Tensor:
    """``(M, N, 10)``: the mean of ``n_draws`` draws, or of the mean weights if that is 0."""
    if n_draws == 0:
        return networks(x, "mean").softmax(-1)
    return predict_batched(networks, x, n_draws, generator=generator).softmax(-1).mean(0)


def _nll(probs: Tensor, y: Tensor) -> Tensor:
    """``(M,)``, in nats."""
    at_label = probs.gather(-1, y[..., None]).clamp_min(1e-30)
    return -at_label.log().mean((1, 2))
