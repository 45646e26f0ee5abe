"""What the layers of the course cost: a training step, and the KL of structured dropout by K."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.figure import Figure

from bdl_lessons.core import BLUE, GREY, VERMILLION
from bdl_lessons.core.plot_style import new_figure, style
from bdl_lessons.experiments import markdown
from bdl_lessons.experiments.experiment import Experiment, Trial, TrialResult
from bdl_lessons.experiments.records import Record
from bdl_lessons.experiments.timing import step_time, structured_kl_growth

LAYERS = {"without structure": step_time.INDEPENDENT, "structured": step_time.STRUCTURED}
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


def units(scale: str) -> list[Trial]:
    """The two groups of layers, then the KL. More repeats for ``"paper"``."""
    if scale == "quick":
        repeats, threads, sizes, widths = 2, 1, [64, 128], [12, 10, 4]
    else:
        repeats, threads = 40, 2
        sizes, widths = list(structured_kl_growth.SIZES), list(step_time.WIDTHS)
    steps = [
        {"measure": name, "n_repeats": repeats, "n_threads": threads, "widths": widths}
        for name in LAYERS
    ]
    growth = {"measure": GROWTH, "n_repeats": repeats, "sizes": sizes}
    return [Trial(config, seed=0) for config in (*steps, growth)]


def run(unit: Trial) -> TrialResult:
    """Metrics ``<network>/<column>`` of a training step; for the KL ``<K or slope>/<column>``."""
    config = unit.config
    if config["measure"] == GROWTH:
        rows = structured_kl_growth.measure(config["sizes"], config["n_repeats"])
    else:
        layers = LAYERS[config["measure"]]
        rows = step_time.compare(
            layers, config["n_repeats"], config["n_threads"], config["widths"], unit.seed
        )
    metrics = {}
    for row in rows:
        first, *columns = row
        metrics |= {f"{row[first]}/{name}": row[name] for name in columns}
    return TrialResult({name: value for name, value in metrics.items() if math.isfinite(value)})


def table(records: Sequence[Record]) -> str:
    """Steps with the aims beside them, then the growth of the KL."""
    parts = []
    for record in records:
        rows = _rows(record)
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
                f"A training step of {widths}, batch {step_time.BATCH_SIZE}, fused Adam, "
                f"{record['config']['n_threads']} threads, layers {record['config']['measure']}. "
                "All networks take turns; the median over repeats of the ratio to the plain "
                "network in the same repeat, with quartiles. `nn.Linear again` tells what the "
                "measurement can tell apart. The noise acts on the input of every layer, the "
                "pixels too. Adam moves every parameter, so twice as many cost twice as much."
            )
        parts += [text, markdown.table(head, lines)]
    return "\n\n".join(parts)


def figure(records: Sequence[Record]) -> Figure:
    """The ratios as bars, with the aims."""
    rows = {
        name: row
        for record in records
        if record["config"]["measure"] != GROWTH
        for name, row in _rows(record).items()
        if not name.startswith(step_time.PLAIN)
    }
    picture = new_figure(8.0, 0.9 + 0.26 * len(rows), layout="constrained")
    with style():
        ax = picture.subplots()
        places = range(len(rows))
        ax.barh(places, [row["ratio"] for row in rows.values()], color=BLUE, height=0.6)
        aims = [(AIMS[name], place) for place, name in enumerate(rows) if name in AIMS]
        if aims:
            ax.plot(*zip(*aims, strict=True), "|", color=VERMILLION, ms=12, mew=2, label="aim")
            ax.legend(loc="lower right")
        ax.axvline(1, color=GREY, lw=1)
        ax.set_yticks(places, rows)
        ax.invert_yaxis()
        ax.set_xlabel("time of a training step / network of plain layers")
    return picture


def _rows(record: Record) -> dict[str, dict[str, float]]:
    rows: dict[str, dict[str, float]] = {}
    for name, value in record["metrics"].items():
        row, _, column = name.rpartition("/")
        rows.setdefault(row, {})[column] = value
    return rows


EXPERIMENT = Experiment(
    "layer_cost",
    "What a layer costs: a training step, and the KL of structured dropout",
    units,
    run,
    table,
    figure,
)
