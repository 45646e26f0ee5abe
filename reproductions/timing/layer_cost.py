"""Compute of the layers of the course: a training step, and the KL of structured dropout by K.

A training step under every noise is timed against the same network of plain layers. The KL of
structured dropout is computed by the compact form and by a K x K matrix: time and memory.
"""

from __future__ import annotations

import json
import math
import random
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path
from statistics import linear_regression, median, quantiles

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.profiler import ProfilerActivity, profile

from bdl_lessons.core import BLUE, GREY, RED, markdown
from bdl_lessons.core.device import cpu_threads
from bdl_lessons.core.plot_style import new_figure, style
from bdl_lessons.inference import adam
from bdl_lessons.models import (
    ARD,
    BayesByBackprop,
    GaussianDropout,
    LayerFactory,
    Network,
    SparseVD,
    StructuredDropout,
    VariationalDropout,
    initialise,
    mlp,
)
from bdl_lessons.probability import empirical_bayes_kl, orthogonal_matrix, rotated_variance
from reproductions.experiment import Experiment, Trial, TrialResult
from reproductions.measure import interleaved_times
from reproductions.records import Record

WIDTHS, BATCH_SIZE, N_TRAIN = (784, 1200, 1200, 1200, 10), 100, 60_000
P_DROP = 0.5
INDEPENDENT: dict[str, LayerFactory] = {
    "Gaussian dropout A, alpha fixed": GaussianDropout(P_DROP, "A"),
    "Gaussian dropout B, alpha fixed": GaussianDropout(P_DROP, "B"),
    "variational dropout A, alpha per layer": VariationalDropout("A"),
    "variational dropout B, alpha per layer": VariationalDropout("B"),
    "variational dropout B, alpha per weight": VariationalDropout("B", "weight"),
    "Bayes by backprop, local reparameterization": BayesByBackprop(),
    "sparse variational dropout": SparseVD(),
    "automatic relevance determination": ARD(),
}
"""Independent noise on units or weights."""

STRUCTURED: dict[str, LayerFactory] = {
    "variational dropout A, alpha per unit": VariationalDropout("A", "unit"),
    "VSD, T = 0": StructuredDropout(0),
    "VSD, T = 1": StructuredDropout(1),
    "VSD, T = 2": StructuredDropout(2),
    "VSD, T = 5": StructuredDropout(5),
    "VSD, T = 2, fc_lowrank, rank 8": StructuredDropout(2, "fc_lowrank"),
    "VSD, T = 2, fc": StructuredDropout(2, "fc"),
}
"""Correlated noise: free vectors, and the chains of maps that were published."""

PLAIN = "nn.Linear"
LAYERS = {"without structure": INDEPENDENT, "structured": STRUCTURED}
GROWTH = "growth of the structured KL"
AIMS = {
    "Gaussian dropout A, alpha fixed": 1.2,
    "Bayes by backprop, local reparameterization": 2.3,
    "variational dropout B, alpha per weight": 2.6,
    "sparse variational dropout": 2.6,
    "automatic relevance determination": 2.6,
    "VSD, T = 2": 1.45,
}
"""The ratio to plain layers that each kind should not exceed on a CPU with two threads."""
SIZES = (256, 512, 1024, 2048, 4096, 8192, 16384)
LARGEST_MATRIX = 4096
T, N_COLUMNS = 2, 10


def trials(scale: str) -> list[Trial]:
    """The two groups of layers, then the KL. More repeats for ``"paper"``."""
    if scale == "quick":
        repeats, threads, sizes, widths = 2, 1, [64, 128], [12, 10, 4]
    else:
        repeats, threads = 40, 2
        sizes, widths = list(SIZES), list(WIDTHS)
    steps = [
        {"measure": name, "n_repeats": repeats, "n_threads": threads, "widths": widths}
        for name in LAYERS
    ]
    growth = {"measure": GROWTH, "n_repeats": repeats, "sizes": sizes}
    return [Trial(config, seed=0) for config in (*steps, growth)]


def run(trial: Trial) -> TrialResult:
    """Metrics ``<network>/<column>`` of a training step; for the KL ``<K or slope>/<column>``."""
    config = trial.config
    if config["measure"] == GROWTH:
        rows = measure_kl_growth(config["sizes"], config["n_repeats"])
    else:
        layers = LAYERS[config["measure"]]
        rows = compare_steps(
            layers, config["n_repeats"], config["n_threads"], config["widths"], trial.seed
        )
    metrics = {}
    for row in rows:
        first, *columns = row
        metrics |= {f"{row[first]}/{name}": row[name] for name in columns}
    return TrialResult(metrics)


def table(records: Sequence[Record]) -> str:
    """Steps with the aims beside them, then the growth of the KL."""
    parts = []
    for record in records:
        rows = _rows_of(record)
        if record["config"]["measure"] == GROWTH:
            columns = list(dict.fromkeys(name for row in rows.values() for name in row))
            head = ["K", *columns]
            lines = [
                [name, *(f"{row[c]:.2f}" if c in row else "–" for c in columns)]
                for name, row in rows.items()
            ]
            text = (
                "Value and gradients of the empirical-Bayes KL at T = 2 on one thread, by the "
                "compact form and by U itself. Peaks are what the allocator gave out, in units of "
                "4 K T bytes; the last row has the slopes on log K, for memory those of bytes."
            )
        else:
            head = ["network", "ms", "ratio to plain layers", "aim", "parameters"]
            lines = [
                [
                    name,
                    f"{row['ms']:.1f}",
                    f"{row['ratio']:.2f} ({row['low']:.2f} to {row['high']:.2f})",
                    f"≤ {AIMS[name]:g}" if name in AIMS else "",
                    f"{row['parameters']:,.0f}",
                ]
                for name, row in rows.items()
            ]
            widths = "-".join(map(str, record["config"]["widths"]))
            text = (
                f"A training step of {widths}, batch {BATCH_SIZE}, fused Adam, "
                f"{record['config']['n_threads']} threads, layers {record['config']['measure']}. "
                "All networks take turns; the median over repeats of the ratio to the plain "
                "network in the same repeat, with quartiles. `nn.Linear again` tells what the "
                "measurement can tell apart. The noise acts on the input of every layer, the "
                "pixels too. Adam moves every parameter, so twice as many take twice as long."
            )
        parts += [text, markdown.table(head, lines)]
    return "\n\n".join(parts)


def figure(records: Sequence[Record]) -> Figure:
    """The ratios as bars, with the aims."""
    rows = {
        name: row
        for record in records
        if record["config"]["measure"] != GROWTH
        for name, row in _rows_of(record).items()
        if not name.startswith(PLAIN)
    }
    picture = new_figure(8.0, 0.9 + 0.26 * len(rows), layout="constrained")
    with style():
        ax = picture.subplots()
        places = range(len(rows))
        ax.barh(places, [row["ratio"] for row in rows.values()], color=BLUE, height=0.6)
        aims = [(AIMS[name], place) for place, name in enumerate(rows) if name in AIMS]
        if aims:
            ax.plot(*zip(*aims, strict=True), "|", color=RED, ms=12, mew=2, label="aim")
            ax.legend(loc="lower right")
        ax.axvline(1, color=GREY, lw=1)
        ax.set_yticks(places, rows)
        ax.invert_yaxis()
        ax.set_xlabel("time of a training step / network of plain layers")
    return picture


def compare_steps(
    layers: dict[str, LayerFactory],
    n_repeats: int = 30,
    n_threads: int = 2,
    widths: Sequence[int] = WIDTHS,
    seed: int = 0,
) -> list[dict]:
    """Time one step of fused Adam on the sum of loss and KL, all candidates in one run.

    Each repeat takes every candidate once, in a random order. ``ratio`` is the median over repeats
    of the candidate's time over that of the plain network in the same repeat, ``low`` and ``high``
    are its quartiles; ``parameters`` counts those that Adam moves. ``nn.Linear again`` is a second
    plain network: how far its ratio is from 1 is what the measurement can tell apart.
    """
    with cpu_threads(n_threads):
        return _step_rows(*_time_steps(layers, n_repeats, widths, random.Random(seed)))


def training_step(
    network: nn.Module, x: Tensor, y: Tensor, generator: torch.Generator, n_train: int
) -> Callable[[], None]:
    """A call that takes one step of fused Adam on the loss: with its KL for a ``Network``."""
    optimizer = adam(1e-3)(network.parameters())

    def step() -> None:
        if isinstance(network, Network):
            output = network(x, "per_example", generator)
            loss = cross_entropy(output, y) + network.kl() / n_train
        else:
            loss = cross_entropy(network(x), y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return step


def measure_kl_growth(sizes: Sequence[int] = SIZES, n_repeats: int = 15) -> list[dict]:
    """Value and gradients of the KL for each K, on one thread.

    Times are medians, the two forms interleaved, so that a ratio means something on a machine with
    other work. Peaks are the most that was allocated at one time between start and end, as the
    allocator reports it to ``torch.profiler``; K T is 4 K T bytes. The last row has the slopes of
    the logarithms on log K: 1 is linear, 2 quadratic. Calls that take no time to compute still
    take time to make, which flattens the compact form's.
    """
    with cpu_threads(1):
        rows = [_kl_row(n_units, n_repeats) for n_units in sizes]
    return [*rows, _slopes(rows)]


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


def _time_steps(
    layers: dict[str, LayerFactory], n_repeats: int, widths: Sequence[int], order: random.Random
) -> tuple[dict[str, nn.Module], dict[str, list[float]]]:
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(BATCH_SIZE, widths[0], generator=generator)
    y = torch.randint(widths[-1], (BATCH_SIZE,), generator=generator)
    networks = {
        PLAIN: _plain(widths),
        f"{PLAIN} again": _plain(widths),
        "nn.Dropout": _plain(widths, nn.Dropout(P_DROP)),
    } | {name: initialise(mlp(widths, factory), generator) for name, factory in layers.items()}
    steps = {
        name: training_step(network, x, y, generator, N_TRAIN) for name, network in networks.items()
    }
    shuffled = partial(order.sample, k=len(steps))
    return networks, interleaved_times(steps, n_repeats, 2, lambda names: shuffled([*names]))


def _step_rows(networks: dict[str, nn.Module], seconds: dict[str, list[float]]) -> list[dict]:
    rows = []
    for name, own in seconds.items():
        ratios = [time / base for time, base in zip(own, seconds[PLAIN], strict=True)]
        low, middle, high = quantiles(ratios, n=4)
        moved = sum(p.numel() for p in networks[name].parameters() if p.requires_grad)
        row = {"network": name, "ms": 1e3 * median(own), "ratio": middle, "low": low, "high": high}
        rows.append(row | {"parameters": moved})
    return rows


def _plain(widths: Sequence[int], dropout: nn.Module | None = None) -> nn.Sequential:
    """A network as a reader would write it, with ``dropout`` before each linear layer."""
    modules: list[nn.Module] = []
    for n_in, n_out in pairwise(widths):
        modules += [dropout] if dropout else []
        modules += [nn.Linear(n_in, n_out), nn.ReLU()]
    return nn.Sequential(*modules[:-1])


def _kl_row(n_units: int, n_repeats: int) -> dict:
    generator = torch.Generator().manual_seed(0)
    log_alpha = torch.randn(n_units, generator=generator).sub(2).requires_grad_()
    vectors = torch.randn(T, n_units, generator=generator).requires_grad_()

    def call(kl: Callable[[Tensor, Tensor], Tensor]) -> None:
        torch.autograd.grad(kl(log_alpha, vectors), (log_alpha, vectors))

    candidates = {"compact": partial(call, compact)}
    if n_units <= LARGEST_MATRIX:
        candidates["matrix"] = partial(call, explicit)
    seconds = interleaved_times(candidates, n_repeats)
    peaks = {name: _peak_bytes(candidate) for name, candidate in candidates.items()}
    times = {f"{name}, ms": 1e3 * median(own) for name, own in seconds.items()}
    memory = {f"{name}, peak in K T": peak / (4 * n_units * T) for name, peak in peaks.items()}
    return {"K": n_units, **times, **memory}


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


def _slopes(rows: list[dict]) -> dict:
    slopes: dict = {"K": "slope on log K"}
    for column in list(rows[0])[1:]:
        known = [(row["K"], row[column]) for row in rows if column in row]
        n_units, values = zip(*known, strict=True)
        extra = 1 if column.endswith("K T") else 0  # from units of K T to bytes
        x, y = [math.log(n) for n in n_units], [math.log(value) for value in values]
        slopes[column] = linear_regression(x, y).slope + extra
    return slopes


TITLE = "What a layer costs: a training step, and the KL of structured dropout"
EXPERIMENT = Experiment("layer_cost", TITLE, trials, run, table, figure, on_cpu=True)
