"""How the compute of one layer grows with its sizes, beside the orders in a published table.

Nguyen et al. (NeurIPS 2021), Table 6: time and memory of a layer with K inputs and L outputs for B
images, with s draws of the weights, rank r or m pseudo-data. The slope of log cost over log size is
compared with that of the printed formula at the same sizes. Lesson 12.
"""

import re
import time
from collections.abc import Mapping, Sequence
from inspect import signature
from math import nan
from statistics import median
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from bdl_lessons.datasets.records import Record
from bdl_lessons.models import Network, initialise
from reproductions import markdown, methods
from reproductions.experiment import Claim, Experiment, Trial, TrialResult
from reproductions.figures import ours_and_published
from reproductions.measure import interleaved_times
from reproductions.records import published_by

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
METHODS = methods.tagged("complexity")
_SETTINGS = {"n_pseudo": "m", "rank": "r", "n_reflections": "r"}
"""Setting of a method -> the size that it is."""


def trials(scale: str) -> list[Trial]:
    """One for each method; s varies where one draw serves a batch, r and m as settings."""
    quick, found = scale == "quick", []
    for name, method in METHODS.items():
        settings = signature(method.factory).parameters
        varied = ["K", "L", "B", *(["s"] if "shared" in method.tags else [])]
        varied += [_SETTINGS[setting] for setting in _SETTINGS if setting in settings]
        sweeps = {size: [8, 16] if quick else _SIZES[size] for size in varied}
        config = {"method": name, "sweeps": sweeps, "base": BASE, "rounds": 1 if quick else 9}
        found.append(Trial(config, 0))
    return found


def run(trial: Trial) -> TrialResult:
    """One layer at every size, forward, KL and backward; on the CPU.

    Arrays, for each size that is swept: ``<size>/values``, ``<size>/seconds`` (the fastest of the
    rounds, which take turns over the values) and ``<size>/bytes``. Metrics: ``<size>/time_slope``
    and ``<size>/memory_slope``.
    """
    config, metrics, arrays = trial.config, {}, {}
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
        self.sampling = "shared" if "shared" in METHODS[method].tags else "per_example"
        self.generator = torch.Generator().manual_seed(seed)
        settings = {name: size[letter] for name, letter in _SETTINGS.items()}
        self.layer = METHODS[method].layers(settings).linear(size["K"], size["L"])
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
        own = {t.untyped_storage().data_ptr() for t in (self.layer.weight, self.layer.bias, self.x)}
        held = list(self.layer.parameters())

        def pack(tensor: Tensor) -> Tensor:
            held.append(tensor)
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            held += self.forward()
        sizes = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in held}
        return sum(size for at, size in sizes.items() if at not in own)


def slope(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """Of the least-squares line of log time, or memory, over log size."""
    return float(np.polyfit(np.log(sizes), np.log(costs), 1)[0])


def evaluate(formula: str, sizes: Mapping[str, int]) -> float:
    """A printed order such as ``"r^3 + (r+2) K L B"`` at given sizes, constants as printed."""
    product = re.sub(r"(?<=[\w)]) (?=[\w(])", " * ", formula.replace("^", "**"))
    return eval(product, {"__builtins__": {}}, dict(sizes))


def _exponents(records: Sequence[Record]) -> list[dict[str, Any]]:
    """A row for each method and size: ours, the printed orders and their exponents, if any."""
    printed, rows = published_by("method", "complexity_per_layer"), []
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


def table(records: Sequence[Record]) -> str:
    """For each method the exponents in each size, ours and the formula's, in time and memory."""
    columns = {"method": "{method}", "size": "{size}"}
    for what in ("time", "memory"):
        columns[f"printed {what}"] = f"{{{what}}}"
        columns[f"exponent of {what}: measured"] = f"{{our {what}:z.2f}}"
        columns[f"of the printed {what}"] = f"{{their {what}:z.2f}}"
    config, measured = records[0]["config"], {record["config"]["method"] for record in records}
    unmeasured = [m for m in published_by("method", "complexity_per_layer") if m not in measured]
    base = ", ".join(f"{k} = {v}" for k, v in config["base"].items())
    note = _NOTE.format(base=base, rounds=config["rounds"], left=markdown.listed(unmeasured))
    return f"{markdown.table_of(_exponents(records), columns)}\n\n{note}"


def claims(records: Sequence[Record]) -> list[Claim]:
    """Exponents of time and memory, those of the printed orders beside them."""
    found, rows = [], [row for row in _exponents(records) if row["time"]]
    for what in ("time", "memory"):
        gaps = [abs(row[f"our {what}"] - row[f"their {what}"]) for row in rows]
        found.append(
            Claim(
                f"The {what} of a layer grows with its sizes as the printed orders say",
                "orders such as K^2 + K L B",
                f"exponents differ by {median(gaps):.2f} in the median, at most {max(gaps):.2f}",
                sum(gap < 0.25 for gap in gaps),
                len(gaps),
                "one layer on a CPU, sizes up to some thousand; a quarter allowed; Table 6",
            )
        )
    return found


def figure(records: Sequence[Record]) -> Figure:
    """Exponents of time and of memory, ours and those of the printed orders."""
    panels, rows = {}, {f"{row['method']}, {row['size']}": row for row in _exponents(records)}
    for what in ("time", "memory"):
        both = (f"our {what}", f"their {what}")
        dots = [[(name, row[key], 0) for name, row in rows.items()] for key in both]
        panels[f"Exponent of {what}"] = tuple(dots)
    return ours_and_published([*rows], panels)


_NOTE = (
    "Set-up: one linear layer on the CPU, forward pass, KL and backward pass; {base} but for the "
    "size that varies (r is also the number of free vectors). An exponent is the slope of log cost"
    " over log size, the formula's over the same sizes. Constant times (tenths of a millisecond a "
    "layer, most of it Python) pull measured slopes down; a matrix that outgrows the cache pushes "
    "them up. Time is processor time, the fastest of {rounds} rounds. Memory is what is there "
    "between forward and backward pass: the output, what autograd keeps, and the parameters other "
    "than the mean weights. The formula of BBB-LRT leaves out its K L variances. VSD is the "
    "published chain of fully connected layers, T = 2, whose reflections read K^2 weights; free "
    "vectors have no K^2. Printed for low-rank VSD is a time of r K but a memory of K^2: K^2 "
    "numbers cannot be filled in r K steps, and ours does not need them. Not measured: {left}."
)
TITLE = "Time and memory of one layer against its sizes (Nguyen et al. 2021, Table 6)"
EXPERIMENT = Experiment("complexity", TITLE, trials, run, table, figure, claims, on_cpu=True)
