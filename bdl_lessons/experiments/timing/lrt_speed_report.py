"""How the timings are shown: seconds an epoch and memory, beside the published seconds."""

from __future__ import annotations

from matplotlib.figure import Figure

from bdl_lessons.core import CYCLE, INK
from bdl_lessons.core.plot_style import new_figure, style
from bdl_lessons.experiments import markdown, paper_tables
from bdl_lessons.experiments.gradient_variance_report import ROWS
from bdl_lessons.experiments.records import Record


def published_seconds() -> dict[str, float]:
    """Row of the published table -> seconds an epoch."""
    rows = paper_tables.table("lrt_seconds_per_epoch")
    return {row["estimator"]: row["seconds_per_epoch"] for row in rows}


def by_estimator(records: list[Record]) -> dict[str, Record]:
    """Row of the published table -> our record."""
    return {ROWS[record["config"]["estimator"]]: record for record in records}


def table(records: list[Record]) -> str:
    """:func:`seconds_table`, and what differs."""
    return "\n\n".join([seconds_table(records), _differences(records[0]["config"])])


def seconds_table(records: list[Record]) -> str:
    """Seconds and their ratio to local reparameterization, beside the published ones; memory."""
    own, printed = by_estimator(records), published_seconds()
    rows = []
    local, local_printed = own.get(ROWS["local"]), printed[ROWS["local"]]
    for name, record in own.items():
        config, seconds = record["config"], record["metrics"]["seconds_per_epoch"]
        ratio = f"{seconds / local['metrics']['seconds_per_epoch']:.3g}" if local else "-"
        theirs = printed.get(name)
        cells = [name, f"{seconds:,.1f}", ratio]
        cells += [f"{theirs:g}", f"{theirs / local_printed:.3g}"] if theirs else ["-", "-"]
        cells += [f"{record['metrics']['peak_mib']:.0f}", str(config["rows_at_once"])]
        rows.append([*cells, str(config["timed_batches"])])
    head = ["estimator", "seconds an epoch", "times local", "published seconds", "times local"]
    head += ["peak memory (MiB)", "rows at once", "batches timed"]
    return markdown.table(head, rows)


def figure(records: list[Record]) -> Figure:
    """Seconds an epoch and memory as bars on a log axis."""
    own, printed = by_estimator(records), published_seconds()
    names = list(own)
    picture = new_figure(7.2, 2.4, layout="constrained")
    with style():
        left, right = picture.subplots(1, 2, sharey=True)
        panels = [(left, "seconds_per_epoch", "seconds an epoch"), (right, "peak_mib", "MiB")]
        for ax, metric, label in panels:
            values = [own[name]["metrics"][metric] for name in names]
            for row, value in enumerate(values):
                ax.plot(value, row, "s", ms=8, color=CYCLE[row])
            ax.set(xscale="log", xlabel=label, yticks=range(len(names)), yticklabels=names)
            ax.set_xlim(min(values) / 5, max(values) * 5)
        for name, seconds in printed.items():
            if name in names:
                left.plot(seconds, names.index(name), "o", ms=11, mfc="none", color=INK)
        left.set_title("Time (rings: published)")
        right.set_title("Peak memory of training")
        left.set_ylim(len(names) - 0.5, -0.5)
    return picture


def _differences(config: dict) -> str:
    n_batches = config["n_train"] // config["batch_size"]
    return (
        f"Ours: three hidden layers of {config['width']} units, batches of "
        f"{config['batch_size']}, the gradient of likelihood and KL and an Adam step. Seconds of "
        f"an epoch are the median of the timed batches times {n_batches}, not a whole epoch; on a "
        "CPU they are processor time. Each estimator runs in a process of its own; memory is the "
        "process's highest, less what it held before the first step. A weight sample per data "
        "point needs memory in proportion to the rows at once: its minibatch is taken in pieces "
        "and the gradients are added. Published: Theano on a GPU of 2015, and a network whose "
        "width we do not know."
    )
