"""Time of a training step under each posterior, relative to a plain network.

Nguyen et al. (NeurIPS 2021), Table 7: time per epoch relative to MAP, for LeNet5, AlexNet and
ResNet18. Their batch size and hardware are not known. Lesson 12.

``python -m reproductions bench`` is the same for the layers of the course in one network; there is
no published table of it.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import median

import torch
from matplotlib.figure import Figure
from torch import Tensor
from torch.nn.functional import cross_entropy

from bdl_lessons.core import BLUE, GREY, clock, cpu_threads, device
from bdl_lessons.core.plot_style import new_figure
from bdl_lessons.datasets.records import Record, group_by
from bdl_lessons.inference import adam
from bdl_lessons.models import LayerFactory, Network, initialise, mlp
from reproductions import markdown, methods
from reproductions.experiment import Claim, Experiment, Trial, TrialResult
from reproductions.images.architectures import alexnet, lenet5_classic, resnet18
from reproductions.measure import interleaved_times
from reproductions.records import published_by

METHODS = methods.tagged("steps")
"""Every layer has the noise, the first too: what is compared is the time."""
NETWORKS: dict[str, Callable[[LayerFactory], Network]] = {
    "lenet5": partial(lenet5_classic, in_channels=3, size=32),
    "alexnet": alexnet,
    "resnet18": resnet18,
}
_TITLES = {"lenet5": "LeNet5", "alexnet": "AlexNet", "resnet18": "ResNet18"}
_SIZES = {  # batch size and rounds
    "cpu": {"lenet5": (128, 24), "alexnet": (32, 10), "resnet18": (16, 6)},
    "cuda": dict.fromkeys(NETWORKS, (128, 100)),
}


def trials(scale: str) -> list[Trial]:
    """One for each architecture and kind of device; those for a device that is absent fail."""
    sizes = {"cpu": {"lenet5": (2, 2)}} if scale == "quick" else _SIZES
    configs = [
        {"architecture": name, "device": kind, "batch_size": batch_size, "rounds": rounds}
        for kind, of_networks in sizes.items()
        for name, (batch_size, rounds) in of_networks.items()
    ]
    return [Trial({**config, "methods": list(METHODS)}, seed=0) for config in configs]


def run(trial: Trial) -> TrialResult:
    """Take steps with all methods in turn, round after round, on random 32 x 32 images.

    Metrics, for each method: ``ms/<method>``, the median milliseconds of a step, and
    ``ratio/<method>``, the median over rounds of its time by that of MAP in the same round.
    """
    config, on = trial.config, device(trial.config["device"])
    generator = torch.Generator(on).manual_seed(trial.seed)
    x = torch.randn(config["batch_size"], 3, 32, 32, generator=generator, device=on)
    y = torch.arange(config["batch_size"], device=on) % 10
    networks = {m: make_network(config["architecture"], m, generator) for m in config["methods"]}
    rows = step_times(networks, x, y, generator, config["rounds"], clock=partial(clock, on))
    return TrialResult(
        {f"{name}/{method}": row[name] for method, row in rows.items() for name in ("ms", "ratio")}
    )


def make_network(architecture: str, method: str, generator: torch.Generator) -> Network:
    """A network in training mode on the device of ``generator``, which draws its weights."""
    network = NETWORKS[architecture](METHODS[method].layers()).to(generator.device)
    return initialise(network, generator).train()


def step_times(
    networks: Mapping[str, Network],
    x: Tensor,
    y: Tensor,
    generator: torch.Generator,
    n_rounds: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, dict[str, float]]:
    """For each network ``ms``, the median milliseconds of a step, and ``ratio``.

    ``ratio`` is the median over rounds of the time of a step by that of the first network in the
    same round, so that a machine that gets slower disturbs it little.
    """
    steps = {name: training_step(network, x, y, generator) for name, network in networks.items()}
    seconds = interleaved_times(steps, n_rounds, warm_up=2, clock=clock)
    first = next(iter(seconds.values()))
    rows = {}
    for name, taken in seconds.items():
        ratios = [a / b for a, b in zip(taken, first, strict=True)]
        rows[name] = {"ms": 1e3 * median(taken), "ratio": median(ratios)}
    return rows


def training_step(
    network: Network, x: Tensor, y: Tensor, generator: torch.Generator
) -> Callable[[], None]:
    """A call that takes one step of fused Adam on the loss."""
    optimizer = adam(1e-3)(network.parameters())

    def step() -> None:
        loss = cross_entropy(network(x, "per_example", generator), y) + network.kl() / 50_000
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return step


def bench(widths: Sequence[int] = (784, 1200, 1200, 1200, 10), n_rounds: int = 40) -> str:
    """A training step of networks of all kinds of layers, relative to MAP: measured now."""
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(100, widths[0], generator=generator)
    y = torch.randint(widths[-1], (len(x),), generator=generator)
    timed = {"MAP": METHODS["MAP"], "MAP again": METHODS["MAP"], **methods.tagged("bench")}
    networks = {m: initialise(mlp(widths, timed[m].layers()), generator) for m in timed}
    with cpu_threads(2):
        measured = step_times(networks, x, y, generator, n_rounds)
    rows = [{"name": name, **row} for name, row in measured.items()]
    columns = {"method": "{name}", "ms": "{ms:.1f}", "ratio to MAP": "{ratio:.2f}"}
    return (
        f"A training step of {'-'.join(map(str, widths))}, batch {len(x)}, fused Adam, 2 threads. "
        "All networks take turns; the median over rounds of the ratio to MAP in the same round. "
        "`MAP again` tells what the measurement can tell apart. The noise acts on the input of "
        f"every layer, the pixels too.\n\n{markdown.table_of(rows, columns)}"
    )


def table(records: Sequence[Record]) -> str:
    """For each kind of device: milliseconds for MAP, ratios for the others, published beside."""
    printed, parts = published_by("method", "time_per_epoch_ratio"), []
    for here in group_by(records, "device").values():
        head, lines = ["method"], [["MAP, ms a step"], *([method] for method in list(METHODS)[1:])]
        for record in here:
            config, metrics = record["config"], record["metrics"]
            head += [
                f"{_TITLES[config['architecture']]}, batch {config['batch_size']}",
                "published",
            ]
            lines[0] += [f"{metrics['ms/MAP']:.1f}", ""]
            for line in lines[1:]:
                row = printed.get(_base(line[0]))
                theirs = f"{row[config['architecture']]:.2f}" if row else ""
                line += [f"{metrics[f'ratio/{line[0]}']:.2f}", theirs]
        parts += [f"Time of a training step relative to MAP, on {here[0]['device']}:"]
        parts += [markdown.table(head, lines)]
    missing = [method for method in printed if _base(method) not in map(_base, METHODS)]
    return "\n\n".join([*parts, _SET_UP.format(missing=", ".join(missing) or "nothing")])


def claims(records: Sequence[Record]) -> list[Claim]:
    """The order of four methods by the time of a step."""
    order = ("VD", "VSD T=1, fc", "VSD T=2, fc", "BBB-LRT", "MNF")
    ratios = [[record["metrics"][f"ratio/{method}"] for method in order] for record in records]
    told = "; ".join(" < ".join(f"{ratio:.2f}" for ratio in row) for row in ratios)
    names = (_TITLES[record["config"]["architecture"]] for record in records)
    return [
        Claim(
            "A step of VD is cheapest, then of VSD with T = 1, T = 2, BBB-LRT, MNF",
            "this order in every network",
            f"as multiples of MAP: {told}",
            sum(row == sorted(row) for row in ratios),
            len(ratios),
            f"{', '.join(names)} on {records[0]['device']}; Table 7",
        )
    ]


def figure(records: Sequence[Record]) -> Figure:
    """Ratios to MAP as bars, published ones as lines across them."""
    printed = published_by("method", "time_per_epoch_ratio")
    picture = new_figure(8.6, 3.4, layout="constrained")
    here = next(iter(group_by(records, "device").values()))
    names = list(METHODS)[1:]
    for ax, record in zip(picture.subplots(1, len(here), squeeze=False)[0], here, strict=True):
        architecture = record["config"]["architecture"]
        for i, method in enumerate(names):
            ax.barh(i, record["metrics"][f"ratio/{method}"], color=BLUE, height=0.62)
            if _base(method) in printed:
                x = printed[_base(method)][architecture]
                ax.plot([x, x], [i - 0.42, i + 0.42], color=GREY, ls="-", lw=3)
        ax.axvline(1, color="black", ls=":", lw=1)
        ax.set_yticks(range(len(names)), names if ax.get_subplotspec().is_first_col() else [])
        ax.invert_yaxis()
        ax.set_title(_TITLES[architecture])
        ax.margins(x=0.06)
    picture.supxlabel("time of a step, as a multiple of MAP's (grey: published)", fontsize=10)
    return picture


def _base(method: str) -> str:
    return method.removesuffix(", fc")


_SET_UP = (
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
    "ResNet18 are higher. Published but not measured here: {missing}."
)
TITLE = "Time of a training step under each method (Nguyen et al. 2021, Table 7)"
EXPERIMENT = Experiment("time_per_step", TITLE, trials, run, table, figure, claims)
