"""Kingma, Salimans and Welling (2015), figure 1a: seven kinds of dropout on MNIST over the width.

Three hidden layers of ReLU units; p_drop 0.2 on the pixels and 0.5 on the hidden units, fixed or as
the start of a learned alpha for each layer. Published: test errors of 100 to 1250 units a layer,
means of five runs. One width is trained ten times as long as the others, to see what the short
schedule does to the order of the methods. One more trial measures whether networks trained in
one batch are faster. Lesson 07.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from bdl_lessons.core import device
from bdl_lessons.datasets import mnist
from bdl_lessons.evaluation import error_percent
from bdl_lessons.inference import BatchedNetworks, adam, fit, fit_batched
from bdl_lessons.models import (
    BinaryDropout,
    Deterministic,
    GaussianDropout,
    LayerFactory,
    Network,
    VariationalDropout,
    initialise,
    mlp,
)
from bdl_lessons.probability import kingma_kl
from reproductions.experiment import Experiment, Trial, TrialResult
from reproductions.measure import interleaved_times, mean_weights
from reproductions.mnist_dropout_curves_report import figure, table
from reproductions.records import rounded

RATES = (0.2, 0.5, 0.5, 0.5)
METHODS: dict[str, Callable[[float], LayerFactory]] = {
    "none": lambda p_drop: Deterministic(),
    "binary": BinaryDropout,
    "Gaussian A": lambda p_drop: GaussianDropout(p_drop, "A"),
    "Gaussian B": lambda p_drop: GaussianDropout(p_drop, "B"),
    "variational A": lambda p_drop: _variational("A", p_drop),
    "variational A2": lambda p_drop: _variational("A", p_drop, 1 / 3),
    "variational B": lambda p_drop: _variational("B", p_drop),
}
WIDTHS = (100, 250, 500, 750)
SEEDS = 3
LONG_WIDTH, LONG_EPOCHS = 500, 60

_PAPER = {
    "n_train": 60_000,
    "n_test": 10_000,
    "batch_size": 200,
    "learning_rate": 2e-3,
    "n_epochs": 6,
}
_QUICK = {**_PAPER, "n_train": 200, "n_test": 50, "batch_size": 100, "n_epochs": 1}
_SPEED = {
    "measure": "speed",
    "methods": ["none", "variational A", "variational B"],
    "widths": list(WIDTHS),
    "n_members": SEEDS,
    "batch_size": 200,
    "n_steps": 5,
    "n_rounds": 5,
}


def trials(scale: str) -> list[Trial]:
    """The speed, every method and width with one seed, then with the next, last the long runs."""
    if scale == "quick":
        speed = {**_SPEED, "widths": [20], "n_members": 2, "n_steps": 1, "n_rounds": 1}
        return [
            Trial(speed, seed=0),
            *(Trial(_error(_QUICK, method, 20), seed=0) for method in METHODS),
        ]
    return [
        Trial(_SPEED, seed=0),
        *(
            Trial(_error(_PAPER, method, width), seed)
            for seed in range(SEEDS)
            for width in WIDTHS
            for method in METHODS
        ),
        *(Trial(_error({**_PAPER, "n_epochs": LONG_EPOCHS}, m, LONG_WIDTH), 0) for m in METHODS),
    ]


def run(trial: Trial) -> TrialResult:
    """Measure the speed, or train one network.

    Metrics of a network: ``error`` on the test set with the mean weights, in percent, and
    ``train_seconds``. Arrays: ``alpha``, of each layer, if it is learned.

    Metrics of the speed: ``gain_<width>``, time one after the other over time batched, the
    geometric mean over the methods. Arrays: ``ms_alone`` and ``ms_side_by_side``, milliseconds of
    one step of one network, ``(methods, widths)``: medians over rounds that take turns.
    """
    if trial.config["measure"] == "speed":
        return measure_speed(trial.config, trial.seed)
    config, on = trial.config, device()
    data = mnist(config["n_train"], config["n_test"])
    generator = torch.Generator(on).manual_seed(trial.seed)
    net = make_network(config["method"], config["width"], generator)
    n_steps = config["n_epochs"] * (config["n_train"] // config["batch_size"])
    began = time.perf_counter()
    fit(
        net,
        data.x_train.flatten(1).to(on),
        data.y_train.to(on),
        cross_entropy,
        n_steps=n_steps,
        generator=generator,
        optimizer=adam(config["learning_rate"]),
        batch_size=config["batch_size"],
        kl_weight=_kl_weight(config["method"]),
        schedule=lambda step: 1 - step / n_steps,
    )
    seconds = time.perf_counter() - began
    error = error_percent(mean_weights(net, data.x_test.flatten(1).to(on)), data.y_test.to(on))
    arrays = {}
    if _learned(config["method"]):
        arrays["alpha"] = [layer.alpha.item() for layer in net if hasattr(layer, "noise")]
    return TrialResult({"error": error, "train_seconds": seconds}, arrays)


def measure_speed(config: dict, seed: int) -> TrialResult:
    """The time of a step of batched networks, and one after the other; see :func:`run`."""
    on = device()
    generator = torch.Generator(on).manual_seed(seed)
    x = torch.rand(4 * config["batch_size"], 784, generator=generator, device=on)
    y = torch.randint(10, (len(x),), generator=generator, device=on)
    seconds = [
        [_step_seconds(method, width, x, y, config, generator) for width in config["widths"]]
        for method in config["methods"]
    ]
    alone, together = 1000 * torch.tensor(seconds, dtype=torch.double).movedim(-1, 0)
    gains = (alone / together).log().mean(0).exp()
    return TrialResult(
        {f"gain_{w}": gain.item() for w, gain in zip(config["widths"], gains, strict=True)},
        {"ms_alone": rounded(alone, 3), "ms_side_by_side": rounded(together, 3)},
    )


def _step_seconds(
    method: str, width: int, x: Tensor, y: Tensor, config: dict, generator: torch.Generator
) -> list[float]:
    """Median seconds of one step of one network: one after the other, and batched."""
    n_members, n_steps = config["n_members"], config["n_steps"]
    nets = [make_network(method, width, generator) for _ in range(n_members)]
    members = BatchedNetworks(nets)
    both = x.expand(n_members, *x.shape), y.expand(n_members, *y.shape)
    options = {
        "n_steps": n_steps,
        "generator": generator,
        "optimizer": adam(1e-4),
        "batch_size": config["batch_size"],
        "kl_weight": _kl_weight(method),
    }
    calls = {
        "alone": lambda: [fit(net, x, y, cross_entropy, **options) for net in nets],
        "batched": lambda: fit_batched(members, *both, cross_entropy, **options),
    }
    taken = interleaved_times(calls, config["n_rounds"]).values()
    return [median(seconds) / (n_steps * n_members) for seconds in taken]


def make_network(method: str, width: int, generator: torch.Generator) -> Network:
    """784 - width - width - width - 10, noise on the inputs of every layer."""
    net = mlp((784, width, width, width, 10), [METHODS[method](p_drop) for p_drop in RATES])
    return initialise(net.to(generator.device), generator)


TITLE = "Kinds of dropout over the width (Kingma, Salimans and Welling 2015, figure 1a)"
EXPERIMENT = Experiment("mnist_dropout_curves", TITLE, trials, run, table, figure)


def _variational(noise: str, p_drop: float, kl_scale: float = 1.0) -> VariationalDropout:
    return VariationalDropout(noise, init_p_drop=p_drop, kl=kingma_kl, kl_scale=kl_scale)


def _error(config: dict, method: str, width: int) -> dict:
    return {"measure": "error", "method": method, "width": width, **config}


def _learned(method: str) -> bool:
    return method.startswith("variational")


def _kl_weight(method: str) -> float:
    return 1.0 if _learned(method) else 0.0
