"""Time of a training step under each posterior, relative to a plain network.

Nguyen et al. (NeurIPS 2021), Table 7: time per epoch relative to MAP, for LeNet5, AlexNet and
ResNet18. Their batch size and hardware are not known. Lesson 12.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from matplotlib.figure import Figure
from torch import Tensor

from bdl_lessons.core import BLUE, GREY, clock, device, markdown
from bdl_lessons.core.plot_style import new_figure, style
from bdl_lessons.models import (
    BayesByBackprop,
    BinaryDropout,
    Deterministic,
    LayerFactory,
    Network,
    StructuredDropout,
    VariationalDropout,
    alexnet,
    initialise,
    lenet5_classic,
)
from reproductions.experiment import Experiment, Trial, TrialResult, published_table
from reproductions.images.resnet import resnet18
from reproductions.measure import interleaved_times
from reproductions.posteriors.mnf import MNF
from reproductions.records import Record
from reproductions.timing.layer_cost import training_step

FACTORIES: dict[str, LayerFactory] = {
    "MAP": Deterministic(),
    "MCD": BinaryDropout(0.5),
    "VD": VariationalDropout("A", "unit", kl_per="weight"),
    "BBB-LRT": BayesByBackprop(),
    "MNF": MNF(),
    "VSD T=1": StructuredDropout(1),
    "VSD T=2": StructuredDropout(2),
    "VSD T=1, fc": StructuredDropout(1, vectors="fc"),
    "VSD T=2, fc": StructuredDropout(2, vectors="fc"),
}
"""Every layer has the noise, the first too: what is compared is the time."""
NETWORKS: dict[str, Callable[[LayerFactory], Network]] = {
    "lenet5": lambda layers: lenet5_classic(layers, in_channels=3, size=32),
    "alexnet": alexnet,
    "resnet18": resnet18,
}
_TITLES = {"lenet5": "LeNet5", "alexnet": "AlexNet", "resnet18": "ResNet18"}
_BATCH = {
    "cpu": {"lenet5": 128, "alexnet": 32, "resnet18": 16},
    "cuda": dict.fromkeys(NETWORKS, 128),
}
_ROUNDS = {
    "cpu": {"lenet5": 24, "alexnet": 10, "resnet18": 6},
    "cuda": dict.fromkeys(NETWORKS, 100),
}
_N_TRAIN = 50_000


def trials(scale: str) -> list[Trial]:
    """One for each architecture and kind of device; those for a device that is absent fail."""
    if scale == "quick":
        return [Trial({"architecture": "lenet5", "device": "cpu", "batch_size": 2, "rounds": 2}, 0)]
    found = []
    for kind in ("cpu", "cuda"):
        for name in NETWORKS:
            sizes = {"batch_size": _BATCH[kind][name], "rounds": _ROUNDS[kind][name]}
            found.append(Trial({"architecture": name, "device": kind, **sizes}, seed=0))
    return found


def run(trial: Trial) -> TrialResult:
    """Take steps with all methods in turn, round after round, on random 32 x 32 images.

    Metrics, for each method: ``ms/<method>``, the median milliseconds of a step, and
    ``ratio/<method>``, the median over rounds of its time by that of MAP in the same round.
    """
    config, on = trial.config, device(trial.config["device"])
    generator = torch.Generator(on).manual_seed(trial.seed)
    x = torch.randn(config["batch_size"], 3, 32, 32, generator=generator, device=on)
    y = torch.arange(config["batch_size"], device=on) % 10
    steps = {
        method: _stepper(NETWORKS[config["architecture"]](layers), x, y, generator)
        for method, layers in FACTORIES.items()
    }
    seconds = interleaved_times(steps, config["rounds"], warm_up=2, clock=partial(clock, on))
    metrics, plain = {}, torch.tensor(seconds["MAP"])
    for method, own in seconds.items():
        taken = torch.tensor(own)
        metrics[f"ms/{method}"] = 1000 * taken.median().item()
        metrics[f"ratio/{method}"] = (taken / plain).median().item()
    return TrialResult(metrics)


def table(records: Sequence[Record]) -> str:
    """For each kind of device: milliseconds for MAP, ratios for the others, published beside."""
    printed = {row["method"]: row for row in published_table("time_per_epoch_ratio")}
    parts = []
    for kind in dict.fromkeys(record["config"]["device"] for record in records):
        here = [r for r in records if r["config"]["device"] == kind]
        head, first = ["method"], ["MAP, ms a step"]
        rows = {method: [method] for method in list(FACTORIES)[1:]}
        for r in here:
            name, batch_size = r["config"]["architecture"], r["config"]["batch_size"]
            head += [f"{_TITLES[name]}, batch {batch_size}", "published"]
            first += [f"{r['metrics']['ms/MAP']:.1f}", ""]
            for method, cells in rows.items():
                cells += [f"{r['metrics'][f'ratio/{method}']:.2f}", _published(printed, method, r)]
        parts += [
            f"Time of a training step relative to MAP, on {here[0]['device']}:",
            markdown.table(head, [first, *rows.values()]),
        ]
    missing = [m for m in printed if _base(m) not in map(_base, FACTORIES)]
    parts.append(
        "Set-up: a step is a forward pass with a draw for every image, the KL, the backward pass "
        "and fused Adam; the methods take turns, a ratio is that of two neighbours in time, and "
        "the median over the rounds is shown. On a CPU it is processor time. Every layer has the "
        "noise, the first too. Published is the time of an epoch, loading included; data, batch "
        "size, optimiser and hardware are not known. Published VSD makes its vectors by a chain of "
        "fully connected layers: compare it with the rows `fc`; the other rows of VSD have free "
        "vectors, the same distributions for fewer numbers. In LeNet5, where the image is "
        "the largest array, learned noise on the pixels is expensive: it needs the gradient with "
        "respect to them, which a plain network never computes. What a method adds to each layer "
        "counts for little on a CPU, where the convolutions take the time, and for much on a GPU, "
        "where many small operations wait for each other: that may be why published ratios of "
        "ResNet18 are higher. Published but not measured here: "
        f"{', '.join(missing) or 'nothing'}."
    )
    return "\n\n".join(parts)


def figure(records: Sequence[Record]) -> Figure:
    """Ratios to MAP as bars, published ones as lines across them."""
    printed = {row["method"]: row for row in published_table("time_per_epoch_ratio")}
    picture = new_figure(8.6, 3.4, layout="constrained")
    first = records[0]["config"]["device"]
    here = [r for r in records if r["config"]["device"] == first]
    methods = list(FACTORIES)[1:]
    with style():
        for ax, record in zip(picture.subplots(1, len(here), squeeze=False)[0], here, strict=True):
            for i, method in enumerate(methods):
                ax.barh(i, record["metrics"][f"ratio/{method}"], color=BLUE, height=0.62)
                value = printed.get(_base(method))
                if value:
                    x = value[record["config"]["architecture"]]
                    ax.plot([x, x], [i - 0.42, i + 0.42], color=GREY, ls="-", lw=3)
            ax.axvline(1, color="black", ls=":", lw=1)
            ax.set_yticks(
                range(len(methods)), methods if ax.get_subplotspec().is_first_col() else []
            )
            ax.invert_yaxis()
            ax.set_title(_TITLES[record["config"]["architecture"]])
            ax.margins(x=0.06)
        picture.supxlabel("time of a step, as a multiple of MAP's (grey: published)", fontsize=10)
    return picture


def _stepper(
    network: Network, x: Tensor, y: Tensor, generator: torch.Generator
) -> Callable[[], None]:
    network = initialise(network.to(x.device), generator).train()
    return training_step(network, x, y, generator, _N_TRAIN)


def _base(method: str) -> str:
    return method.removesuffix(", fc")


def _published(printed: dict, method: str, record: Record) -> str:
    row = printed.get(_base(method))
    return f"{row[record['config']['architecture']]:.2f}" if row else ""


TITLE = "Time of a training step under each method (Nguyen et al. 2021, Table 7)"
EXPERIMENT = Experiment("time_per_step", TITLE, trials, run, table, figure)
