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
    training = _Training(config, x, y, held_out, n_classes, generator)
    way = {"SWAG": training.swag, "SLANG": training.slang}.get(config["method"], training.networks)
    return Trained(way(), training.stops)


def make_network(config: Config, n_channels: int, size: int, n_classes: int) -> Network:
    """The architecture of ``config`` with the layers of its method."""
    method = METHODS[config["method"]]
    layers = method.layers(config)
    first = Deterministic() if "unit" in method.tags else layers
    match config["architecture"]:
        case "LeNet5":
            return lenet5_classic([first, *[layers] * 4], n_classes, n_channels, size)
        case "AlexNet":
            return alexnet([first, *[layers] * 5], n_classes, size)
        case "ResNet18":
            return resnet18(layers, n_classes, first)


@dataclass
class _Training:
    """The arguments of :func:`train`, and how the training of each network ended."""

    config: Config
    x: Tensor
    y: Tensor
    held_out: tuple[Tensor, Tensor]
    n_classes: int
    generator: torch.Generator
    stops: list[Stopping] = field(default_factory=list)

    def networks(self) -> Logits:
        config, generator = self.config, self.generator
        networks = [self.fitted(config["kl_weight"]) for _ in range(config.get("n_networks", 1))]
        if self.is_plain:
            return lambda rows, _: torch.stack([mean_weights(net, rows) for net in networks])
        return lambda rows, n: predict(networks[0], rows, n, "shared", generator=generator)

    def swag(self) -> Logits:
        config = self.config
        if "patience" in config:
            network, before = self.fitted(config["kl_weight"]), 0
            rate, final_factor = config["swag_lr"], 1.0
        else:
            network, before = self.started(), config["epochs"]
            rate, final_factor = config["learning_rate"], 0.2
        swag = fit_swag(
            network.train(),
            *(self.x, self.y, cross_entropy),
            n_epochs=before + config["swag_epochs"],
            collect_from=before,
            batch_size=config["batch_size"],
            generator=self.generator,
            optimizer=sgd(rate),
            final_factor=final_factor,
            kl_weight=config["kl_weight"],
        )
        how = {"generator": self.generator, "train_x": self.x}
        return lambda rows, n_samples: predict_swag(swag, network.eval(), rows, n_samples, **how)

    def slang(self) -> Logits:
        """One draw of the weights in a step. The KL weight of the configuration is SLANG's own.

        The noise of minibatches moves the mean by about ``sqrt(slang_lr N / (2 B kl_weight))``
        standard deviations of the posterior, so the rate has to be near ``kl_weight B / N``.
        """
        config, how = self.config, {"generator": self.generator}
        network, batch_size = self.fitted(kl_weight=1.0), config["slang_batch_size"]
        q = fit_slang(
            network,
            *(self.x, self.y, cross_entropy),
            n_steps=config["slang_epochs"] * (len(self.x) // batch_size),
            batch_size=batch_size,
            rank=config["rank"],
            n_samples=1,
            lr=config["slang_lr"],
            prior_precision=config["prior_precision"],
            init_precision=1.0 * len(self.x),
            kl_weight=config["kl_weight"],
            **how,
        )
        return lambda rows, n_samples: predict_slang(q, network, rows, n_samples, **how)

    def fitted(self, kl_weight: float) -> Network:
        """A network after all its epochs."""
        config, network = self.config, self.started()
        per_epoch = len(self.x) // config["batch_size"]
        growing = kl_warmup(config["warm_up_epochs"], final=kl_weight)
        optimizer = adam(config["learning_rate"])

        def train_epochs(first: int, n_epochs: int, **how: Any) -> None:
            fit(
                network.train(),
                *(self.x, self.y, cross_entropy),
                n_steps=n_epochs * per_epoch,
                generator=self.generator,
                batch_size=config["batch_size"],
                kl_weight=lambda step: growing(first + step / per_epoch),
                sampling="shared" if "shared" in METHODS[config["method"]].tags else "per_example",
                **how,
            )
            network.eval()

        def validation_nll() -> float:
            images, labels = self.held_out
            noise = torch.Generator(images.device).manual_seed(0)  # the same in all epochs
            n_draws = 1 if self.is_plain else config["n_draws_per_epoch"]
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
            self.stops.append(stop)
        else:
            n_steps = config["epochs"] * per_epoch
            falling = {"optimizer": optimizer, "schedule": lambda step: 1 - step / n_steps}
            train_epochs(0, config["epochs"], **falling)
        return network

    def started(self) -> Network:
        network = make_network(self.config, self.x.shape[1], self.x.shape[-1], self.n_classes).to(
            self.x.device, memory_format=torch.channels_last
        )  # faster
        return initialise(network, self.generator).train()

    @property
    def is_plain(self) -> bool:
        """Whether the networks have no noise."""
        return "plain" in METHODS[self.config["method"]].tags
