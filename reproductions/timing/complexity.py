"""How the compute of one layer grows with its sizes, beside the orders in a published table.

Nguyen et al. (NeurIPS 2021), Table 6: time and memory of a layer with K inputs and L outputs for B
images, with s draws of the weights, rank r or m pseudo-data. A straight line through log time over
log size has the exponent as its slope; the same line through the printed formula, at the same
sizes, has the slope to compare with. Lesson 12.
"""

import re
import time
from collections.abc import Mapping, Sequence
from inspect import signature
from statistics import median

import numpy as np
import torch
from cycler import cycler
from matplotlib.figure import Figure
from torch import Tensor

from bdl_lessons.core import BLUE, CYCLE, DASHES, GREY, INK
from bdl_lessons.core.plot_style import new_figure
from bdl_lessons.datasets.records import Record
from bdl_lessons.models import Network, initialise
from reproductions import markdown, methods
from reproductions.experiment import Claim, Experiment, Trial, TrialResult
from reproductions.measure import interleaved_times
from reproductions.records import published_by

BASE = {"K": 1024, "L": 128, "B": 64, "s": 1, "r": 2, "m": 8}
_SIZES = {
    "K": ("inputs K", [512, 1024, 2048, 4096]),
    "L": ("outputs L", [128, 256, 512, 1024]),
    "B": ("images B", [64, 128, 256, 512]),
    "s": ("draws s", [1, 2, 4, 8, 16]),
    "r": ("rank r (free vectors: their number)", [2, 4, 8, 16, 32]),
    "m": ("pseudo-data m", [8, 16, 32, 64, 128]),
}
"""Letter of a size -> what it is, and the values that it takes."""
Sizes = Mapping[str, int]
METHODS = methods.tagged("complexity")
_SETTINGS = {"n_pseudo": "m", "rank": "r", "n_reflections": "r"}
"""Setting of a method -> the size that it is; ``r`` also counts the free vectors."""


def trials(scale: str) -> list[Trial]:
    """One for each method; s varies where one draw serves a batch, r and m as settings."""
    quick, found = scale == "quick", []
    for name, method in METHODS.items():
        settings = signature(method.factory).parameters
        varied = ["K", "L", "B", *(["s"] if "shared" in method.tags else [])]
        varied += [_SETTINGS[setting] for setting in _SETTINGS if setting in settings]
        sweeps = {size: [8, 16] if quick else _SIZES[size][1] for size in varied}
        config = {"method": name, "sweeps": sweeps, "base": BASE, "rounds": 1 if quick else 9}
        found.append(Trial(config, 0))
    return found


def run(trial: Trial) -> TrialResult:
    """One layer at every size, forward, KL and backward; on the CPU.

    Arrays, for each size that is swept: ``<size>/values``, ``<size>/seconds`` (the fastest of the
    rounds, which take turns over the values) and ``<size>/bytes`` (the output, what is kept for the
    backward pass, and the parameters; not the input nor the mean weights). Metrics:
    ``<size>/time_slope`` and ``<size>/memory_slope``.
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


def slope(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """Of the least-squares line of log time, or memory, over log size."""
    return float(np.polyfit(np.log(sizes), np.log(costs), 1)[0])


def evaluate(formula: str, sizes: Sizes) -> float:
    """A printed order such as ``"r^3 + (r+2) K L B"`` at given sizes, constants as printed."""
    product = re.sub(r"(?<=[\w)]) (?=[\w(])", " * ", formula.replace("^", "**"))
    return eval(product, {"__builtins__": {}}, dict(sizes))


def table(records: Sequence[Record]) -> str:
    """For each method the exponents in each size, ours and the formula's, in time and memory."""
    formulas = published_by("method", "complexity_per_layer")
    head = ["method", "printed time", "size", "exponent of time: measured", "formula"]
    head += ["printed memory", "exponent of memory: measured", "formula"]
    lines = []
    for record in records:
        method = record["config"]["method"]
        row = formulas.pop(method, {"time": "", "memory": ""})
        names = [method, row["time"], row["memory"]]
        both = [_exponents(record, what) for what in ("time", "memory")]
        for name in record["config"]["sweeps"]:
            of_time, of_memory = ([*map("{:z.2f}".format, found[name]), ""][:2] for found in both)
            lines.append([*names[:2], name, *of_time, names[2], *of_memory])
            names = ["", "", ""]
    config = records[0]["config"]
    base = ", ".join(f"{k} = {v}" for k, v in config["base"].items())
    note = _NOTE.format(
        base=base, rounds=config["rounds"], unmeasured=", ".join(formulas) or "none"
    )
    return f"{markdown.table(head, lines)}\n\n{note}"


def claims(records: Sequence[Record]) -> list[Claim]:
    """Exponents of time and memory, those of the printed orders beside them."""
    found = []
    for what in ("time", "memory"):
        pairs = [pair for record in records for pair in _exponents(record, what).values()]
        gaps = [abs(ours - printed[0]) for ours, *printed in pairs if printed]
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
    """Milliseconds against each size, a panel for each size, both logarithmic."""
    picture = new_figure(10.0, 6.0, layout="constrained")
    axes = picture.subplots(2, 3, sharey=True)
    looks = cycler(color=(*CYCLE, INK, GREY, BLUE)) + cycler(marker="os^Dvx*P<")
    looks += cycler(ls=(DASHES * 2)[:9])
    for ax, (name, (label, _)) in zip(axes.flat, _SIZES.items(), strict=True):
        for record, look in zip(records, looks(), strict=False):
            if name not in record["config"]["sweeps"]:
                continue
            values = record["arrays"][f"{name}/values"]
            ms = [1000 * s for s in record["arrays"][f"{name}/seconds"]]
            ax.loglog(values, ms, ms=5, lw=1.3, label=record["config"]["method"], **look)
            ax.set_xticks(values, [f"{v:,}" for v in values])
        ax.set_xlabel(label)
        ax.xaxis.minorticks_off()
    for ax in axes[:, 0]:
        ax.set_ylabel("milliseconds")
    handles = axes[0, 0].get_legend_handles_labels()
    picture.legend(*handles, loc="outside lower center", ncols=5, fontsize=9)
    return picture


def _exponents(record: Record, what: str) -> dict[str, list[float]]:
    """Size -> our exponent of time or memory, and that of the printed formula if there is one."""
    config, found = record["config"], {}
    row = published_by("method", "complexity_per_layer").get(config["method"])
    for name, values in config["sweeps"].items():
        found[name] = [record["metrics"][f"{name}/{what}_slope"]]
        if row:
            costs = [evaluate(row[what], {**config["base"], name: value}) for value in values]
            found[name].append(slope(values, costs))
    return found


class OnePass:
    """A forward pass of one layer and its KL, to a number that can be differentiated."""

    def __init__(self, method: str, size: Sizes, seed: int) -> None:
        self.sampling = "shared" if "shared" in METHODS[method].tags else "per_example"
        self.generator = torch.Generator().manual_seed(seed)
        settings = {name: size[letter] for name, letter in _SETTINGS.items()}
        self.layer = METHODS[method].layers(settings).linear(size["K"], size["L"])
        initialise(Network(self.layer), self.generator)
        shape = size["s"], size["B"], size["K"]
        self.x = torch.randn(shape, generator=self.generator).squeeze(0).requires_grad_()

    def output(self) -> Tensor:
        return self.layer(self.x, self.sampling, self.generator)

    def both_ways(self) -> None:
        """Forward and backward."""
        learned = [part for part in self.layer.parameters() if part.requires_grad]
        torch.autograd.grad(self.output().sum() + self.layer.kl(), [self.x, *learned])

    def bytes_held(self) -> int:
        """Size of the distinct tensors that are there between forward and backward pass."""
        layer = self.layer
        own = {t.untyped_storage().data_ptr() for t in (layer.weight, layer.bias, self.x)}
        held = list(layer.parameters())

        def pack(tensor: Tensor) -> Tensor:
            held.append(tensor)
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            held += [self.output(), layer.kl()]
        sizes = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in held}
        return sum(size for at, size in sizes.items() if at not in own)


_NOTE = (
    "Set-up: one linear layer on the CPU, forward pass, KL and backward pass; {base} but for the "
    "size that varies. A slope of log cost over log size; the formula's is taken over the same "
    "sizes, so that a sum of terms has the slope of the term that rules there. Constant times "
    "(tenths of a millisecond a layer, most of it Python) pull measured slopes down; a matrix that "
    "outgrows the cache pushes them up. Time is processor time, the fastest of {rounds} rounds. "
    "Memory is what is there between forward and backward pass: the output, what autograd keeps, "
    "and the parameters other than the mean weights. The formula of BBB-LRT leaves out its K L "
    "variances, so its memory does not grow with K; here it does. VSD is the published chain of "
    "fully connected layers, T = 2, so each reflection reads K^2 weights; with free vectors there "
    "is no K^2 at all. Printed for low-rank VSD is a time of r K but a memory of K^2: K^2 numbers "
    "cannot be filled in r K steps, and ours does not need them. The r of ELRG multiplies K L B "
    "here as in the formula. Not measured: {unmeasured}."
)
TITLE = "Time and memory of one layer against its sizes (Nguyen et al. 2021, Table 6)"
EXPERIMENT = Experiment("complexity", TITLE, trials, run, table, figure, claims, on_cpu=True)
