"""Compute of the layers of the course: a training step against one of plain layers.

How the KL of structured dropout grows with K, by the compact form and by a K x K matrix, was
measured once, on an earlier form of the layer; its record is shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from matplotlib.figure import Figure
from torch import nn

from bdl_lessons.core import BLUE, GREY, RED
from bdl_lessons.core.devices import cpu_threads
from bdl_lessons.core.plot_style import new_figure, style
from bdl_lessons.datasets.records import Record
from bdl_lessons.models import initialise, mlp
from reproductions import markdown, methods
from reproductions.experiment import Experiment, Trial, TrialResult
from reproductions.timing.steps import step_times

BATCH_SIZE, P_DROP = 100, 0.5
PLAIN = "nn.Linear"
GROUPS = {
    "without structure": methods.tagged("independent"),
    "structured": methods.tagged("structured"),
}
AIMS = {
    "Gaussian dropout A, alpha fixed": 1.2,
    "Bayes by backprop, local reparameterization": 2.3,
    "variational dropout B, alpha per weight": 2.6,
    "sparse variational dropout": 2.6,
    "automatic relevance determination": 2.6,
    "VSD, T = 2": 1.45,
}
"""The ratio to plain layers that each kind should not exceed on a CPU with two threads."""
_GROWTH = {
    "measure": "growth of the structured KL",
    "n_repeats": 40,
    "sizes": [256, 512, 1024, 2048, 4096, 8192, 16384],
}


def trials(scale: str) -> list[Trial]:
    """The two groups of layers. More repeats for ``"paper"``."""
    steps = {"n_repeats": 40, "n_threads": 2, "widths": [784, 1200, 1200, 1200, 10]}
    if scale == "quick":
        steps = {"n_repeats": 2, "n_threads": 1, "widths": [12, 10, 4]}
    groups = [
        Trial({"measure": name, "layers": list(layers), **steps}, seed=0)
        for name, layers in GROUPS.items()
    ]
    return groups if scale == "quick" else [*groups, Trial(_GROWTH, seed=0, retired=True)]


def run(trial: Trial) -> TrialResult:
    """Take steps with all networks in turn; metrics ``<network>/<column>``.

    The columns are those of :func:`~reproductions.timing.steps.step_times`, and ``parameters``, the
    number that Adam moves. ``nn.Linear again`` is a second plain network: how far its ratio is from
    1 is what the measurement can tell apart.
    """
    config, generator = trial.config, torch.Generator().manual_seed(trial.seed)
    widths, group = config["widths"], GROUPS[config["measure"]]
    x = torch.rand(BATCH_SIZE, widths[0], generator=generator)
    y = torch.randint(widths[-1], (BATCH_SIZE,), generator=generator)
    networks: dict[str, nn.Module] = {
        PLAIN: _plain(widths),
        f"{PLAIN} again": _plain(widths),
        "nn.Dropout": _plain(widths, nn.Dropout(P_DROP)),
        **{n: initialise(mlp(widths, group[n].layers()), generator) for n in config["layers"]},
    }
    with cpu_threads(config["n_threads"]):
        rows = step_times(networks, x, y, generator, config["n_repeats"])
    for name, network in networks.items():
        rows[name]["parameters"] = sum(p.numel() for p in network.parameters() if p.requires_grad)
    return TrialResult(
        {f"{name}/{column}": row[column] for name, row in rows.items() for column in row}
    )


def table(records: Sequence[Record]) -> str:
    """Steps with the aims beside them, then the growth of the KL."""
    return "\n\n".join(
        _steps_table(record) if record["config"]["measure"] in GROUPS else _growth_table(record)
        for record in records
    )


def _steps_table(record: Record) -> str:
    config = record["config"]
    rows = [{"name": name, **row} for name, row in _rows_of(record).items()]
    columns = {
        "network": "{name}",
        "ms": "{ms:.1f}",
        "ratio to plain layers": "{ratio:.2f} ({low:.2f} to {high:.2f})",
        "aim": lambda row: f"≤ {AIMS[row['name']]:g}" if row["name"] in AIMS else "",
        "parameters": "{parameters:,.0f}",
    }
    return (
        f"A training step of {'-'.join(map(str, config['widths']))}, batch {BATCH_SIZE}, fused "
        f"Adam, {config['n_threads']} threads, layers {config['measure']}. All networks take "
        "turns; the median over repeats of the ratio to the plain network in the same repeat, with "
        "quartiles. `nn.Linear again` tells what the measurement can tell apart. The noise acts on "
        "the input of every layer, the pixels too. Adam moves every parameter, so twice as many "
        f"take twice as long.\n\n{markdown.table_of(rows, columns)}"
    )


def _growth_table(record: Record) -> str:
    rows = _rows_of(record)
    columns = [*next(iter(rows.values()))]
    lines = [
        [name, *(f"{row[c]:.2f}" if c in row else "–" for c in columns)]
        for name, row in rows.items()
    ]
    return (
        "Value and gradients of the empirical-Bayes KL at T = 2 on one thread, by the compact form "
        "and by U itself. Peaks are what the allocator gave out, in units of 4 K T bytes; the last "
        "row has the slopes on log K, for memory those of bytes."
        f"\n\n{markdown.table(['K', *columns], lines)}"
    )


def figure(records: Sequence[Record]) -> Figure:
    """The ratios as bars, with the aims."""
    ratios = {
        name: row["ratio"]
        for record in records
        if record["config"]["measure"] in GROUPS
        for name, row in _rows_of(record).items()
        if not name.startswith(PLAIN)
    }
    picture = new_figure(8.0, 0.9 + 0.26 * len(ratios), layout="constrained")
    with style():
        ax = picture.subplots()
        places = range(len(ratios))
        ax.barh(places, ratios.values(), color=BLUE, height=0.6)
        aims = [(AIMS[name], place) for place, name in enumerate(ratios) if name in AIMS]
        if aims:
            ax.plot(*zip(*aims, strict=True), "|", color=RED, ms=12, mew=2, label="aim")
            ax.legend(loc="lower right")
        ax.axvline(1, color=GREY, lw=1)
        ax.set_yticks(places, ratios)
        ax.invert_yaxis()
        ax.set_xlabel("time of a training step / network of plain layers")
    return picture


def _rows_of(record: Record) -> dict[str, dict[str, float]]:
    rows: dict[str, dict[str, float]] = {}
    for name, value in record["metrics"].items():
        row, _, column = name.rpartition("/")
        rows.setdefault(row, {})[column] = value
    return rows


def _plain(widths: Sequence[int], dropout: nn.Module | None = None) -> nn.Sequential:
    """A network as a reader would write it, with ``dropout`` before each linear layer."""
    modules: list[nn.Module] = []
    for n_in, n_out in pairwise(widths):
        modules += [dropout] if dropout else []
        modules += [nn.Linear(n_in, n_out), nn.ReLU()]
    return nn.Sequential(*modules[:-1])


TITLE = "What a layer costs: a training step, and the KL of structured dropout"
EXPERIMENT = Experiment("layer_cost", TITLE, trials, run, table, figure, on_cpu=True)
