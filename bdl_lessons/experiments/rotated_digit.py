"""Gal and Ghahramani (2016), figure 4: a handwritten 1 is turned, and LeNet classifies it.

Dropout 0.5 stands before the last layer only; 100 stochastic passes. Published: the predicted
classes of one 1 in 12 positions, ``1 1 1 1 1 5 5 7 7 7 7 7``, beside scatter plots of the softmax
inputs and outputs. Which 1 it was and by what angles it was turned is not said. Lesson 05.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from bdl_lessons.core import device
from bdl_lessons.datasets import CAFFE_SCALE, mnist
from bdl_lessons.datasets.rotation import rotated
from bdl_lessons.evaluation import error_rate, mutual_information, predictive_entropy
from bdl_lessons.experiments.experiment import Experiment, Trial, TrialResult
from bdl_lessons.experiments.records import rounded
from bdl_lessons.experiments.rotated_digit_report import PUBLISHED, SHOWN, figure, table
from bdl_lessons.inference import fit, inverse_decay, predict, predict_mean, sgd
from bdl_lessons.models import BinaryDropout, Network, initialise, lenet5

_PAPER = {
    "n_train": 60_000,
    "n_test": 10_000,
    "batch_size": 64,
    "learning_rate": 0.01,
    "momentum": 0.9,
    "weight_decay": 5e-4,
    "p_drop": 0.5,
    "n_samples": 100,
    "n_ones": 10,
    "step_degrees": 10,
}
_QUICK = {**_PAPER, "n_train": 256, "n_test": 50, "n_samples": 5, "n_ones": 2}


def trials(scale: str) -> list[Trial]:
    """Networks that differ in the seed, trained briefly and then longer."""
    if scale == "quick":
        return [Trial({**_QUICK, "n_steps": 8}, seed=0)]
    return [Trial({**_PAPER, "n_steps": n}, seed) for n in (2000, 10_000) for seed in range(3)]


def run(trial: Trial) -> TrialResult:
    """Train LeNet, then classify the first 1s of the test set at every angle.

    Metrics: ``test_error`` of 100 averaged passes and ``test_error_mean_weights`` of weight
    scaling, in percent; ``starts_with_1``: the fraction of the 1s that are recognised upright.
    Arrays, ``(angles, ones)`` each: predicted ``classes``, ``entropy`` and ``information`` in nats,
    ``std`` of the predicted class's probability over the passes; ``probs``: the passes' outputs for
    the first 1, ``(angles, passes, len(SHOWN))``.
    """
    config, on = trial.config, device()
    data = mnist(config["n_train"], config["n_test"])
    generator = torch.Generator(on).manual_seed(trial.seed)
    net = make_network(config, generator)
    fit(
        net,
        (data.x_train * CAFFE_SCALE).to(on),
        data.y_train.to(on),
        cross_entropy,
        n_steps=config["n_steps"],
        generator=generator,
        optimizer=sgd(config["learning_rate"], config["momentum"]),
        batch_size=config["batch_size"],
        schedule=inverse_decay(1e-4, 0.75),
        checkpoint=trial.checkpoint,
    )
    x_test, y_test = (data.x_test * CAFFE_SCALE).to(on), data.y_test.to(on)
    n_samples = config["n_samples"]
    probs = predict_mean(net, x_test, n_samples, lambda f: f.softmax(-1), generator=generator)
    with torch.no_grad():
        scaled = torch.cat([net(rows, "mean") for rows in x_test.split(1000)])

    indices = (y_test == 1).nonzero()[: config["n_ones"], 0]
    ones = x_test[indices]
    turned = _turned(ones, config)
    logits = predict(net, turned.flatten(0, 1), n_samples, generator=generator)
    outputs = logits.softmax(-1).unflatten(1, turned.shape[:2])  # (S, A, ones, 10)
    classes = outputs.mean(0).argmax(-1)
    chosen = outputs.gather(-1, classes.expand(n_samples, -1, -1)[..., None])[..., 0]
    upright = angles(config).index(0)
    first_one = outputs[:, :, 0, SHOWN].transpose(0, 1)
    return TrialResult(
        {
            "test_error": error_rate(probs, y_test),
            "test_error_mean_weights": error_rate(scaled, y_test),
            "starts_with_1": (classes[upright] == 1).double().mean().item(),
        },
        {
            "test_index": indices.tolist(),
            "angles": angles(config),
            "classes": classes.tolist(),
            "entropy": rounded(predictive_entropy(logits).unflatten(0, turned.shape[:2]), 4),
            "information": rounded(mutual_information(logits).unflatten(0, turned.shape[:2]), 4),
            "std": rounded(chosen.std(0, correction=0), 4),
            "probs": rounded(first_one, 3),
        },
    )


def angles(config: dict) -> list[int]:
    """Degrees, clockwise positive: as many steps either way as the published picture has."""
    last = (len(PUBLISHED) - 1) * config["step_degrees"]
    return list(range(-last, last + 1, config["step_degrees"]))


def make_network(config: dict, generator: torch.Generator) -> Network:
    """LeNet with dropout before its last layer; weights drawn from ``generator`` (Caffe's Xavier).

    The weight decay becomes the prior of the same strength: ``l**2 = weight_decay * keep * N``.
    """
    keep, strength = 1 - config["p_drop"], config["weight_decay"] * config["n_train"]
    plain = BinaryDropout(0.0, strength**0.5)
    drop = BinaryDropout(config["p_drop"], (keep * strength) ** 0.5)
    net = lenet5([plain, plain, plain, drop]).to(generator.device)
    return initialise(net, generator, weight_var=1.0)


def _turned(ones: Tensor, config: dict) -> Tensor:
    """Images ``(N, 1, 28, 28)`` at each of A angles, clockwise positive: ``(A, N, 1, 28, 28)``."""
    return torch.stack([rotated(ones, -angle) for angle in angles(config)])


TITLE = "A rotated digit (Gal and Ghahramani 2016, figure 4)"
EXPERIMENT = Experiment("rotated_digit", TITLE, trials, run, table, figure)
