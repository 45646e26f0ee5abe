"""One network for images under one posterior: training, and draws of its outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from bdl_lessons.experiments.images.resnet import resnet18
from bdl_lessons.experiments.measure import mean_weights
from bdl_lessons.experiments.posteriors.elrg import ELRG
from bdl_lessons.experiments.posteriors.mnf import MNF
from bdl_lessons.experiments.posteriors.slang import fit_slang, predict_slang
from bdl_lessons.experiments.posteriors.swag import fit_swag, predict_swag
from bdl_lessons.experiments.posteriors.vmg import VMG
from bdl_lessons.inference import adam, fit, predict, sgd
from bdl_lessons.models import (
    BayesByBackprop,
    BinaryDropout,
    Deterministic,
    LayerFactory,
    Network,
    StructuredDropout,
    VariationalDropout,
    alexnet,
    initialise,
    lenet5_classic,
)
from bdl_lessons.probability import kl_warmup

Config = Mapping[str, Any]
Logits = Callable[[Tensor, int], Tensor]
"""``logits(x, n_samples)``: ``(S, B, n_classes)`` draws of the network at the rows of x."""

PLAIN = Deterministic()
UNIT_NOISE: dict[str, Callable[[Config], LayerFactory]] = {
    **dict.fromkeys(("MAP", "D.E", "SWAG", "SLANG"), lambda config: PLAIN),
    "MCD": lambda config: BinaryDropout(config["p_drop"]),
    "VD": lambda config: VariationalDropout(
        "A", "unit", init_p_drop=config["p_drop"], kl_per="weight"
    ),
    "VSD T=1": lambda config: StructuredDropout(1, init_p_drop=config["p_drop"]),
    "VSD T=2": lambda config: StructuredDropout(2, init_p_drop=config["p_drop"]),
}
"""Methods whose noise multiplies units. Their first layer, which sees the pixels, has none."""
WEIGHT_NOISE: dict[str, Callable[[Config], LayerFactory]] = {
    "BBB-LRT": lambda config: BayesByBackprop(config["prior_var"], config["init_log_sigma2"]),
    "BBB": lambda config: BayesByBackprop(config["prior_var"], config["init_log_sigma2"]),
    "ELRG": lambda config: ELRG(config["rank"]),
    "VMG": lambda config: VMG(config["n_pseudo"]),
    "MNF": lambda config: MNF(config["n_flows"], z_mean=config["z_mean"]),
}
"""Methods in which every weight of every layer is random."""


def train(
    config: Config, x: Tensor, y: Tensor, n_classes: int, generator: torch.Generator
) -> Logits:
    """Fit what ``config`` describes to ``x``, ``(N, C, H, W)``, on the device of ``x``.

    Adam with a learning rate that falls to 0 in a straight line. The weight of the KL grows from 0
    to ``kl_weight`` over ``warm_up_epochs``. Every method draws its noise for each image, but for
    BBB, which draws its weights once a minibatch. SWAG descends with momentum instead of Adam, and
    goes on for ``swag_epochs`` at a fifth of the rate; it collects its weights after each of these.
    SLANG goes on from the MAP weights for ``slang_epochs``.

    Returns:
        a function that draws outputs. Each of its samples is one function at all rows.
    """
    if config["method"] == "SWAG":
        return _swag(config, x, y, n_classes, generator)
    if config["method"] == "SLANG":
        return _slang(config, x, y, n_classes, generator)
    networks = [
        _fitted(config, x, y, n_classes, generator) for _ in range(config.get("n_networks", 1))
    ]

    def logits(rows: Tensor, n_samples: int) -> Tensor:
        if config["method"] in ("MAP", "D.E"):
            return torch.stack([mean_weights(network, rows) for network in networks])
        return predict(networks[0], rows, n_samples, "shared", generator=generator)

    return logits


def make_network(config: Config, n_channels: int, size: int, n_classes: int) -> Network:
    """The architecture of ``config`` with the layers of its method.

    Raises:
        ValueError: if there is no such method or architecture.
    """
    method = config["method"]
    if method not in UNIT_NOISE | WEIGHT_NOISE:
        known = ", ".join(UNIT_NOISE | WEIGHT_NOISE)
        raise ValueError(f"method must be one of {known}, got {method!r}")
    layers = (UNIT_NOISE | WEIGHT_NOISE)[method](config)
    first = PLAIN if method in UNIT_NOISE else layers
    if config["architecture"] == "LeNet5":
        return lenet5_classic([first, *[layers] * 4], n_classes, n_channels, size)
    if config["architecture"] == "AlexNet":
        return alexnet([first, *[layers] * 5], n_classes, size)
    if config["architecture"] == "ResNet18":
        return resnet18(layers, n_classes, first)
    raise ValueError(
        f"architecture must be LeNet5, AlexNet or ResNet18, got {config['architecture']!r}"
    )


def _fitted(
    config: Config, x: Tensor, y: Tensor, n_classes: int, generator: torch.Generator
) -> Network:
    network = _start(config, x, n_classes, generator)
    per_epoch = len(x) // config["batch_size"]
    n_steps = config["epochs"] * per_epoch
    fit(
        network,
        x,
        y,
        cross_entropy,
        n_steps=n_steps,
        generator=generator,
        optimizer=adam(config["learning_rate"]),
        batch_size=config["batch_size"],
        kl_weight=lambda step: (
            config["kl_weight"] * kl_warmup(step, 0, config["warm_up_epochs"] * per_epoch)
        ),
        sampling="shared" if config["method"] == "BBB" else "per_example",
        schedule=lambda step: 1 - step / n_steps,
    )
    return network.eval()


def _swag(
    config: Config, x: Tensor, y: Tensor, n_classes: int, generator: torch.Generator
) -> Logits:
    network = _start(config, x, n_classes, generator)
    swag = fit_swag(
        network,
        x,
        y,
        cross_entropy,
        n_epochs=config["epochs"] + config["swag_epochs"],
        collect_from=config["epochs"],
        batch_size=config["batch_size"],
        generator=generator,
        optimizer=sgd(config["learning_rate"]),
        final_factor=0.2,
        kl_weight=config["kl_weight"],
    )
    how = {"generator": generator, "train_x": x}
    return lambda rows, n_samples: predict_swag(swag, network.eval(), rows, n_samples, **how)


def _slang(
    config: Config, x: Tensor, y: Tensor, n_classes: int, generator: torch.Generator
) -> Logits:
    """One draw of the weights in a step.

    The noise of minibatches moves the mean by about ``sqrt(slang_lr N / 2B)`` standard deviations
    of the posterior, so the rate has to be near B / N.
    """
    network = _fitted(config, x, y, n_classes, generator)
    batch_size = config["slang_batch_size"]
    q = fit_slang(
        network,
        x,
        y,
        lambda output, labels: cross_entropy(output, labels) / config["kl_weight"],
        n_steps=config["slang_epochs"] * (len(x) // batch_size),
        generator=generator,
        batch_size=batch_size,
        rank=config["rank"],
        n_samples=1,
        lr=config["slang_lr"],
        prior_precision=config["prior_precision"],
        init_precision=1.0 * len(x),
    )
    return lambda rows, n_samples: predict_slang(q, network, rows, n_samples, generator=generator)


def _start(config: Config, x: Tensor, n_classes: int, generator: torch.Generator) -> Network:
    network = make_network(config, x.shape[1], x.shape[-1], n_classes)
    network = network.to(x.device, memory_format=torch.channels_last)  # convolutions a third faster
    return initialise(network, generator).train()
