"""How the cost of one layer grows with its sizes, beside the orders in a published table.

Nguyen et al. (NeurIPS 2021), Table 6: time and memory of a layer with K inputs and L outputs for B
images, with s draws of the weights, rank r or m pseudo-data. A straight line through log cost over
log size has the exponent as its slope; the same line through the printed formula, at the same
sizes, has the slope to compare with.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from bdl_lessons.experiments.experiment import Experiment, Trial, TrialResult
from bdl_lessons.experiments.posteriors.elrg import ELRG
from bdl_lessons.experiments.posteriors.vmg import VMG
from bdl_lessons.experiments.timing.complexity_report import figure, slope, table
from bdl_lessons.models import (
    BayesByBackprop,
    Deterministic,
    LayerFactory,
    Network,
    StochasticLayer,
    StructuredDropout,
    VariationalDropout,
    initialise,
)

BASE = {"K": 1024, "L": 128, "B": 64, "s": 1, "r": 2, "m": 8}
SWEEPS = {
    "K": [512, 1024, 2048, 4096],
    "L": [128, 256, 512, 1024],
    "B": [64, 128, 256, 512],
    "s": [1, 2, 4, 8, 16],
    "r": [2, 4, 8, 16, 32],
    "m": [8, 16, 32, 64, 128],
}
_QUICK = {name: [8, 16] for name in SWEEPS}
Sizes = Mapping[str, int]
FACTORIES: dict[str, Callable[[Sizes], LayerFactory]] = {
    "MAP": lambda size: Deterministic(),
    "VD": lambda size: VariationalDropout("A", "unit", kl_per="weight"),
    "BBB": lambda size: BayesByBackprop(),
    "BBB-LRT": lambda size: BayesByBackprop(),
    "VMG": lambda size: VMG(n_pseudo=size["m"]),
    "ELRG": lambda size: ELRG(rank=size["r"]),
    "VSD": lambda size: StructuredDropout(2, vectors="fc"),
    "VSD-low rank": lambda size: StructuredDropout(2, vectors="fc_lowrank", rank=size["r"]),
    "VSD, free vectors": lambda size: StructuredDropout(size["r"]),
}
"""``r`` is the rank of ELRG, of the maps of low-rank VSD, and the number of free vectors."""


def units(scale: str) -> list[Trial]:
    """One for each method."""
    sweeps, rounds = (_QUICK, 1) if scale == "quick" else (SWEEPS, 9)
    return [
        Trial(
            {"method": method, "base": BASE, "sweeps": _swept(method, sweeps), "rounds": rounds}, 0
        )
        for method in FACTORIES
    ]


def run(unit: Trial) -> TrialResult:
    """One layer at every size, forward, KL and backward; on the CPU.

    Arrays, for each size that is swept: ``<size>/values``, ``<size>/seconds`` (the fastest of the
    rounds, which take turns over the values) and ``<size>/bytes`` (the output, what is kept for the
    backward pass, and the parameters; not the input nor the mean weights). Metrics:
    ``<size>/time_slope`` and ``<size>/memory_slope``.
    """
    config, metrics, arrays = unit.config, {}, {}
    for name, values in config["sweeps"].items():
        sizes = [{**config["base"], name: value} for value in values]
        passes = [_forward(config["method"], size, unit.seed) for size in sizes]
        kept = [_bytes_held(one_pass) for one_pass in passes]
        rounds = [[_seconds(p) for p in passes] for _ in range(config["rounds"] + 1)]
        seconds = [min(times) for times in zip(*rounds[1:], strict=True)]
        arrays |= {f"{name}/values": values, f"{name}/seconds": seconds, f"{name}/bytes": kept}
        metrics[f"{name}/time_slope"] = slope(values, seconds)
        metrics[f"{name}/memory_slope"] = slope(values, kept)
    return TrialResult(metrics, arrays)


def _swept(method: str, sweeps: Mapping[str, list[int]]) -> dict[str, list[int]]:
    """What is varied: s where one draw serves a whole batch, r where there is one."""
    names = ["K", "L", "B"]
    names += ["s"] if method == "BBB" else []
    names += ["m"] if method == "VMG" else []
    names += ["r"] if method in ("ELRG", "VSD-low rank", "VSD, free vectors") else []
    return {name: sweeps[name] for name in names}


def _forward(method: str, size: Sizes, seed: int) -> _Pass:
    generator = torch.Generator().manual_seed(seed)
    layer = FACTORIES[method](size).linear(size["K"], size["L"])
    initialise(Network(layer), generator)
    x = torch.randn(size["s"], size["B"], size["K"], generator=generator).squeeze(0)
    return _Pass(
        layer, x.requires_grad_(), "shared" if method == "BBB" else "per_example", generator
    )


class _Pass:
    """A forward pass of a layer and its KL, to a number that can be differentiated."""

    def __init__(self, layer: StochasticLayer, x: Tensor, sampling: str, generator) -> None:
        self.layer, self.x, self.sampling, self.generator = layer, x, sampling, generator

    def output(self) -> Tensor:
        return self.layer(self.x, self.sampling, self.generator)

    def __call__(self) -> Tensor:
        return self.output().sum() + self.layer.kl()


def _seconds(one_pass: _Pass) -> float:
    """Of the processor, forward and backward."""
    began = time.process_time()
    one_pass().backward()
    took = time.process_time() - began
    one_pass.layer.zero_grad()
    one_pass.x.grad = None
    return took


def _bytes_held(one_pass: _Pass) -> int:
    """Size of the distinct tensors that are there between forward and backward pass."""
    layer = one_pass.layer
    own = {t.untyped_storage().data_ptr() for t in (layer.weight, layer.bias, one_pass.x)}
    held = list(layer.parameters())

    def pack(tensor: Tensor) -> Tensor:
        held.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        held += [one_pass.output(), layer.kl()]
    sizes = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in held}
    return sum(size for at, size in sizes.items() if at not in own)


EXPERIMENT = Experiment(
    "complexity",
    "Time and memory of one layer against its sizes (Nguyen et al. 2021, Table 6)",
    units,
    run,
    table,
    figure,
)
