"""Molchanov, Ashukha and Vetrov (2017), LeNets on MNIST: how many weights can go.

LeNet-300-100 and LeNet-5 are trained by sparse variational dropout, and by ARD in its place, with
the schedule of the authors' code: Adam, 200 epochs, the KL off for 5 of them and at full weight
from the 20th. Then every weight with ``log_alpha > 3`` is removed. In half of the trials such a
weight trains with a mean of 0 already, as it does in that code (``threshold``, which the records
call ``cut_at``). Published for sparse VD: 68 and 280 times fewer weights at 1.92 and 0.75 % test
error. Lesson 08.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from statistics import median

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from bdl_lessons.core import device
from bdl_lessons.datasets import CAFFE_SCALE, mnist
from bdl_lessons.evaluation import error_percent
from bdl_lessons.inference import (
    adam,
    compression,
    fit,
    layer_log_alpha,
    sparsity,
    to_sparse,
    zero_pruned,
)
from bdl_lessons.inference.prune import THRESHOLD
from bdl_lessons.models import ARD, LayerFactory, Network, SparseVD, mlp
from bdl_lessons.probability import kl_warmup
from reproductions.checkpoint import Checkpoint, seconds_before
from reproductions.experiment import Experiment, Trial, TrialResult
from reproductions.measure import interleaved_times, mean_weights
from reproductions.remove_dead_units import n_hidden, remove_dead_units
from reproductions.sparse_file import sparse_bytes
from reproductions.sparse_lenet_report import BINS, figure, table

METHODS: dict[str, Callable[..., LayerFactory]] = {"sparse VD": SparseVD, "ARD": ARD}
PUBLISHED_EPOCHS = 200

_PAPER = {
    "n_train": 60_000,
    "n_test": 10_000,
    "batch_size": 100,
    "learning_rate": 1e-3,
    "init_std": 0.01,
    "init_log_sigma2": -10.0,
}
_QUICK = {**_PAPER, "n_train": 200, "n_test": 50, "n_epochs": 2}


def trials(scale: str) -> list[Trial]:
    """Both networks, methods and ways to train; three seeds of the smaller network.

    LeNet-5, of which a run takes hours without a GPU, has ARD only with the cut.
    """
    if scale == "quick":
        return [
            Trial({**_QUICK, "network": "LeNet-300-100", "method": "sparse VD"}, seed=0),
            Trial({**_QUICK, "network": "LeNet-5", "method": "ARD", "n_epochs": 1}, seed=0),
        ]
    paper = {**_PAPER, "n_epochs": PUBLISHED_EPOCHS}
    runs = [("LeNet-300-100", 0), ("LeNet-300-100", 1), ("LeNet-300-100", 2), ("LeNet-5", 0)]
    return [
        Trial({**paper, "network": network, "method": method, **cut}, seed)
        for network, seed in runs
        for cut in ({}, {"cut_at": THRESHOLD})
        for method in METHODS
        if (network, method, cut) != ("LeNet-5", "ARD", {})
    ]


def run(trial: Trial) -> TrialResult:
    """Train, prune, store and time one network.

    Metrics: ``error`` after pruning and ``error_unpruned``, with the mean weights, in percent (the
    same where training cuts: its report leaves it out);
    ``compression``; ``bytes_pruned`` and ``bytes_dense``: the files of the pruned network and of
    the same network with nothing pruned; ``ms_dense``, ``ms_stored`` and ``ms_shrunk``: median time
    for the first 1000 test images by dense products with all zeros in them, by the stored form
    (which puts the zeros back at every call), and by the smaller network of
    :func:`remove_dead_units`; ``train_seconds_per_epoch``.
    Arrays: ``n_weights`` and ``n_kept`` of each layer; ``n_hidden``, what is left of the hidden
    units; ``log_alpha``: how many weights fall into each bin of the
    report; for LeNet-300-100
    ``pixels``: kept weights of each of the 784 pixels.
    """
    config, on = trial.config, device()
    data = mnist(config["n_train"], config["n_test"])
    x_train, x_test = (_inputs(x, config["network"]).to(on) for x in (data.x_train, data.x_test))
    y_train, y_test = data.y_train.to(on), data.y_test.to(on)
    generator = torch.Generator(on).manual_seed(trial.seed)
    net = make_network(config, generator)
    seconds = train(net, x_train, y_train, trial, generator)

    rows, small = sparsity(net), zero_pruned(net)
    unpruned, less, stored = (
        zero_pruned(net, float("inf")),
        remove_dead_units(small),
        to_sparse(net),
    )
    ms = _milliseconds({"dense": small, "stored": stored, "shrunk": less}, x_test[:1000])
    values = torch.cat([layer_log_alpha(net[int(row.name)]).flatten() for row in rows])
    first, last, n_bins = BINS
    arrays = {
        "n_weights": [row.n_weights for row in rows],
        "n_kept": [row.n_kept for row in rows],
        "n_hidden": n_hidden(less),
        "log_alpha": torch.histc(values.clamp(first, last), n_bins, first, last).int().tolist(),
    }
    if config["network"] == "LeNet-300-100":
        arrays["pixels"] = (small[0].weight != 0).sum(0).tolist()
    return TrialResult(
        {
            "error": error_percent(mean_weights(small, x_test), y_test),
            "error_unpruned": error_percent(mean_weights(unpruned, x_test), y_test),
            "compression": compression(rows),
            "bytes_pruned": len(sparse_bytes(stored)),
            "bytes_dense": len(sparse_bytes(to_sparse(net, float("inf")))),
            **{f"ms_{form}": value for form, value in ms.items()},
            "train_seconds_per_epoch": seconds / config["n_epochs"],
        },
        arrays,
    )


def make_network(config: dict, generator: torch.Generator) -> Network:
    """One of the two networks, weights drawn from ``N(0, init_std**2)``, biases 0.

    LeNet-5 has ReLU after its convolutions, as in the authors' code; Caffe's has none.
    """
    layers = METHODS[config["method"]](config["init_log_sigma2"], threshold=config.get("cut_at"))
    if config["network"] == "LeNet-300-100":
        net = mlp((784, 300, 100, 10), layers)
    else:
        net = Network(
            layers.conv2d(1, 20, 5),
            nn.MaxPool2d(2),
            nn.ReLU(),
            layers.conv2d(20, 50, 5),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Flatten(),
            layers.linear(50 * 4 * 4, 500),
            nn.ReLU(),
            layers.linear(500, 10),
        )
    net.to(generator.device, memory_format=torch.channels_last)  # faster convolutions on a CPU
    with torch.no_grad():
        for module in net:
            if hasattr(module, "weight"):
                module.weight.normal_(0.0, config["init_std"], generator=generator)
                module.bias.zero_()
    return net


def train(net: Network, x: Tensor, y: Tensor, trial: Trial, generator: torch.Generator) -> float:
    """Fit ``net`` by the trial's schedule; returns the seconds it took, stops left out."""
    config = trial.config
    n_steps = config["n_epochs"] * (config["n_train"] // config["batch_size"])
    began = time.perf_counter() - seconds_before(trial.checkpoint)
    fit(
        net,
        x,
        y,
        cross_entropy,
        n_steps=n_steps,
        generator=generator,
        optimizer=adam(config["learning_rate"]),
        batch_size=config["batch_size"],
        kl_weight=lambda step: kl_weight(step / n_steps),
        schedule=lambda step: learning_rate_factor(step / n_steps, config["network"]),
        callback=Checkpoint(trial, net, generator, x, y),
    )
    return time.perf_counter() - began


def kl_weight(progress: float) -> float:
    """Published: 0 for 5 of 200 epochs, 1 from epoch 20, a line between. ``progress`` in [0, 1]."""
    return kl_warmup(progress * PUBLISHED_EPOCHS, begin=5, end=20)


def learning_rate_factor(progress: float, network: str) -> float:
    """Published: to 0 in a line, over the second half for LeNet-300-100, over all for LeNet-5."""
    return min(1.0, 2 - 2 * progress) if network == "LeNet-300-100" else 1 - progress


TITLE = "Sparse LeNets (Molchanov, Ashukha and Vetrov 2017)"
EXPERIMENT = Experiment("sparse_lenet", TITLE, trials, run, table, figure)


def _inputs(x: Tensor, network: str) -> Tensor:
    x = x * CAFFE_SCALE
    return x.flatten(1) if network == "LeNet-300-100" else x


@torch.no_grad()
def _milliseconds(networks: dict[str, Network], x: Tensor) -> dict[str, float]:
    """Median time of each network."""

    def run(network: Network) -> None:
        network(x, "mean").sum().item()  # .item() waits for a GPU

    seconds = interleaved_times(
        {name: partial(run, net) for name, net in networks.items()}, 31, warm_up=2
    )
    return {name: 1000 * median(own) for name, own in seconds.items()}
