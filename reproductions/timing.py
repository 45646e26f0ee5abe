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
from statistics import median

import numpy as np
import pandas as pd
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
    planned = []
    for kind, of_networks in sizes.items():
        for architecture, (batch_size, rounds) in of_networks.items():
            config = {
                "architecture": architecture,
                "device": kind,
                "batch_size": batch_size,
                "rounds": rounds,
                "methods": list(TIMED),
            }
            planned.append(Trial(config, seed=0))
    return planned


def measure_steps(trial: Trial) -> TrialResult:
    """Steps with all methods in turn on random 32 x 32 images; the metrics of each, ``ms/<method>``
    and ``ratio/<method>``, are those of :func:`step_times`."""
    config = trial.config
    on = device(config["device"])
    generator = torch.Generator(on).manual_seed(trial.seed)
    x = torch.randn(config["batch_size"], 3, 32, 32, generator=generator, device=on)
    y = torch.arange(config["batch_size"], device=on) % 10
    make_network = NETWORKS[config["architecture"]]
    networks = {method: make_network(TIMED[method].layer) for method in config["methods"]}
    for network in networks.values():
        initialise(network.to(on), generator).train()
    times = step_times(networks, x, y, generator, config["rounds"], clock=partial(clock, on))
    metrics = {}
    for method, of_method in times.items():
        metrics[f"ms/{method}"] = of_method["ms"]
        metrics[f"ratio/{method}"] = of_method["ratio"]
    return TrialResult(metrics)


def step_times(
    networks: Mapping[str, Network],
    x: Tensor,
    y: Tensor,
    generator: torch.Generator,
    n_rounds: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, dict[str, float]]:
    """The times of a training step of each network, which take turns.

    ``ms`` are the median milliseconds; ``ratio`` is the median over rounds of the time over that of
    the first network in the same round, so that a machine that gets slower does not matter.
    """
    steps = {name: training_step(network, x, y, generator) for name, network in networks.items()}
    seconds = interleaved_times(steps, n_rounds, warm_up=2, clock=clock)
    of_first = next(iter(seconds.values()))
    times = {}
    for name, of_network in seconds.items():
        ratios = [
            seconds_of / first for seconds_of, first in zip(of_network, of_first, strict=True)
        ]
        times[name] = {"ms": 1e3 * median(of_network), "ratio": median(ratios)}
    return times


def training_step(
    network: Network, x: Tensor, y: Tensor, generator: torch.Generator
) -> Callable[[], None]:
    """A call that takes one step of fused Adam on the loss, with the KL as for 50,000 images."""
    optimizer = adam(1e-3)(network.parameters())

    def step() -> None:
        nll = cross_entropy(network(x, "per_example", generator), y)
        loss = nll + network.kl() / 50_000
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return step


def bench(widths: Sequence[int] = (784, 1200, 1200, 1200, 10), n_rounds: int = 40) -> str:
    """A training step of networks of all kinds of layers, relative to MAP: measured now."""
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(100, widths[0], generator=generator)
    y = torch.randint(widths[-1], (len(x),), generator=generator)
    layers = {"MAP": TIMED["MAP"].layer, "MAP again": TIMED["MAP"].layer}
    for method in methods.METHODS:
        if method.bench:
            layers[method.name] = method.layer
    networks = {}
    for name, layer in layers.items():
        networks[name] = initialise(mlp(widths, layer), generator)
    with cpu_threads(2):
        times = step_times(networks, x, y, generator, n_rounds)
    rows = [[name, f"{row['ms']:.1f}", f"{row['ratio']:.2f}"] for name, row in times.items()]
    return (
        f"A training step of {'-'.join(map(str, widths))}, batch {len(x)}, fused Adam, 2 threads. "
        "All networks take turns; the median over rounds of the ratio to MAP in the same round. "
        "`MAP again` tells what can be told apart.\n\n"
        + markdown.table(["method", "ms", "ratio to MAP"], rows)
    )


def _times_beside_published(records: Sequence[Record]) -> pd.DataFrame:
    """A row for each record and method; what is not published is not a number."""
    printed = published_by("method", "time_per_epoch_ratio")
    rows = []
    for record in records:
        config = record["config"]
        metrics = record["metrics"]
        architecture = config["architecture"]
        for method in TIMED:
            of_method = printed.get(_without_chain(method), {})
            rows.append(
                {
                    "device": record["device"],
                    "network": _TITLES[architecture],
                    "batch_size": config["batch_size"],
                    "method": method,
                    "ms": metrics[f"ms/{method}"],
                    "ratio": metrics[f"ratio/{method}"],
                    "published": of_method.get(architecture, nan),
                }
            )
    return pd.DataFrame(rows)


def step_table(records: Sequence[Record]) -> str:
    """Milliseconds of a step, and its ratio to MAP's, published beside."""
    times = _times_beside_published(records)
    shown = pd.DataFrame(
        {
            "device": times["device"],
            "network": times["network"] + ", batch " + times["batch_size"].astype(str),
            "method": times["method"],
            "ms a step": times["ms"].map("{:.1f}".format),
            "over MAP": times["ratio"].map("{:.2f}".format),
            "published": times["published"].map("{:.2f}".format),
        }
    )
    printed = published_by("method", "time_per_epoch_ratio")
    timed = {_without_chain(method) for method in TIMED}
    missing = [method for method in printed if _without_chain(method) not in timed]
    note = _STEP_NOTE.format(missing=", ".join(missing) or "none of them")
    return f"{markdown.frame_table(shown)}\n\n{note}"


def step_claims(records: Sequence[Record]) -> list[Claim]:
    """The order of four methods by the time of a step."""
    order = ("VD", "VSD T=1, fc", "VSD T=2, fc", "BBB-LRT", "MNF")
    listed = []
    networks = []
    n_in_order = 0
    for record in records:
        ratios = [record["metrics"][f"ratio/{method}"] for method in order]
        listed.append(", ".join(f"{ratio:.2f}" for ratio in ratios))
        networks.append(_TITLES[record["config"]["architecture"]])
        n_in_order += ratios == sorted(ratios)
    return [
        Claim(
            statement="A step of VD is cheapest, then of VSD with T = 1, T = 2, BBB-LRT, MNF",
            published="this order in every network",
            ours=f"as multiples of MAP's: {'; '.join(listed)}",
            holds=n_in_order,
            of=len(records),
            condition=(
                f"{', '.join(networks)} on {records[0]['device']}; the order of medians alone"
            ),
        )
    ]


def step_figure(records: Sequence[Record]) -> Figure:
    """Ratios to MAP of the networks on one kind of device."""
    panels = {}
    on_one_device = where(records, device=records[0]["config"]["device"])
    for network, times in _times_beside_published(on_one_device).groupby("network", sort=False):
        panels[network] = (_dots(times, "ratio"), _dots(times, "published"))
    return ours_and_published(list(TIMED), panels, "time of a step, as a multiple of MAP's")


def _dots(rows: pd.DataFrame, column: str) -> list[tuple[str, float, float]]:
    """The dots of :func:`ours_and_published` by methods, without bars."""
    return [(method, value, 0) for method, value in zip(rows["method"], rows[column], strict=True)]


def _without_chain(method: str) -> str:
    """The name of a method without the suffix of its published chain of vectors."""
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
        varied = ["K", "L", "B"]
        if method.sampling == "shared":
            varied.append("s")
        for setting, size in _SETTINGS.items():
            if setting in method.settings:
                varied.append(size)
        config = {
            "method": name,
            "sweeps": {size: [8, 16] if quick else _SIZES[size] for size in varied},
            "base": BASE,
            "rounds": 1 if quick else 9,
        }
        planned.append(Trial(config, seed=0))
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
        n_bytes = [one_pass.bytes_held() for one_pass in passes]
        calls = {}
        for value, one_pass in zip(values, passes, strict=True):
            calls[value] = one_pass.both_ways
        rounds = interleaved_times(calls, config["rounds"], clock=time.process_time)
        seconds = [min(of_value) for of_value in rounds.values()]
        arrays[f"{name}/values"] = values
        arrays[f"{name}/seconds"] = seconds
        arrays[f"{name}/bytes"] = n_bytes
        metrics[f"{name}/time_slope"] = slope(values, seconds)
        metrics[f"{name}/memory_slope"] = slope(values, n_bytes)
    return TrialResult(metrics, arrays)


class OnePass:
    """A forward pass of one layer and its KL, to numbers that can be differentiated."""

    def __init__(self, method: str, size: Mapping[str, int], seed: int) -> None:
        self.sampling = SIZED[method].sampling
        self.generator = torch.Generator().manual_seed(seed)
        settings = {name: size[letter] for name, letter in _SETTINGS.items()}
        make_layer = SIZED[method].configured(settings)
        self.layer = make_layer(nn.Linear(size["K"], size["L"]))
        initialise(Network(self.layer), self.generator)
        samples = torch.randn(size["s"], size["B"], size["K"], generator=self.generator)
        self.x = samples.squeeze(0).requires_grad_()

    def forward(self) -> list[Tensor]:
        """The output for every draw and the KL."""
        return [self.layer(self.x, self.sampling, self.generator), self.layer.kl()]

    def both_ways(self) -> None:
        """Forward and backward."""
        total = sum(part.sum() for part in self.forward())
        learned = [part for part in self.layer.parameters() if part.requires_grad]
        torch.autograd.grad(total, [self.x, *learned])

    def bytes_held(self) -> int:
        """Size of the distinct tensors that are there between forward and backward pass."""
        inputs = (self.layer.weight, self.layer.bias, self.x)
        not_counted = {tensor.untyped_storage().data_ptr() for tensor in inputs}
        held = list(self.layer.parameters())

        def pack(tensor: Tensor) -> Tensor:
            held.append(tensor)
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            held += self.forward()
        n_bytes = {}
        for tensor in held:
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in not_counted:
                n_bytes[storage.data_ptr()] = storage.nbytes()
        return sum(n_bytes.values())


def slope(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """Of the least-squares line of log time, or memory, over log size."""
    line = np.polyfit(np.log(sizes), np.log(costs), deg=1)
    return float(line[0])


def evaluate(formula: str, sizes: Mapping[str, int]) -> float:
    """A printed order such as ``"r^3 + (r+2) K L B"`` at given sizes, constants as printed."""
    product = re.sub(r"(?<=[\w)]) (?=[\w(])", " * ", formula.replace("^", "**"))
    return eval(product, {"__builtins__": {}}, dict(sizes))


def _exponents(records: Sequence[Record]) -> pd.DataFrame:
    """A row for each method and size, with our exponents beside those of the printed orders.

    For the time and the memory: ``<resource>`` is the printed order, empty if there is none, ``our
    <resource>`` and ``their <resource>`` are exponents.
    """
    printed = published_by("method", "complexity_per_layer")
    rows = []
    for record in records:
        config = record["config"]
        formulas = printed.get(config["method"], {})
        for name, values in config["sweeps"].items():
            row = {"method": config["method"], "size": name}
            sizes = [{**config["base"], name: value} for value in values]
            for cost in ("time", "memory"):
                row[cost] = formulas.get(cost, "")
                row[f"our {cost}"] = record["metrics"][f"{name}/{cost}_slope"]
                row[f"their {cost}"] = nan
                if formulas:
                    costs = [evaluate(formulas[cost], size) for size in sizes]
                    row[f"their {cost}"] = slope(values, costs)
            rows.append(row)
    return pd.DataFrame(rows)


def size_table(records: Sequence[Record]) -> str:
    """For each method the exponents in each size, ours and the formula's, in time and memory."""
    exponents = _exponents(records)
    shown = exponents[["method", "size"]].copy()
    for cost in ("time", "memory"):
        shown[f"printed {cost}"] = exponents[cost]
        shown[f"exponent of {cost}: measured"] = exponents[f"our {cost}"].map("{:z.2f}".format)
        shown[f"of the printed {cost}"] = exponents[f"their {cost}"].map("{:z.2f}".format)
    config = records[0]["config"]
    printed = published_by("method", "complexity_per_layer")
    unmeasured = [method for method in printed if method not in set(exponents["method"])]
    note = _SIZE_NOTE.format(
        base=", ".join(f"{size} = {value}" for size, value in config["base"].items()),
        rounds=config["rounds"],
        unmeasured=", ".join(unmeasured),
    )
    return f"{markdown.frame_table(shown)}\n\n{note}"


def size_claims(records: Sequence[Record]) -> list[Claim]:
    """Exponents of time and memory, those of the printed orders beside them."""
    exponents = _exponents(records)
    compared = exponents[exponents["time"] != ""]
    plain = compared[(compared["method"] == "MAP") & (compared["size"] == "B")]
    statements = []
    for cost in ("time", "memory"):
        gaps = (compared[f"our {cost}"] - compared[f"their {cost}"]).abs()
        of_plain = plain[f"our {cost}"].iloc[0] if len(plain) else nan
        statements.append(
            Claim(
                statement=f"The {cost} of a layer grows with its sizes as the printed orders say",
                published="orders such as K^2 + K L B",
                ours=(
                    f"exponents differ by {gaps.median():.2f} in the median, "
                    f"at most {gaps.max():.2f}"
                ),
                holds=(gaps < 0.25).sum(),
                of=len(gaps),
                condition=(
                    f"one layer on a CPU, a quarter allowed; the plain product, whose {cost} grows "
                    f"in proportion to B, has an exponent of {of_plain:.2f} there"
                ),
            )
        )
    return statements


def size_figure(records: Sequence[Record]) -> Figure:
    """Exponents of time and of memory, ours and those of the printed orders."""
    exponents = _exponents(records)
    exponents["method"] += ", " + exponents["size"]
    panels = {}
    for cost in ("time", "memory"):
        ours = _dots(exponents, f"our {cost}")
        theirs = _dots(exponents, f"their {cost}")
        panels[f"Exponent of {cost}"] = (ours, theirs)
    return ours_and_published(list(exponents["method"]), panels)


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
    "measured: {unmeasured}."
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
