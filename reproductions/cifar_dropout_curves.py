"""Kingma, Salimans and Welling (2015), figure 1b: dropout in a convolutional network, CIFAR-10.

Two convolutions of stride 2 with 32 k and 64 k feature maps, two fully connected layers of 128 k
units, softplus; errors over the width factor k. First 4,000 images on a CPU, then all of them,
which needs a GPU in practice: the lossy copy, and the official files. Lesson 07.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from bdl_lessons import datasets
from bdl_lessons.core import device, seeded
from bdl_lessons.evaluation import error_percent
from bdl_lessons.inference import adam, fit
from bdl_lessons.models import Network, initialise
from reproductions.cifar_dropout_curves_report import figure, table
from reproductions.experiment import Experiment, Trial, TrialResult
from reproductions.measure import mean_weights
from reproductions.mnist_dropout_curves import METHODS as LAYERS

RATES = (0.2, 0.5, 0.5, 0.5, 0.5)
SMALL_METHODS = ("none", "Gaussian A", "variational A", "variational A2")
METHODS = (*SMALL_METHODS, "Gaussian B")
SMALL_WIDTHS, WIDTHS = (0.25, 0.5, 1), (0.5, 1, 2)
SEEDS = 3

_SMALL = {
    "data": "cifar10-subset",
    "n_train": 4_000,
    "n_test": 1_000,
    "batch_size": 100,
    "learning_rate": 2e-3,
    "n_epochs": 40,
}
_ALL = {**_SMALL, "n_train": 50_000, "n_test": 10_000, "batch_size": 200, "n_epochs": 30}
_QUICK = {**_SMALL, "n_train": 60, "n_test": 20, "batch_size": 20, "n_epochs": 1}


def trials(scale: str) -> list[Trial]:
    """4,000 images, every method and width with one seed, then the next; then all images."""
    if scale == "quick":
        return [Trial({**_QUICK, "method": method, "width": 0.25}, 0) for method in METHODS]
    grids = [(_SMALL, SMALL_WIDTHS, SMALL_METHODS)]
    grids += [({**_ALL, "data": data}, WIDTHS, METHODS) for data in ("cifar10-jpeg", "cifar10")]
    return [
        Trial({**config, "method": method, "width": width}, seed)
        for config, widths, methods in grids
        for seed in range(SEEDS)
        for width in widths
        for method in methods
    ]


def run(trial: Trial) -> TrialResult:
    """Train one network.

    Metrics: ``error`` on the test set with the mean weights, ``train_error``; in percent. Arrays:
    ``wrong``, the test images it gets wrong, eight a number (``numpy.packbits``), and ``alpha``, of
    each layer, if it is learned.
    """
    config, on, generator = trial.config, device(), seeded(trial.seed)
    data = datasets.load(config["data"], n_train=config["n_train"], n_test=config["n_test"])
    std, mean = torch.std_mean(data.x_train, (0, 2, 3), keepdim=True)
    x, x_test = (((part - mean) / std).to(on) for part in (data.x_train, data.x_test))
    y, y_test = data.y_train.to(on), data.y_test.to(on)
    net = make_network(config["method"], config["width"], generator)
    n_steps = config["n_epochs"] * (len(x) // config["batch_size"])
    learned = config["method"].startswith("variational")
    fit(
        net,
        x,
        y,
        cross_entropy,
        n_steps=n_steps,
        generator=generator,
        optimizer=adam(config["learning_rate"]),
        batch_size=config["batch_size"],
        kl_weight=1.0 if learned else 0.0,
        schedule=lambda step: 1 - step / n_steps,
    )
    logits = mean_weights(net, x_test)
    wrong = (logits.argmax(-1) != y_test).cpu().numpy()
    arrays = {"wrong": np.packbits(wrong).tolist()}
    if learned:
        arrays["alpha"] = [layer.alpha.item() for layer in net if hasattr(layer, "noise")]
    errors = {
        "error": error_percent(logits, y_test),
        "train_error": error_percent(mean_weights(net, x), y),
    }
    return TrialResult(errors, arrays)


def make_network(method: str, width: float, generator: torch.Generator) -> Network:
    """``(B, 3, 32, 32)`` to logits, noise on the inputs of every layer.

    Type A has one factor for each input channel of a convolution, B one for each weight.
    """
    maps1, maps2, units = (round(n * width) for n in (32, 64, 128))
    conv1, conv2, dense1, dense2, dense3 = (LAYERS[method](p_drop) for p_drop in RATES)
    net = Network(
        conv1.conv2d(3, maps1, 5, stride=2, padding=2),
        nn.Softplus(),
        conv2.conv2d(maps1, maps2, 5, stride=2, padding=2),
        nn.Softplus(),
        nn.Flatten(),
        dense1.linear(maps2 * 8 * 8, units),
        nn.Softplus(),
        dense2.linear(units, units),
        nn.Softplus(),
        dense3.linear(units, 10),
    )
    net = net.to(generator.device, memory_format=torch.channels_last)
    return initialise(net, generator, weight_var=1.0)


TITLE = "Kinds of dropout in a convolutional network (Kingma, Salimans and Welling 2015, figure 1b)"
EXPERIMENT = Experiment("cifar_dropout_curves", TITLE, trials, run, table, figure)
