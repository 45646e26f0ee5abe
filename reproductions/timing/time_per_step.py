"""Time of a training step under each posterior, relative to a plain network.

Nguyen et al. (NeurIPS 2021), Table 7: time per epoch relative to MAP, for LeNet5, AlexNet and
ResNet18; and ``bench``, the same for the layers of the course in one network. Lesson 12.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import nan
from statistics import median
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor
from torch.nn.functional import cross_entropy

from bdl_lessons.core import clock, cpu_threads, device
from bdl_lessons.datasets.records import Record, where
from bdl_lessons.inference import adam
from bdl_lessons.models import LayerFactory, Network, initialise, mlp
from reproductions import markdown, methods
from reproductions.experiment import Claim, Experiment, Trial, TrialResult
from reproductions.figures import ours_and_published
from reproductions.images.architectures import alexnet, lenet5_classic, resnet18
from reproductions.measure import interleaved_times
from reproductions.records import published_by

METHODS = methods.tagged("steps")
"""Every layer has the noise, the first too: what is compared is the time."""
NETWORKS: dict[str, Callable[[LayerFactory], Network]] = {
    "lenet5": partial(lenet5_classic, in_channels=3, size=32),
    "alexnet": alexnet,
    "resnet18": resnet18,
}
_TITLES = {"lenet5": "LeNet5", "alexnet": "AlexNet", "resnet18": "ResNet18"}
_SIZES = {  # batch size and rounds
    "cpu": {"lenet5": (128, 24), "alexnet": (32, 10), "resnet18": (16, 6)},
    "cuda": dict.fromkeys(NETWORKS, (128, 100)),
}


def trials(scale: str) -> list[Trial]:
    """One for each architecture and kind of device; those for a device that is absent fail."""
    sizes = {"cpu": {"lenet5": (2, 2)}} if scale == "quick" else _SIZES
    configs = [
        {"architecture": name, "device": kind, "batch_size": batch_size, "rounds": rounds}
        for kind, of_networks in sizes.items()
        for name, (batch_size, rounds) in of_networks.items()
    ]
    return [Trial({**config, "methods": list(METHODS)}, seed=0) for config in configs]


def run(trial: Trial) -> TrialResult:
    """Steps with all methods in turn on random 32 x 32 images; the metrics of each, ``ms/<method>``
    and ``ratio/<method>``, are those of :func:`step_times`."""
    config, on = trial.config, device(trial.config["device"])
    generator = torch.Generator(on).manual_seed(trial.seed)
    x = torch.randn(config["batch_size"], 3, 32, 32, generator=generator, device=on)
    y = torch.arange(config["batch_size"], device=on) % 10
    networks = {m: make_network(config["architecture"], m, generator) for m in config["methods"]}
    rows = step_times(networks, x, y, generator, config["rounds"], clock=partial(clock, on))
    return TrialResult(
        {f"{name}/{method}": row[name] for method, row in rows.items() for name in ("ms", "ratio")}
    )


def make_network(architecture: str, method: str, generator: torch.Generator) -> Network:
    """A network in training mode on the device of ``generator``, which draws its weights."""
    network = NETWORKS[architecture](METHODS[method].layers()).to(generator.device)
    return initialise(network, generator).train()


def step_times(
    networks: Mapping[str, Network],
    x: Tensor,
    y: Tensor,
    generator: torch.Generator,
    n_rounds: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, dict[str, float]]:
    """For each network ``ms``, the median milliseconds of a step, and ``ratio``, the median over
    rounds of its time by that of the first network in the same round."""
    steps = {name: training_step(network, x, y, generator) for name, network in networks.items()}
    seconds = interleaved_times(steps, n_rounds, warm_up=2, clock=clock)
    first = next(iter(seconds.values()))
    rows = {}
    for name, taken in seconds.items():
        ratios = [a / b for a, b in zip(taken, first, strict=True)]
        rows[name] = {"ms": 1e3 * median(taken), "ratio": median(ratios)}
    return rows


def training_step(
    network: Network, x: Tensor, y: Tensor, generator: torch.Generator
) -> Callable[[], None]:
    """A call that takes one step of fused Adam on the loss."""
    optimizer = adam(1e-3)(network.parameters())

    def step() -> None:
        loss = cross_entropy(network(x, "per_example", generator), y) + network.kl() / 50_000
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return step


def bench(widths: Sequence[int] = (784, 1200, 1200, 1200, 10), n_rounds: int = 40) -> str:
    """A training step of networks of all kinds of layers, relative to MAP: measured now."""
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(100, widths[0], generator=generator)
    y = torch.randint(widths[-1], (len(x),), generator=generator)
    timed = {"MAP": METHODS["MAP"], "MAP again": METHODS["MAP"], **methods.tagged("bench")}
    networks = {m: initialise(mlp(widths, timed[m].layers()), generator) for m in timed}
    with cpu_threads(2):
        measured = step_times(networks, x, y, generator, n_rounds)
    rows = [{"name": name, **row} for name, row in measured.items()]
    columns = {"method": "{name}", "ms": "{ms:.1f}", "ratio to MAP": "{ratio:.2f}"}
    return (
        f"A training step of {'-'.join(map(str, widths))}, batch {len(x)}, fused Adam, 2 threads. "
        "All networks take turns; the median over rounds of the ratio to MAP in the same round. "
        f"`MAP again` tells what can be told apart.\n\n{markdown.table_of(rows, columns)}"
    )


def _rows(records: Sequence[Record]) -> list[dict[str, Any]]:
    """A row for each record and method; what is not published is not a number."""
    printed, rows = published_by("method", "time_per_epoch_ratio"), []
    for record in records:
        network = record["config"]["architecture"]
        for method in METHODS:
            row = {"method": method, "network": _TITLES[network], **record}
            row |= {name: record["metrics"][f"{name}/{method}"] for name in ("ms", "ratio")}
            rows.append(row | {"published": printed.get(_base(method), {}).get(network, nan)})
    return rows


def table(records: Sequence[Record]) -> str:
    """Milliseconds of a step, and its ratio to MAP's, published beside."""
    columns = {
        "device": "{device}",
        "network": "{network}, batch {config[batch_size]}",
        "method": "{method}",
        "ms a step": "{ms:.1f}",
        "over MAP": "{ratio:.2f}",
        "published": "{published:.2f}",
    }
    printed = published_by("method", "time_per_epoch_ratio")
    missing = [method for method in printed if _base(method) not in map(_base, METHODS)]
    note = _SET_UP.format(missing=markdown.listed(missing))
    return f"{markdown.table_of(_rows(records), columns)}\n\n{note}"


def claims(records: Sequence[Record]) -> list[Claim]:
    """The order of four methods by the time of a step."""
    order = ("VD", "VSD T=1, fc", "VSD T=2, fc", "BBB-LRT", "MNF")
    ratios = [[record["metrics"][f"ratio/{method}"] for method in order] for record in records]
    told = "; ".join(" < ".join(f"{ratio:.2f}" for ratio in row) for row in ratios)
    names = (_TITLES[record["config"]["architecture"]] for record in records)
    return [
        Claim(
            "A step of VD is cheapest, then of VSD with T = 1, T = 2, BBB-LRT, MNF",
            "this order in every network",
            f"as multiples of MAP: {told}",
            sum(row == sorted(row) for row in ratios),
            len(ratios),
            f"{', '.join(names)} on {records[0]['device']}; Table 7",
        )
    ]


def figure(records: Sequence[Record]) -> Figure:
    """Ratios to MAP of the networks on one kind of device."""
    panels = {}
    for record in where(records, device=records[0]["config"]["device"]):
        rows = _rows([record])
        dots = [[(row["method"], row[who], 0) for row in rows] for who in ("ratio", "published")]
        panels[rows[0]["network"]] = tuple(dots)
    return ours_and_published([*METHODS], panels, "time of a step, as a multiple of MAP's")


def _base(method: str) -> str:
    return method.removesuffix(", fc")


_SET_UP = (
    "Set-up: a step is a forward pass with a draw for every image, the KL, the backward pass and "
    "fused Adam; the methods take turns, and the median over rounds of the ratio to MAP in the "
    "same round is shown. On a CPU it is processor time. Every layer has the noise, the first too: "
    "in LeNet5, where the image is the largest array, this needs the gradient with respect to the "
    "pixels, which a plain network never computes. Published is the time of an epoch, loading "
    "included; data, batch size, optimiser and hardware are not known. Published VSD makes its "
    "vectors by a chain of fully connected layers: compare it with the rows `fc`; the others have "
    "free vectors, the same distributions for fewer numbers. On a GPU many small operations wait "
    "for each other: that may be why published ratios of ResNet18 are higher. Published but not "
    "measured here: {missing}."
)
TITLE = "Time of a training step under each method (Nguyen et al. 2021, Table 7)"
EXPERIMENT = Experiment("time_per_step", TITLE, trials, run, table, figure, claims)
