"""Compute of the posteriors: time of a training step, growth of a layer's time and memory.

Nguyen et al. (NeurIPS 2021), Table 7: time per epoch relative to MAP, for LeNet5, AlexNet and
ResNet18; and ``bench``, the same for the layers of the course in one network. Table 6: time and
memory of a layer with K inputs and L outputs for B images, with s draws of the weights, rank r or m
pseudo-data. The slope of log cost over log size is compared with that of the printed formula at the
same sizes. Lesson 13.
"""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import nan
from operator import truediv
from statistics import median
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from bdl_lessons import models
from bdl_lessons.core import clock, cpu_threads, device
from bdl_lessons.datasets.records import Record, where
from bdl_lessons.inference import adam
from bdl_lessons.models import Network, initialise, mlp
from reproductions import markdown, methods
from reproductions.experiment import Claim, Experiment, Trial, TrialResult
from reproductions.figures import ours_and_published
from reproductions.images.architectures import alexnet, lenet5_classic, resnet18
from reproductions.measure import interleaved_times
from reproductions.records import published_by

TIMED = methods.in_table("steps")
"""Every layer has the noise, the first too: what is compared is the time."""
NETWORKS: dict[str, Callable[[models.Method], Network]] = {
    "lenet5": partial(lenet5_classic, in_channels=3, size=32),
    "alexnet": alexnet,
    "resnet18": resnet18,
}
_TITLES = {"lenet5": "LeNet5", "alexnet": "AlexNet", "resnet18": "ResNet18"}
_BATCHES = {  # batch size and rounds
    "cpu": {"lenet5": (128, 24), "alexnet": (32, 10), "resnet18": (16, 6)},
    "cuda": dict.fromkeys(NETWORKS, (128, 100)),
}


def step_trials(scale: str) -> list[Trial]:
    """One for each architecture and kind of device; those for a device that is absent fail."""
    sizes = {"cpu": {"lenet5": (2, 2)}} if scale == "quick" else _BATCHES
    configs = [
        {"architecture": name, "device": kind, "batch_size": batch_size, "rounds": rounds}
        for kind, of_networks in sizes.items()
        for name, (batch_size, rounds) in of_networks.items()
    ]
    return [Trial({**config, "methods": list(TIMED)}, seed=0) for config in configs]


def measure_steps(trial: Trial) -> TrialResult:
    """Steps with all methods in turn on random 32 x 32 images; the metrics of each, ``ms/<method>``
    and ``ratio/<method>``, are those of :func:`step_times`."""
    config = trial.config
    on = device(trial.config["device"])
    generator = torch.Generator(on).manual_seed(trial.seed)
    x = torch.randn(config["batch_size"], 3, 32, 32, generator=generator, device=on)
    y = torch.arange(config["batch_size"], device=on) % 10
    new_networks = {m: NETWORKS[config["architecture"]](TIMED[m].layer) for m in config["methods"]}
    networks = {m: initialise(net.to(on), generator).train() for m, net in new_networks.items()}
    rows = step_times(networks, x, y, generator, config["rounds"], clock=partial(clock, on))
    return TrialResult(
        {f"{name}/{method}": row[name] for method, row in rows.items() for name in ("ms", "ratio")}
    )


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
    return {
        name: {"ms": 1e3 * median(taken), "ratio": median(map(truediv, taken, first))}
        for name, taken in seconds.items()
    }


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
    timed = {"MAP": TIMED["MAP"], "MAP again": TIMED["MAP"]}
    timed |= {method.name: method for method in methods.METHODS if method.bench}
    networks = {m: initialise(mlp(widths, timed[m].layer), generator) for m in timed}
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
    printed = published_by("method", "time_per_epoch_ratio")
    rows = []
    for record in records:
        network = record["config"]["architecture"]
        for method in TIMED:
            row = {"method": method, "network": _TITLES[network], **record}
            row |= {name: record["metrics"][f"{name}/{method}"] for name in ("ms", "ratio")}
            rows.append(row | {"published": printed.get(_base(method), {}).get(network, nan)})
    return rows


def step_table(records: Sequence[Record]) -> str:
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
    missing = [method for method in printed if _base(method) not in map(_base, TIMED)]
    note = _STEP_NOTE.format(missing=", ".join(missing) or "none of them")
    return f"{markdown.table_of(_rows(records), columns)}\n\n{note}"


def step_claims(records: Sequence[Record]) -> list[Claim]:
    """The order of four methods by the time of a step."""
    order = ("VD", "VSD T=1, fc", "VSD T=2, fc", "BBB-LRT", "MNF")
    ratios = [[record["metrics"][f"ratio/{method}"] for method in order] for record in records]
    listed = "; ".join(", ".join(f"{ratio:.2f}" for ratio in row) for row in ratios)
    names = (_TITLES[record["config"]["architecture"]] for record in records)
    return [
        Claim(
            "A step of VD is cheapest, then of VSD with T = 1, T = 2, BBB-LRT, MNF",
            "this order in every network",
            f"as multiples of MAP's: {listed}",
            sum(row == sorted(row) for row in ratios),
            len(ratios),
            f"{', '.join(names)} on {records[0]['device']}; the order of medians alone",
        )
    ]


def step_figure(records: Sequence[Record]) -> Figure:
    """Ratios to MAP of the networks on one kind of device."""
    panels = {}
    for record in where(records, device=records[0]["config"]["device"]):
        rows = _rows([record])
        dots = [[(row["method"], row[who], 0) for row in rows] for who in ("ratio", "published")]
        panels[rows[0]["network"]] = tuple(dots)
    return ours_and_published([*TIMED], panels, "time of a step, as a multiple of MAP's")


def _base(method: str) -> str:
    return method.removesuffix(", fc")


_STEP_NOTE = (
    "Set-up: a step is a forward pass with a draw for every image, the KL, the backward pass and "
    "fused Adam; the methods take turns, and the median over rounds of the ratio to MAP in the "
    "same round is shown; on a CPU of processor time. Every layer has the noise, the first too: in "
    "LeNet5 this needs the gradient with respect to the pixels, its largest array, which a plain "
    "network never computes. Published is the time of an epoch, loading included; data, batch "
    "size, optimiser and hardware are not known. Published VSD makes its vectors by a chain of "
    "fully connected layers, as the rows `fc`; the others have free vectors, the same "
    "distributions for fewer numbers. Published but not measured here: {missing}."
)


BASE = {"K": 1024, "L": 128, "B": 64, "s": 1, "r": 2, "m": 8}
_SIZES = {
    "K": [512, 1024, 2048, 4096],
    "L": [128, 256, 512, 1024],
    "B": [64, 128, 256, 512],
    "s": [1, 2, 4, 8, 16],
    "r": [2, 4, 8, 16, 32],
    "m": [8, 16, 32, 64, 128],
}
"""Letter of a size -> the values that it takes."""
SIZED = methods.in_table("complexity")
_SETTINGS = {"n_pseudo": "m", "rank": "r", "n_reflections": "r"}
"""Setting of a method -> the size that it is."""


def size_trials(scale: str) -> list[Trial]:
    """One for each method; s varies where one draw serves a batch, r and m as settings."""
    quick = scale == "quick"
    planned = []
    for name, method in SIZED.items():
        varied = ["K", "L", "B", *(["s"] if method.sampling == "shared" else [])]
        varied += [_SETTINGS[setting] for setting in _SETTINGS if setting in method.settings]
        sweeps = {size: [8, 16] if quick else _SIZES[size] for size in varied}
        config = {"method": name, "sweeps": sweeps, "base": BASE, "rounds": 1 if quick else 9}
        planned.append(Trial(config, 0))
    return planned


def measure_sizes(trial: Trial) -> TrialResult:
    """One layer at every size, forward, KL and backward; on the CPU.

    Arrays, for each size that is swept: ``<size>/values``, ``<size>/seconds`` (the fastest of the
    rounds, which take turns over the values) and ``<size>/bytes``. Metrics: ``<size>/time_slope``
    and ``<size>/memory_slope``.
    """
    config = trial.config
    metrics = {}
    arrays = {}
    for name, values in config["sweeps"].items():
        sizes = [{**config["base"], name: value} for value in values]
        passes = [OnePass(config["method"], size, trial.seed) for size in sizes]
        kept = [one_pass.bytes_held() for one_pass in passes]
        calls = {value: p.both_ways for value, p in zip(values, passes, strict=True)}
        rounds = interleaved_times(calls, config["rounds"], clock=time.process_time)
        seconds = [min(taken) for taken in rounds.values()]
        arrays |= {f"{name}/values": values, f"{name}/seconds": seconds, f"{name}/bytes": kept}
        metrics[f"{name}/time_slope"] = slope(values, seconds)
        metrics[f"{name}/memory_slope"] = slope(values, kept)
    return TrialResult(metrics, arrays)


class OnePass:
    """A forward pass of one layer and its KL, to numbers that can be differentiated."""

    def __init__(self, method: str, size: Mapping[str, int], seed: int) -> None:
        self.sampling = SIZED[method].sampling
        self.generator = torch.Generator().manual_seed(seed)
        settings = {name: size[letter] for name, letter in _SETTINGS.items()}
        self.layer = SIZED[method].configured(settings)(nn.Linear(size["K"], size["L"]))
        initialise(Network(self.layer), self.generator)
        shape = size["s"], size["B"], size["K"]
        self.x = torch.randn(shape, generator=self.generator).squeeze(0).requires_grad_()

    def forward(self) -> list[Tensor]:
        return [self.layer(self.x, self.sampling, self.generator), self.layer.kl()]

    def both_ways(self) -> None:
        """Forward and backward."""
        learned = [part for part in self.layer.parameters() if part.requires_grad]
        torch.autograd.grad(sum(part.sum() for part in self.forward()), [self.x, *learned])

    def bytes_held(self) -> int:
        """Size of the distinct tensors that are there between forward and backward pass."""
        not_counted = {
            t.untyped_storage().data_ptr() for t in (self.layer.weight, self.layer.bias, self.x)
        }
        held = list(self.layer.parameters())

        def pack(tensor: Tensor) -> Tensor:
            held.append(tensor)
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            held += self.forward()
        sizes = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in held}
        return sum(size for at, size in sizes.items() if at not in not_counted)


def slope(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """Of the least-squares line of log time, or memory, over log size."""
    return float(np.polyfit(np.log(sizes), np.log(costs), 1)[0])


def evaluate(formula: str, sizes: Mapping[str, int]) -> float:
    """A printed order such as ``"r^3 + (r+2) K L B"`` at given sizes, constants as printed."""
    product = re.sub(r"(?<=[\w)]) (?=[\w(])", " * ", formula.replace("^", "**"))
    return eval(product, {"__builtins__": {}}, dict(sizes))


def _exponents(records: Sequence[Record]) -> list[dict[str, Any]]:
    """A row for each method and size: ours, the printed orders and their exponents, if any."""
    printed = published_by("method", "complexity_per_layer")
    rows = []
    for record in records:
        config = record["config"]
        formulas = printed.get(config["method"], {})
        for name, values in config["sweeps"].items():
            row = {"method": config["method"], "size": name}
            for what in ("time", "memory"):
                row[what] = formulas.get(what, "")
                row[f"our {what}"] = record["metrics"][f"{name}/{what}_slope"]
                sizes = [{**config["base"], name: value} for value in values]
                costs = [evaluate(row[what], size) for size in sizes if formulas]
                row[f"their {what}"] = slope(values, costs) if formulas else nan
            rows.append(row)
    return rows


def size_table(records: Sequence[Record]) -> str:
    """For each method the exponents in each size, ours and the formula's, in time and memory."""
    columns = {"method": "{method}", "size": "{size}"}
    for what in ("time", "memory"):
        columns[f"printed {what}"] = f"{{{what}}}"
        columns[f"exponent of {what}: measured"] = f"{{our {what}:z.2f}}"
        columns[f"of the printed {what}"] = f"{{their {what}:z.2f}}"
    config = records[0]["config"]
    measured = {record["config"]["method"] for record in records}
    unmeasured = [m for m in published_by("method", "complexity_per_layer") if m not in measured]
    base = ", ".join(f"{k} = {v}" for k, v in config["base"].items())
    note = _SIZE_NOTE.format(base=base, rounds=config["rounds"], left=", ".join(unmeasured))
    return f"{markdown.table_of(_exponents(records), columns)}\n\n{note}"


def size_claims(records: Sequence[Record]) -> list[Claim]:
    """Exponents of time and memory, those of the printed orders beside them."""
    statements = []
    rows = [row for row in _exponents(records) if row["time"]]
    plain = next((row for row in rows if (row["method"], row["size"]) == ("MAP", "B")), {})
    for what in ("time", "memory"):
        gaps = [abs(row[f"our {what}"] - row[f"their {what}"]) for row in rows]
        statements.append(
            Claim(
                f"The {what} of a layer grows with its sizes as the printed orders say",
                "orders such as K^2 + K L B",
                f"exponents differ by {median(gaps):.2f} in the median, at most {max(gaps):.2f}",
                sum(gap < 0.25 for gap in gaps),
                len(gaps),
                f"one layer on a CPU, a quarter allowed; the plain product, whose {what} grows in "
                f"proportion to B, has an exponent of {plain.get(f'our {what}', nan):.2f} there",
            )
        )
    return statements


def size_figure(records: Sequence[Record]) -> Figure:
    """Exponents of time and of memory, ours and those of the printed orders."""
    panels = {}
    rows = {f"{row['method']}, {row['size']}": row for row in _exponents(records)}
    for what in ("time", "memory"):
        both = (f"our {what}", f"their {what}")
        dots = [[(name, row[key], 0) for name, row in rows.items()] for key in both]
        panels[f"Exponent of {what}"] = tuple(dots)
    return ours_and_published([*rows], panels)


_SIZE_NOTE = (
    "Set-up: one linear layer on the CPU, forward pass, KL and backward pass; {base} but for the "
    "size that varies (r is also the number of free vectors). An exponent is the slope of log cost"
    " over log size, the formula's over the same sizes, constants as printed. Constant times of "
    "Python pull measured slopes down; a matrix that outgrows the cache pushes them up. Time is "
    "processor time, the fastest of {rounds} rounds. Memory is what is there between forward and "
    "backward pass: the output, what autograd keeps, and the parameters other than the mean "
    "weights. The formula of BBB-LRT leaves out its K L variances. VSD is the published chain of "
    "fully connected layers, T = 2, whose reflections read K^2 weights; free vectors have no K^2. "
    "Printed for low-rank VSD is a time of r K but a memory of K^2, which ours does not need. Not "
    "measured: {left}."
)
STEPS = Experiment(
    "time_per_step",
    "Time of a training step under each method (Nguyen et al. 2021, Table 7)",
    step_trials,
    measure_steps,
    step_table,
    step_figure,
    step_claims,
)
SIZES = Experiment(
    "complexity",
    "Time and memory of one layer against its sizes (Nguyen et al. 2021, Table 6)",
    size_trials,
    measure_sizes,
    size_table,
    size_figure,
    size_claims,
    on_cpu=True,
)
