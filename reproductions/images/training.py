"""One network for images under one posterior: its training, and all that is measured of it."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import mean
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from bdl_lessons import evaluation
from bdl_lessons.core import device
from bdl_lessons.core.devices import float64
from bdl_lessons.inference import adam, predict, sgd
from bdl_lessons.models import Deterministic, Network, initialise
from bdl_lessons.probability import kl_warmup
from reproductions import datasets, methods
from reproductions.experiment import Trial, TrialResult
from reproductions.images.architectures import alexnet, lenet5_classic, resnet18
from reproductions.images.stopping import EpochCheckpoint, Stopping, fit_until_no_better
from reproductions.measure import mean_weights, train_by
from reproductions.posteriors.slang import fit_slang, predict_slang
from reproductions.posteriors.swag import fit_swag, predict_swag

METHODS = methods.in_table("images")
SCORES = {"max softmax": lambda p: p.amax(-1), "entropy": lambda p: -evaluation.entropy(p)}
"""Of log probabilities ``(B, C)``: high where the network is confident."""
N_BINS = 20

Logits = Callable[[Tensor, int], Tensor]
"""``logits(x, n_samples)``: ``(S, B, n_classes)``, each sample one function at all examples."""


def measure_network(trial: Trial) -> TrialResult:
    """Train on the training set without its last ``n_val`` rows; measure on those and on tests.

    Metrics: ``val_nll``; ``nll`` of the averaged probabilities in nats, ``accuracy_percent`` and
    ``ece`` on the test set; ``<other set>/<score>/<measure>`` for how well a score tells that set
    from the test set; of a training that followed the validation NLL ``epochs``, ``best_epoch`` and
    ``no_better``, 1 if that ended it, means over an ensemble. Arrays: ``entropy/<set>``, counts of
    predictive entropies in ``N_BINS`` equal bins from 0 to log(classes); ``val_nll`` by epochs.
    """
    config = trial.config
    on = device()
    data = datasets.load(config["data"], config.get("n_train"), config.get("n_test"))
    others = [datasets.load(name, n_test=config.get("n_test")) for name in config["ood"]]
    std, centre = torch.std_mean(data.x_train, dim=(0, 2, 3), keepdim=True)

    def standardised(images: Tensor) -> Tensor:
        """By each channel of the training set, on the device."""
        return ((images - centre) / std).to(on)

    x = standardised(data.x_train)
    y = data.y_train.to(on)
    n_val = config["n_val"]
    x_val = x[-n_val:]
    y_val = y[-n_val:]
    generator = torch.Generator(on).manual_seed(trial.seed)
    training = Training(
        config,
        x[:-n_val],
        y[:-n_val],
        held_out=(x_val, y_val),
        n_classes=len(data.classes),
        generator=generator,
        checkpoint=EpochCheckpoint(trial.checkpoint, generator) if trial.checkpoint else None,
    )
    logits = training.train()

    def log_probs_of(images: Tensor, n_samples: int) -> Tensor:
        """Of the averaged probabilities, ``(B, C)`` in float64."""
        return evaluation.log_mean_probs(float64(logits(images, n_samples)))

    n_samples = config["n_samples"]
    val_log_probs = log_probs_of(x_val, config["n_val_samples"])
    log_probs = log_probs_of(standardised(data.x_test), n_samples)
    y_test = data.y_test.to(log_probs.device)
    metrics = {
        "val_nll": evaluation.nll(val_log_probs, y_val.to(val_log_probs.device)),
        "nll": evaluation.nll(log_probs, y_test),
        "accuracy_percent": 100 * evaluation.accuracy(log_probs.exp(), y_test),
        "ece": evaluation.ece(log_probs.exp(), y_test),
    }
    arrays = {f"entropy/{data.name}": _histogram(log_probs)}
    if training.stops:
        curves = [stop.curve for stop in training.stops]
        arrays["val_nll"] = [[round(value, 5) for value in curve] for curve in curves]
        metrics["epochs"] = mean(map(len, curves))
        metrics["best_epoch"] = mean(1 + curve.index(min(curve)) for curve in curves)
        metrics["no_better"] = mean(float(stop.no_better) for stop in training.stops)
    for other in others:
        other_log_probs = log_probs_of(standardised(other.x_test), n_samples)
        arrays[f"entropy/{other.name}"] = _histogram(other_log_probs)
        for name, score in SCORES.items():
            detection = evaluation.ood_metrics(score(log_probs), score(other_log_probs))
            for measure, value in detection._asdict().items():
                metrics[f"{other.name}/{name}/{measure}"] = value
    return TrialResult(metrics, arrays)


def _histogram(log_probs: Tensor) -> list[int]:
    """How many predictive entropies fall into each of ``N_BINS`` from 0 to log(classes)."""
    largest = math.log(log_probs.shape[-1])
    entropies = evaluation.entropy(log_probs).cpu().clamp(0.0, largest)
    counts = torch.histc(entropies, N_BINS, 0.0, largest)
    return counts.int().tolist()


def make_network(config: Mapping[str, Any], n_channels: int, size: int, n_classes: int) -> Network:
    """The architecture of ``config`` under its method."""
    method = METHODS[config["method"]]
    layer = method.configured(config)
    first = Deterministic if method.has_unit_noise else layer
    name = config["architecture"]
    if name == "ResNet18":
        return resnet18(layer, n_classes, first)
    if name == "AlexNet":
        return alexnet([first, layer, layer, layer, layer, layer], n_classes, size)
    return lenet5_classic([first, layer, layer, layer, layer], n_classes, n_channels, size)


@dataclass
class Training:
    """Fits what ``config`` describes to ``x``, ``(N, C, H, W)``, on the device of ``x``.

    Adam. With ``patience`` in ``config`` training follows the NLL of ``held_out`` by
    :func:`fit_until_no_better`, which keeps its state in ``checkpoint``, and ``stops`` tells how
    that ended for each network; without it the
    rate falls to 0 in a straight line over ``epochs``. The weight of the KL grows from 0 over
    ``warm_up_epochs``. Noise is drawn for each image, in BBB and SLANG once a minibatch. A deep
    ensemble consists of such networks, and SWAG and SLANG go on from one.
    """

    config: Mapping[str, Any]
    x: Tensor
    y: Tensor
    held_out: tuple[Tensor, Tensor]
    n_classes: int
    generator: torch.Generator
    stops: list[Stopping] = field(default_factory=list)
    checkpoint: EpochCheckpoint | None = None

    def train(self) -> Logits:
        """By the method of the configuration."""
        config = self.config
        generator = self.generator
        if config["method"] == "SWAG":
            return self._swag()
        if config["method"] == "SLANG":
            return self._slang()
        networks = [self._fitted(config["kl_weight"]) for _ in range(config.get("n_networks", 1))]
        if not self.method.is_random:
            return lambda rows, _: torch.stack([mean_weights(net, rows) for net in networks])
        return lambda rows, n: predict(networks[0], rows, n, "shared", generator=generator)

    def _swag(self) -> Logits:
        """``swag_epochs`` of descent with momentum, after each of which the weights are collected.

        With a given number of epochs it descends with momentum from the start, and collects at a
        fifth of the rate.
        """
        config = self.config
        goes_on = "patience" in config
        if goes_on:
            network = self._fitted(config["kl_weight"])
            n_epochs_before = 0
        else:
            network = self._started()
            n_epochs_before = config["epochs"]
        swag = fit_swag(
            network.train(),
            self.x,
            self.y,
            cross_entropy,
            n_epochs=n_epochs_before + config["swag_epochs"],
            collect_from=n_epochs_before,
            batch_size=config["batch_size"],
            optimizer=sgd(config["swag_lr"] if goes_on else config["learning_rate"]),
            final_factor=1.0 if goes_on else 0.2,
            kl_weight=config["kl_weight"],
            generator=self.generator,
        )

        def logits(x: Tensor, n_samples: int) -> Tensor:
            network.eval()
            return predict_swag(
                swag, network, x, n_samples, generator=self.generator, train_x=self.x
            )

        return logits

    def _slang(self) -> Logits:
        """``slang_epochs``; the KL weight is that of SLANG alone.

        The noise of minibatches moves the mean by about ``sqrt(slang_lr N / (2 B kl_weight))``
        standard deviations of the posterior, so the rate has to be near ``kl_weight B / N``.
        """
        config = self.config
        n_train = len(self.x)
        network = self._fitted(kl_weight=1.0)
        batch_size = config["slang_batch_size"]
        q = fit_slang(
            network,
            self.x,
            self.y,
            cross_entropy,
            n_steps=config["slang_epochs"] * (n_train // batch_size),
            batch_size=batch_size,
            n_samples=1,
            rank=config["rank"],
            lr=config["slang_lr"],
            prior_precision=config["prior_precision"],
            init_precision=1.0 * n_train,
            kl_weight=config["kl_weight"],
            generator=self.generator,
        )

        def logits(x: Tensor, n_samples: int) -> Tensor:
            return predict_slang(q, network, x, n_samples, generator=self.generator)

        return logits

    def _fitted(self, kl_weight: float) -> Network:
        """A network after all its epochs; ``kl_weight`` is that of its KL after the warm-up."""
        config = self.config
        network = self._started()
        per_epoch = len(self.x) // config["batch_size"]
        growing = kl_warmup(config["warm_up_epochs"], final=kl_weight)

        def train_epochs(first: int, n_epochs: int, **options: Any) -> None:
            """From epoch ``first`` on; ``options`` are those of ``fit``."""
            train_by(
                config,
                network.train(),
                self.x,
                self.y,
                generator=self.generator,
                n_steps=n_epochs * per_epoch,
                sampling=self.method.sampling,
                kl_weight=lambda step: growing(first + step / per_epoch),
                **options,
            )
            network.eval()

        def validation_nll() -> float:
            images, labels = self.held_out
            noise = torch.Generator(images.device).manual_seed(0)  # the same in all epochs
            n_draws = config["n_draws_per_epoch"] if self.method.is_random else 1
            draws = predict(network, images, n_draws, "shared", generator=noise)
            log_probs = evaluation.log_mean_probs(float64(draws))
            return evaluation.nll(log_probs, labels.to(log_probs.device))

        if "patience" not in config:
            n_steps = config["epochs"] * per_epoch
            train_epochs(0, config["epochs"], schedule=lambda step: 1 - step / n_steps)
            return network
        optimizer = adam(config["learning_rate"])(network.parameters())  # it holds the moments
        stop = fit_until_no_better(
            network,
            lambda epoch: train_epochs(epoch, 1, optimizer=optimizer),
            validation_nll,
            optimizer,
            patience=config["patience"],
            max_epochs=config["epochs"],
            checkpoint=self.checkpoint,
            number=len(self.stops),
        )
        self.stops.append(stop)
        return network

    def _started(self) -> Network:
        """A new network on the device, its weights drawn from the generator."""
        network = make_network(
            self.config,
            n_channels=self.x.shape[1],
            size=self.x.shape[-1],
            n_classes=self.n_classes,
        )
        network = network.to(self.x.device, memory_format=torch.channels_last)  # faster
        return initialise(network, self.generator).train()

    @property
    def method(self) -> methods.Method:
        """Its row of the registry."""
        return METHODS[self.config["method"]]
