"""Lesson 01: its experiment with wrong labels on MNIST, the second row of its table.

What the lesson trains on the 8x8 digits, with nothing changed but the images: networks with two
hidden ReLU layers of 128 units, 500 training examples of which 30 % have random labels, 800 steps
of Adam. Each network has training and validation images of its own, so that the eight are
independent; all are scored on the first 1000 test images.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import cross_entropy, nll_loss

from reproductions.datasets import images
from reproductions.panel_arrays.labels import partly_random

N_NETWORKS = 8
N_TRAIN = 500
N_VALIDATION = 297
N_TEST = 1000
LABEL_NOISE = 0.3
WIDTH = 128
BATCH = 50
STEPS = (25, 50, 100, 200, 400, 800)
P_DROP = 0.5
WEIGHT_DECAYS = (0.0, 0.001, 0.003, 0.01, 0.03)
N_MASKS = 100


class Split(NamedTuple):
    """The images of one network, ``(N, 784)``, and their labels, ``(N,)``; its number is a seed."""

    number: int
    x: Tensor
    y: Tensor
    is_wrong: Tensor
    x_validation: Tensor
    y_validation: Tensor
    x_test: Tensor
    y_test: Tensor


def make_arrays(
    n_networks: int = N_NETWORKS, steps: tuple[int, ...] = STEPS
) -> dict[str, np.ndarray]:
    """Errors in per cent and NLLs in nats of every network.

    - ``decay_error``, ``(weight decay, network, step, 2)``: without dropout, on the validation and
      on the test images; ``dropout_error``, ``(network, step, 2)``;
    - after the last step, in one row trained without dropout and in one with it: ``wrong_labels``,
      how many wrong labels are reproduced in per cent, ``(2, network)``; and error and NLL of
      ``one_mask``, of ``many_masks``, of weights that are ``scaled``, and of weights that are
      scaled ``twice``, each ``(2, network, 2)``.
    """
    splits = [split(number) for number in range(n_networks)]
    decay_errors = []
    rows: dict[str, list] = {}
    for weight_decay in WEIGHT_DECAYS:
        runs = [train(data, steps, weight_decay=weight_decay) for data in splits]
        decay_errors.append([errors for _, errors in runs])
        if weight_decay == 0:
            _append(rows, runs, splits)
    runs = [train(data, steps, p_drop=P_DROP) for data in splits]
    _append(rows, runs, splits)
    arrays = {name: np.array(values, np.float32) for name, values in rows.items()}
    arrays["weight_decays"] = np.array(WEIGHT_DECAYS)
    arrays["decay_error"] = np.array(decay_errors, np.float32)
    arrays["dropout_error"] = np.array([errors for _, errors in runs], np.float32)
    return arrays


def split(number: int) -> Split:
    """The images of one network; in training and validation alike some labels are random."""
    n_images = N_TRAIN + N_VALIDATION
    data = images.load("mnist", n_train=N_NETWORKS * n_images, n_test=N_TEST)
    part = slice(number * n_images, (number + 1) * n_images)
    x = data.x_train[part].flatten(1)
    y_true = data.y_train[part]
    generator = Generator().manual_seed(number)
    y = partly_random(y_true, LABEL_NOISE, generator)
    return Split(
        number=number,
        x=x[:N_TRAIN],
        y=y[:N_TRAIN],
        is_wrong=(y != y_true)[:N_TRAIN],
        x_validation=x[N_TRAIN:],
        y_validation=y[N_TRAIN:],
        x_test=data.x_test[:N_TEST].flatten(1),
        y_test=data.y_test[:N_TEST],
    )


def train(
    data: Split, steps: tuple[int, ...], p_drop: float = 0.0, weight_decay: float = 0.0
) -> tuple[nn.ModuleList, list[list[float]]]:
    """One network; with its errors on validation and test images after each of ``steps``."""
    torch.manual_seed(data.number)  # the initial weights
    generator = Generator().manual_seed(data.number)
    widths = [(data.x.shape[1], WIDTH), (WIDTH, WIDTH), (WIDTH, 10)]
    layers = nn.ModuleList(nn.Linear(*sizes) for sizes in widths)
    optimizer = torch.optim.Adam(layers.parameters(), lr=2e-3, weight_decay=weight_decay)
    errors = []
    for step in range(1, max(steps) + 1):
        batch = torch.randint(N_TRAIN, (BATCH,), generator=generator)
        loss = cross_entropy(logits(layers, data.x[batch], p_drop, generator), data.y[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step in steps:
            validation_error, _ = scores(logits(layers, data.x_validation), data.y_validation)
            test_error, _ = scores(logits(layers, data.x_test), data.y_test)
            errors.append([validation_error, test_error])
    return layers, errors


def logits(
    layers: nn.ModuleList,
    x: Tensor,
    p_drop: float = 0.0,
    generator: Generator | None = None,
    scale: float = 1.0,
) -> Tensor:
    """With inverted dropout of both hidden layers; ``scale`` multiplies each of them again."""
    h = x
    for layer in layers[:-1]:
        h = scale * torch.relu(layer(h))
        if p_drop:
            mask = torch.rand(h.shape, generator=generator) < 1 - p_drop
            h = h * mask / (1 - p_drop)
    return layers[-1](h)


@torch.no_grad()
def _append(rows: dict[str, list], runs: list, splits: list[Split]) -> None:
    """What is measured after the last step of each network."""
    measured: dict[str, list] = {
        name: [] for name in ("wrong_labels", "one_mask", "many_masks", "scaled", "twice")
    }
    for (layers, _), data in zip(runs, splits, strict=True):
        generator = Generator().manual_seed(10)
        passes = [logits(layers, data.x_test, P_DROP, generator) for _ in range(N_MASKS)]
        log_probs = torch.stack(passes).log_softmax(-1)
        singles = [scores(one_mask, data.y_test) for one_mask in log_probs]
        measured["one_mask"].append(np.mean(singles, axis=0))
        measured["many_masks"].append(scores(log_probs.exp().mean(0).log(), data.y_test))
        measured["scaled"].append(scores(logits(layers, data.x_test), data.y_test))
        measured["twice"].append(scores(logits(layers, data.x_test, scale=1 - P_DROP), data.y_test))
        on_wrong, _ = scores(logits(layers, data.x[data.is_wrong]), data.y[data.is_wrong])
        measured["wrong_labels"].append(100 - on_wrong)
    for name, values in measured.items():
        rows.setdefault(name, []).append(values)


@torch.no_grad()
def scores(a: Tensor, y: Tensor) -> tuple[float, float]:
    """Error in per cent and NLL in nats, of logits or log-probabilities ``(N, 10)``."""
    error = 100 * (a.argmax(-1) != y).double().mean()
    nll = nll_loss(a.log_softmax(-1), y)
    return float(error), float(nll)
