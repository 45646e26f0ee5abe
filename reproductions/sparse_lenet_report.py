"""How the records of the sparse LeNets are shown: beside the published table."""

from __future__ import annotations

import math
from statistics import mean

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bdl_lessons.core import BLUE, GREY, INK, RED, markdown
from bdl_lessons.core.plot_style import new_figure, style
from bdl_lessons.datasets.records import Record, published_table
from bdl_lessons.inference.prune import THRESHOLD

BINS = (-10.0, 12.0, 88)
"""First edge, last edge and number of the bins that count ``log_alpha``; the outer two are open."""

_VERDICTS = {
    (True, True): "as small and as good as the published sparse VD",
    (True, False): "as small as the published sparse VD, with a higher error",
    (False, True): "as good as the published sparse VD, with more weights",
    (False, False): "neither as small nor as good as the published sparse VD",
}
_RUN = ("network, method", "seeds")
_COLOURS = {"sparse VD": BLUE, "ARD": RED}
_MARKERS = {"LeNet-300-100": "o", "LeNet-5": "s"}


def table(records: list[Record]) -> str:
    """Errors and compression; what is as good as published; what pruning saves; the set-up.

    One line for each set-up; runs with other seeds are averaged.
    """
    groups = list(_set_ups(records).values())
    head = [*_RUN, "file (kB)", "dense (kB)", "ratio", "hidden units or channels left"]
    head += ["dense (ms)", "stored form (ms)", "shrunk (ms)"]
    parts = [
        error_table(records),
        "\n".join(_verdicts(groups)),
        "What is saved, with all mean weights stored in the same format as *dense*, and the time "
        "for 1000 images on the machine of the run:",
        markdown.table(head, [_saved(group) for group in groups]),
        _READING,
        _DIFFERENCES,
    ]
    return "\n\n".join(parts)


def error_table(records: list[Record]) -> str:
    """Errors, sparsities and compression: mean ± standard error over seeds; below: published."""
    head = [*_RUN, "test error (%)", "before pruning (%)", "weights removed in each layer (%)"]
    head += ["compression"]
    reference = map(_published_row, published_table("sparse_lenet"))
    return markdown.table(head, [*map(_row, _set_ups(records).values()), *reference])


def figure(records: list[Record]) -> Figure:
    """Error against compression; log alpha and kept pixels of LeNet-300-100."""
    picture = new_figure(10.0, 3.8, layout="constrained")
    with style():
        left, middle, right = picture.subplots(1, 3, width_ratios=(1.35, 1.2, 1))
        _compressions(left, records)
        shown = [r for r in records if r["config"]["network"] == "LeNet-300-100"] or records
        _log_alphas(middle, shown)
        _pixels(picture, right, shown[0])
    return picture


def _name(record: Record) -> str:
    config = record["config"]
    cut = "" if config.get("cut_at") is None else ", cut"
    return f"{config['network']}, {config['method']}{cut}"


def _set_ups(records: list[Record]) -> dict[str, list[Record]]:
    """The runs of each network and method, with or without the cut: one for each seed."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(_name(record), []).append(record)
    return groups


def _mean(group: list[Record], name: str) -> float:
    return mean(record["metrics"][name] for record in group)


def _run(group: list[Record]) -> list[str]:
    return [_name(group[0]), str(len(group))]


def _row(group: list[Record]) -> list[str]:
    def shown(name: str, digits: int) -> str:
        return markdown.mean_and_error([r["metrics"][name] for r in group], digits)

    counts = [(r["arrays"]["n_kept"], r["arrays"]["n_weights"]) for r in group]
    shares = [[100 * (1 - k / n) for k, n in zip(*run, strict=True)] for run in counts]
    return [
        *_run(group),
        shown("error", 2),
        "–" if "cut_at" in group[0]["config"] else shown("error_unpruned", 2),
        " − ".join(f"{mean(values):.1f}" for values in zip(*shares, strict=True)),
        shown("compression", 0),
    ]


def _published_row(row: dict) -> list[str]:
    values = [row[f"sparsity_{layer}_percent"] for layer in (1, 2, 3, 4)]
    return [
        f"*published:* {row['network and method']}",
        "",
        f"{row['error_percent']:.2f}",
        "",
        " − ".join(f"{value:g}" for value in values if not math.isnan(value)) or "–",
        f"{row['compression']:.0f}",
    ]


def _verdicts(groups: list[list[Record]]) -> list[str]:
    """For each of our lines whether it is as small and as good as the published sparse VD."""
    targets = {row["network and method"]: row for row in published_table("sparse_lenet")}
    lines = []
    for group in groups:
        name, n_seeds = _run(group)
        target = targets[f"{group[0]['config']['network']}, sparse VD"]
        small = _mean(group, "compression") >= target["compression"]
        good = _mean(group, "error") <= target["error_percent"]
        lines.append(
            f"- {name}, {n_seeds} seed{'s' * (n_seeds != '1')}: "
            f"{_VERDICTS[small, good]} ({target['compression']:.0f} times at "
            f"{target['error_percent']:.2f} %)."
        )
    return lines


def _saved(group: list[Record]) -> list[str]:
    pruned, dense = (_mean(group, f"bytes_{form}") for form in ("pruned", "dense"))
    n_hidden = zip(*(record["arrays"]["n_hidden"] for record in group), strict=True)
    cut = "cut_at" in group[0]["config"]
    return [
        *_run(group),
        f"{pruned / 1000:.1f}",
        "–" if cut else f"{dense / 1000:.0f}",
        "–" if cut else f"{dense / pruned:.0f}",
        " − ".join(f"{mean(units):.0f}" for units in n_hidden),
        *(f"{_mean(group, name):.2f}" for name in ("ms_dense", "ms_stored", "ms_shrunk")),
    ]


def _compressions(axes: Axes, records: list[Record]) -> None:
    for name, record in {_name(record): record for record in records}.items():
        same = [r["metrics"] for r in records if _name(r) == name]
        axes.plot(
            [m["compression"] for m in same],
            [m["error"] for m in same],
            _MARKERS[record["config"]["network"]],
            color=_COLOURS[record["config"]["method"]],
            fillstyle="full" if record["config"].get("cut_at") is None else "left",
            markerfacecoloralt=INK,
            label=name,
        )
    for row in published_table("sparse_lenet"):
        network, method = row["network and method"].split(", ")
        ours = method == "sparse VD"
        axes.plot(
            row["compression"],
            row["error_percent"],
            _MARKERS[network],
            mfc="none",
            color=_COLOURS[method] if ours else GREY,
            label=f"{network}, {method}, published" if ours else None,
        )
    axes.set(xscale="log", xlabel="compression (weights / kept weights)", ylabel="test error [%]")
    axes.set_title("Open: published (grey: other methods)")
    axes.legend(fontsize=7, ncols=2, loc="upper center", bbox_to_anchor=(0.45, -0.24))


def _log_alphas(axes: Axes, records: list[Record]) -> None:
    first, last, n_bins = BINS
    edges = torch.linspace(first, last, n_bins + 1)
    for record in {r["config"]["method"]: r for r in reversed(records)}.values():
        method = record["config"]["method"]
        axes.stairs(record["arrays"]["log_alpha"], edges, color=_COLOURS[method], label=method)
    axes.axvline(THRESHOLD, color=INK, ls="--", lw=1)
    axes.set(yscale="log", xlabel="log α (12: 12 or more)", ylabel="weights")
    axes.set_title(records[0]["config"]["network"])
    axes.legend(fontsize=8)


def _pixels(picture: Figure, axes: Axes, record: Record) -> None:
    axes.set(xticks=[], yticks=[])
    if "pixels" not in record["arrays"]:
        axes.axis("off")
        return
    image = axes.imshow(torch.tensor(record["arrays"]["pixels"]).view(28, 28).numpy())
    axes.set_title(f"Kept weights of each pixel\n({record['config']['method']})")
    axes.spines[:].set_visible(False)
    picture.colorbar(image, ax=axes, shrink=0.8)


_READING = """\
Means over the seeds, with ± one standard error where there are several. Compression counts weights
as the papers do: all of them over those with log α below 3; no biases, no positions. On disk a kept
weight needs its position too. Training with the cut leaves many means at exactly 0, which the file
leaves out even where nothing is pruned: there is nothing dense to compare with. *Stored form* puts
the zeros back at every call, so it is never faster than the dense product. *Shrunk* is the dense
network that is left when hidden units without incoming or outgoing weights are taken out: the same
function."""

_DIFFERENCES = """\
Set-up, after the authors' code: Adam, 100 images a step, learning rate 0.001 falling in a line to 0
(over the second half for LeNet-300-100, over all of it for LeNet-5), the KL at weight 0 for the
first 5 of 200 epochs and at 1 from the 20th, log σ² from −10, means from N(0, 0.01²), bytes divided
by 256, no augmentation, ReLU after the convolutions of LeNet-5. All start from random weights. The
script of LeNet-5 can load trained ones instead, but an author says that the published run had
neither these nor the warm-up of the KL (issue 11 of their repository). What else differs: log α has
no bounds, where theirs are ±8; the sigmoid in the KL has the paper's constants. Only in lines with
*cut* does a weight train with its mean taken as 0 once its log α passes 3, as in the authors' code.
ARD is not in the published table: its lines are the same runs with the other KL."""
