"""One network for images under one posterior: training, and draws of its outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from bdl_lessons.core.devices import float64
from bdl_lessons.evaluation import log_mean_probs, nll
from bdl_lessons.inference import adam, fit, predict, sgd
from bdl_lessons.models import Deterministic, Network, initialise
from bdl_lessons.probability import kl_warmup
from reproductions import methods
from reproductions.images.architectures import alexnet, lenet5_classic
from reproductions.images.resnet import resnet18
from reproductions.images.stopping import Stopping, fit_until_no_better
from reproductions.measure import mean_weights
from reproductions.posteriors.slang import fit_slang, predict_slang
from reproductions.posteriors.swag import fit_swag, predict_swag

Config = Mapping[str, Any]
Logits = Callable[[Tensor, int], Tensor]
"""``logits(x, n_samples)``: ``(S, B, n_classes)`` draws of the network at the examples x."""

METHODS = methods.tagged("images")
WITHOUT_NOISE = tuple(name for name, method in METHODS.items() if "plain" in method.tags)
"""Methods that train networks without noise."""


class Trained(NamedTuple):
    """What :func:`train` returns.

    Attributes:
        logits: draws outputs. Each of its samples is one function at all examples.
        stops: how the training of each network ended; empty where the number of epochs was given.
    """

    logits: Logits
    stops: list[Stopping]


def train(
    config: Config,
    x: Tensor,
    y: Tensor,
    held_out: tuple[Tensor, Tensor],
    n_classes: int,
    generator: torch.Generator,
) -> Trained:
    """Fit what ``config`` describes to ``x``, ``(N, C, H, W)``, on the device of ``x``.

    Adam. With ``patience`` in ``config`` training follows the NLL of ``held_out``, images
    and labels, by :func:`~reproductions.images.stopping.fit_until_no_better`; without it
    the learning rate falls to 0 in a straight line over ``epochs``. The weight of the KL grows from
    0 to ``kl_weight`` over ``warm_up_epochs``. A random network draws its noise for each image; BBB
    and SLANG draw the weights once a minibatch.

    SWAG goes on from such a network for ``swag_epochs`` of descent with momentum and collects its
    weights after each of these. (With a given number of epochs it descends with momentum from the
    start, and collects at a fifth of the rate.) SLANG goes on from it for ``slang_epochs``. A deep
    ensemble consists of such networks.
    """
    data = _Data(x, y, held_out, n_classes, generator)
    if config["method"] in ("SWAG", "SLANG"):
        logits = (_swag if config["method"] == "SWAG" else _slang)(config, data)
        return Trained(logits, data.stops)
    networks = [_fitted(config, data) for _ in range(config.get("n_networks", 1))]

    def logits(rows: Tensor, n_samples: int) -> Tensor:
        if config["method"] in ("MAP", "D.E"):
            return torch.stack([mean_weights(network, rows) for network in networks])
        return predict(networks[0], rows, n_samples, "shared", generator=generator)

    return Trained(logits, data.stops)


def make_network(config: Config, n_channels: int, size: int, n_classes: int) -> Network:
    """The architecture of ``config`` with the layers of its method.

    Raises:
        ValueError: if there is no such method or architecture.
    """
    name = config["method"]
    if name not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, got {name!r}")
    layers = METHODS[name].layers(config)
    first = Deterministic() if "unit" in METHODS[name].tags else layers
    if config["architecture"] == "LeNet5":
        return lenet5_classic([first, *[layers] * 4], n_classes, n_channels, size)
    if config["architecture"] == "AlexNet":
        return alexnet([first, *[layers] * 5], n_classes, size)
    if config["architecture"] == "ResNet18":
        return resnet18(layers, n_classes, first)
    raise ValueError(
        f"architecture must be LeNet5, AlexNet or ResNet18, got {config['architecture']!r}"
    )


@dataclass
class _Data:
    x: Tensor
    y: Tensor
    held_out: tuple[Tensor, Tensor]
    n_classes: int
    generator: torch.Generator
    stops: list[Stopping] = field(default_factory=list)


def _fitted(config: Config, data: _Data) -> Network:
    network = _start(config, data)
    per_epoch, warm_up = len(data.x) // config["batch_size"], config["warm_up_epochs"]
    growing = kl_warmup(warm_up, final=config["kl_weight"])
    optimizer = adam(config["learning_rate"])

    def train_epochs(first: int, n_epochs: int, **how: Any) -> None:
        fit(
            network.train(),
            *(data.x, data.y, cross_entropy),
            n_steps=n_epochs * per_epoch,
            generator=data.generator,
            batch_size=config["batch_size"],
            kl_weight=lambda step: growing(first + step / per_epoch),
            sampling="shared" if "shared" in METHODS[config["method"]].tags else "per_example",
            **how,
        )
        network.eval()

    def validation_nll() -> float:
        images, labels = data.held_out
        noise = torch.Generator(images.device).manual_seed(0)  # the same in all epochs
        n_draws = config["n_draws_per_epoch"] if config["method"] not in WITHOUT_NOISE else 1
        draws = predict(network, images, n_draws, "shared", generator=noise)
        log_probs = log_mean_probs(float64(draws))
        return nll(log_probs, labels.to(log_probs.device))

    if "patience" in config:
        stepper = optimizer(network.parameters())  # one for all epochs: it holds the moments
        stop = fit_until_no_better(
            network,
            lambda epoch: train_epochs(epoch, 1, optimizer=lambda _: stepper),
            validation_nll,
            stepper,
            patience=config["patience"],
            max_epochs=config["epochs"],
        )
        data.stops.append(stop)
    else:
        n_steps = config["epochs"] * per_epoch
        falling = {"optimizer": optimizer, "schedule": lambda step: 1 - step / n_steps}
        train_epochs(0, config["epochs"], **falling)
    return network


def _swag(config: Config, data: _Data) -> Logits:
    if "patience" in config:
        network, before = _fitted(config, data), 0
        rate, final_factor = config["swag_lr"], 1.0
    else:
        network, before = _start(config, data), config["epochs"]
        rate, final_factor = config["learning_rate"], 0.2
    swag = fit_swag(
        network.train(),
        *(data.x, data.y, cross_entropy),
        n_epochs=before + config["swag_epochs"],
        collect_from=before,
        batch_size=config["batch_size"],
        generator=data.generator,
        optimizer=sgd(rate),
        final_factor=final_factor,
        kl_weight=config["kl_weight"],
    )
    how = {"generator": data.generator, "train_x": data.x}
    return lambda rows, n_samples: predict_swag(swag, network.eval(), rows, n_samples, **how)


def _slang(config: Config, data: _Data) -> Logits:
    """One draw of the weights in a step.

    The noise of minibatches moves the mean by about ``sqrt(slang_lr N / (2 B kl_weight))`` standard
    deviations of the posterior, so the rate has to be near ``kl_weight B / N``.
    """
    network = _fitted({**config, "kl_weight": 1.0}, data)  # the weight in config is SLANG's own
    batch_size = config["slang_batch_size"]
    q = fit_slang(
        network,
        *(data.x, data.y, cross_entropy),
        n_steps=config["slang_epochs"] * (len(data.x) // batch_size),
        generator=data.generator,
        batch_size=batch_size,
        rank=config["rank"],
        n_samples=1,
        lr=config["slang_lr"],
        prior_precision=config["prior_precision"],
        init_precision=1.0 * len(data.x),
        kl_weight=config["kl_weight"],
    )
    how = {"generator": data.generator}
    return lambda rows, n_samples: predict_slang(q, network, rows, n_samples, **how)


def _start(config: Config, data: _Data) -> Network:
    network = make_network(config, data.x.shape[1], data.x.shape[-1], data.n_classes)
    network = network.to(data.x.device, memory_format=torch.channels_last)  # faster
    return initialise(network, data.generator).train()
