"""Compute of the layers of the course: a training step, and the KL of structured dropout by K.

A training step under every noise is timed against the same network of plain layers. The KL of
structured dropout is computed by the compact form and by a K x K matrix: time and memory.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path
from statistics import median
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

from bdl_lessons.core import BLUE, GREY, RED, markdown
from bdl_lessons.core.devices import cpu_threads
from bdl_lessons.core.plot_style import new_figure, style
from bdl_lessons.datasets.records import Record
from bdl_lessons.models import initialise, mlp
from bdl_lessons.probability import empirical_bayes_kl, orthogonal_matrix, rotated_variance
from reproductions import methods
from reproductions.experiment import Experiment, Trial, TrialResult
from reproductions.measure import interleaved_times
from reproductions.tables import table_of
from reproductions.timing.complexity import slope
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
GROWTH = "growth of the structured KL"
SIZES = [256, 512, 1024, 2048, 4096, 8192, 16384]
LARGEST_MATRIX = 4096
T, N_COLUMNS = 2, 10


def trials(scale: str) -> list[Trial]:
    """The two groups of layers, then the KL. More repeats for ``"paper"``."""
    steps, sizes = {"n_repeats": 40, "n_threads": 2, "widths": [784, 1200, 1200, 1200, 10]}, SIZES
    if scale == "quick":
        steps, sizes = {"n_repeats": 2, "n_threads": 1, "widths": [12, 10, 4]}, [64, 128]
    groups = [{"measure": name, "layers": list(layers), **steps} for name, layers in GROUPS.items()]
    growth = {"measure": GROWTH, "n_repeats": steps["n_repeats"], "sizes": sizes}
    return [Trial(config, seed=0) for config in (*groups, growth)]


def run(trial: Trial) -> TrialResult:
    """Metrics ``<network>/<column>`` of a training step; for the KL ``<K or slope>/<column>``."""
    measure = _kl_growth if trial.config["measure"] == GROWTH else _training_steps
    with cpu_threads(trial.config.get("n_threads", 1)):
        rows = measure(trial.config, trial.seed)
    return TrialResult(
        {f"{name}/{column}": row[column] for name, row in rows.items() for column in row}
    )


def table(records: Sequence[Record]) -> str:
    """Steps with the aims beside them, then the growth of the KL."""
    return "\n\n".join(
        _growth_table(record) if record["config"]["measure"] == GROWTH else _steps_table(record)
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
        f"take twice as long.\n\n{table_of(rows, columns)}"
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
        if record["config"]["measure"] != GROWTH
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


def compact(log_alpha: Tensor, vectors: Tensor) -> Tensor:
    """The KL as a layer computes it."""
    return empirical_bayes_kl(log_alpha, rotated_variance(log_alpha.exp(), vectors), N_COLUMNS)


def explicit(log_alpha: Tensor, vectors: Tensor) -> Tensor:
    """The same number from U itself."""
    noise_var = orthogonal_matrix(vectors).square() @ log_alpha.exp()
    return empirical_bayes_kl(log_alpha, noise_var, N_COLUMNS)


def _rows_of(record: Record) -> dict[str, dict[str, float]]:
    rows: dict[str, dict[str, float]] = {}
    for name, value in record["metrics"].items():
        row, _, column = name.rpartition("/")
        rows.setdefault(row, {})[column] = value
    return rows


def _training_steps(config: Mapping[str, Any], seed: int) -> dict[str, dict[str, float]]:
    """Times of a step, in a random order within each repeat, and the parameters Adam moves.

    ``nn.Linear again`` is a second plain network: how far its ratio is from 1 is what the
    measurement can tell apart.
    """
    widths, generator = config["widths"], torch.Generator().manual_seed(seed)
    x = torch.rand(BATCH_SIZE, widths[0], generator=generator)
    y = torch.randint(widths[-1], (BATCH_SIZE,), generator=generator)
    group = GROUPS[config["measure"]]
    networks: dict[str, nn.Module] = {
        PLAIN: _plain(widths),
        f"{PLAIN} again": _plain(widths),
        "nn.Dropout": _plain(widths, nn.Dropout(P_DROP)),
        **{n: initialise(mlp(widths, group[n].layers()), generator) for n in config["layers"]},
    }
    order = partial(random.Random(seed).sample, k=len(networks))
    rows = step_times(networks, x, y, generator, config["n_repeats"], lambda names: order([*names]))
    return {
        name: row | {"parameters": sum(p.numel() for p in network.parameters() if p.requires_grad)}
        for (name, row), network in zip(rows.items(), networks.values(), strict=True)
    }


def _plain(widths: Sequence[int], dropout: nn.Module | None = None) -> nn.Sequential:
    """A network as a reader would write it, with ``dropout`` before each linear layer."""
    modules: list[nn.Module] = []
    for n_in, n_out in pairwise(widths):
        modules += [dropout] if dropout else []
        modules += [nn.Linear(n_in, n_out), nn.ReLU()]
    return nn.Sequential(*modules[:-1])


def _kl_growth(config: Mapping[str, Any], seed: int) -> dict[str, dict[str, float]]:
    """Value and gradients of the KL for each K, on one thread.

    Times are medians, the two forms interleaved. Peaks are the most that was allocated at one time
    between start and end; K T is 4 K T bytes. The last row has the slopes of the logarithms on
    log K, for memory those of bytes: 1 is linear, 2 quadratic. Calls that take no time to compute
    still take time to make, which flattens the compact form's.
    """
    rows = {n_units: _kl_row(n_units, config["n_repeats"], seed) for n_units in config["sizes"]}
    slopes = {}
    for column in rows[config["sizes"][0]]:
        known = {n_units: row[column] for n_units, row in rows.items() if column in row}
        slopes[column] = slope([*known], [*known.values()]) + column.endswith("K T")
    return {str(n_units): row for n_units, row in rows.items()} | {"slope on log K": slopes}


def _kl_row(n_units: int, n_repeats: int, seed: int) -> dict[str, float]:
    generator = torch.Generator().manual_seed(seed)
    log_alpha = torch.randn(n_units, generator=generator).sub(2).requires_grad_()
    vectors = torch.randn(T, n_units, generator=generator).requires_grad_()

    def call(kl: Callable[[Tensor, Tensor], Tensor]) -> None:
        torch.autograd.grad(kl(log_alpha, vectors), (log_alpha, vectors))

    forms = {"compact": partial(call, compact)}
    if n_units <= LARGEST_MATRIX:
        forms["matrix"] = partial(call, explicit)
    times = interleaved_times(forms, n_repeats)
    milliseconds = {f"{name}, ms": 1e3 * median(taken) for name, taken in times.items()}
    unit = 4 * n_units * T
    return milliseconds | {
        f"{name}, peak in K T": _peak_bytes(form) / unit for name, form in forms.items()
    }


def _peak_bytes(call: Callable[[], None]) -> int:
    """The largest sum of what the CPU allocator gave out and took back during ``call``."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        call()
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(trace))
        events = json.loads(trace.read_text())["traceEvents"]
    steps = [(e["ts"], e["args"]["Bytes"]) for e in events if e.get("name") == "[memory]"]
    return max(accumulate(n_bytes for _, n_bytes in sorted(steps, key=lambda step: step[0])))


TITLE = "What a layer costs: a training step, and the KL of structured dropout"
EXPERIMENT = Experiment("layer_cost", TITLE, trials, run, table, figure, on_cpu=True)
