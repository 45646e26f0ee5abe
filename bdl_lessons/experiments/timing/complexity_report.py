"""How the cost of a layer is shown: fitted exponents beside those of the printed formulas."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from matplotlib.figure import Figure

from bdl_lessons.core import CYCLE, DASHES, GREY, INK, YELLOW
from bdl_lessons.core.plot_style import new_figure, style
from bdl_lessons.experiments import markdown, paper_tables
from bdl_lessons.experiments.records import Record

_NAMES = {
    "K": "inputs K",
    "L": "outputs L",
    "B": "images B",
    "s": "draws s",
    "r": "rank r (free vectors: their number)",
    "m": "pseudo-data m",
}


def slope(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """Of the least-squares line of log cost over log size."""
    x, y = (torch.tensor(v, dtype=torch.float64).log() for v in (sizes, costs))
    x = x - x.mean()
    return ((x * y).sum() / x.square().sum()).item()


def evaluate(formula: str, sizes: Mapping[str, int]) -> float:
    """A printed order such as ``"r^3 + (r+2) K L B"`` at given sizes, constants as printed.

    Raises:
        ValueError: if it has a size that is not given.
    """
    return sum(
        math.prod(_factor(factor, sizes) for factor in term.split())
        for term in formula.split(" + ")
    )


def table(records: Sequence[Record]) -> str:
    """For each method the exponents in each size, ours and the formula's, in time and memory."""
    formulas = {row["method"]: row for row in paper_tables.table("complexity_per_layer")}
    head = ["method", "printed time", "size", "exponent of time: measured", "formula"]
    head += ["printed memory", "exponent of memory: measured", "formula"]
    rows = []
    for record in records:
        method, sweeps = record["config"]["method"], record["config"]["sweeps"]
        row = formulas.get(method)
        for i, (name, values) in enumerate(sweeps.items()):
            sizes = [{**record["config"]["base"], name: value} for value in values]
            cells = [method if i == 0 else ""]
            for what in ("time", "memory"):
                printed = row[what] if row else ""
                expected = slope(values, [evaluate(printed, s) for s in sizes]) if row else None
                measured = _shown(record["metrics"][f"{name}/{what}_slope"])
                shown = "" if expected is None else _shown(expected)
                cells += [printed if i == 0 else "", measured, shown]
            cells.insert(2, name)
            rows.append(cells)
    base = ", ".join(f"{k} = {v}" for k, v in records[0]["config"]["base"].items())
    unmeasured = [m for m in formulas if m not in {r["config"]["method"] for r in records}]
    note = (
        f"Set-up: one linear layer on the CPU, forward pass, KL and backward pass; {base} but for "
        "the size that varies. A slope of log cost over log size; the formula's is taken over the "
        "same sizes, so that a sum of terms has the slope of the term that rules there. Constant "
        "costs (tenths of a millisecond a layer, most of it Python) pull measured slopes down; a "
        "matrix that outgrows the cache pushes them up. Time is processor "
        "time, the fastest of "
        f"{records[0]['config']['rounds']} rounds. Memory is what is there between forward and "
        "backward pass: the output, what autograd keeps, and the parameters other than the mean "
        "weights. The formula of BBB-LRT leaves out its K L variances, so its memory does not grow "
        "with K; here it does. VSD is the published chain of fully connected layers, T = 2, so "
        "each reflection reads K^2 weights; with free vectors there is no K^2 at all. Printed for "
        "low-rank VSD is a time of r K but a memory of K^2: K^2 numbers cannot be filled in r K "
        "steps, and ours does not need them. The r of ELRG multiplies K L B here as in the "
        "formula. Not measured: "
        f"{', '.join(unmeasured) or 'none'}."
    )
    return f"{markdown.table(head, rows)}\n\n{note}"


def figure(records: Sequence[Record]) -> Figure:
    """Milliseconds against each size, a panel for each size, both logarithmic."""
    names = [name for name in _NAMES if any(name in r["config"]["sweeps"] for r in records)]
    picture = new_figure(10.0, 6.0, layout="constrained")
    colours = (*CYCLE, INK, GREY, YELLOW)
    with style():
        axes = picture.subplots(2, 3, sharey=True)
        for ax, name in zip(axes.flat, names, strict=False):
            for k, record in enumerate(records):
                if name not in record["config"]["sweeps"]:
                    continue
                values = record["arrays"][f"{name}/values"]
                ms = [1000 * s for s in record["arrays"][f"{name}/seconds"]]
                look = {"color": colours[k % 9], "ls": DASHES[k % 6], "marker": "os^Dvx*P<"[k % 9]}
                ax.loglog(values, ms, ms=5, lw=1.3, label=record["config"]["method"], **look)
            ax.set_xlabel(_NAMES[name])
            ax.set_xticks(values, [f"{v:,}" for v in values])
            ax.xaxis.minorticks_off()
        for ax in axes[:, 0]:
            ax.set_ylabel("milliseconds")
        handles = axes[0, 0].get_legend_handles_labels()
        picture.legend(*handles, loc="outside lower center", ncols=5, fontsize=9)
    return picture


def _shown(slope: float) -> str:
    return f"{round(slope, 2) + 0.0:.2f}"  # no minus before a zero


def _factor(factor: str, sizes: Mapping[str, int]) -> float:
    if factor.startswith("("):
        return sum(_factor(part, sizes) for part in factor[1:-1].split("+"))
    base, _, power = factor.partition("^")
    if not base.isdigit() and base not in sizes:
        raise ValueError(f"formula has the size {base!r}, given are {', '.join(sizes)}")
    return (float(base) if base.isdigit() else sizes[base]) ** int(power or 1)
