"""Molchanov, Ashukha and Vetrov (2017), LeNets on MNIST: how many weights can go.

LeNet-300-100 and LeNet-5 are trained by sparse variational dropout, and by ARD in its place, with
the schedule of the authors' code. Then every weight with ``log_alpha > 3`` is removed. In half of
the trials such a weight trains with a mean of 0 already, as it does in that code (``threshold``,
which the records call ``cut_at``). Lesson 08.
"""

import io
from collections.abc import Iterable
from copy import deepcopy
from functools import partial
from itertools import pairwise
from math import inf, isnan
from statistics import mean, median
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from bdl_lessons.core import GREY, INK, seeded
from bdl_lessons.core.plot_style import new_figure
from bdl_lessons.datasets.records import Record, group_by, published_table, where
from bdl_lessons.evaluation import error_percent
from bdl_lessons.inference import PrunedNetwork, prune, sparsity, to_sparse, zero_pruned
from bdl_lessons.models import ARD, Method, Network, SparseVD, mlp
from bdl_lessons.probability import kl_warmup
from reproductions import markdown
from reproductions.checkpoint import Checkpoint
from reproductions.datasets import CAFFE_SCALE
from reproductions.experiment import Claim, Experiment, Trial, TrialResult
from reproductions.images.architectures import lenet5
from reproductions.measure import ALL_OF_MNIST, digits, interleaved_times, mean_weights, train_by
from reproductions.records import metric, published_by

BINS = (-10.0, 12.0, 88)
"""First edge, last edge and number of the bins that count ``log_alpha``; the outer two are open."""

_MARKERS = {"LeNet-300-100": "o", "LeNet-5": "s"}
METHODS: dict[str, Method] = {"sparse VD": SparseVD, "ARD": ARD}
PUBLISHED_EPOCHS = 200

_PAPER = {**ALL_OF_MNIST, "batch_size": 100, "learning_rate": 1e-3}
_PAPER |= {"init_std": 0.01, "init_log_sigma2": -10.0}
_QUICK = {**_PAPER, "n_train": 200, "n_test": 50, "n_epochs": 2}


def trials(scale: str) -> list[Trial]:
    """Both networks, methods and ways to train; three seeds of the smaller network.

    LeNet-5, of which a run takes hours without a GPU, has ARD only with the cut.
    """
    if scale == "quick":
        return [
            Trial({**_QUICK, "network": "LeNet-300-100", "method": "sparse VD"}, seed=0),
            Trial({**_QUICK, "network": "LeNet-5", "method": "ARD", "n_epochs": 1}, seed=0),
        ]
    paper = {**_PAPER, "n_epochs": PUBLISHED_EPOCHS}
    runs = [("LeNet-300-100", 0), ("LeNet-300-100", 1), ("LeNet-300-100", 2), ("LeNet-5", 0)]
    return [
        Trial({**paper, "network": network, "method": method, **cut}, seed)
        for network, seed in runs
        for cut in ({}, {"cut_at": prune.THRESHOLD})
        for method in METHODS
        if (network, method, cut) != ("LeNet-5", "ARD", {})
    ]


def run(trial: Trial) -> TrialResult:
    """Train, prune, store and time one network.

    Metrics: ``error`` of the mean weights after and before pruning, in percent; ``compression``;
    ``bytes`` pruned, and with nothing pruned; median times for the first 1000 test images by dense
    products, by the stored form and by the network of :func:`remove_dead_units`. Arrays: weights
    and kept ones of each layer; ``n_hidden``, what is left of the hidden units; ``log_alpha``: how
    many weights fall into each of ``BINS``; ``pixels``: kept weights of each of the 784 pixels.
    """
    config = trial.config
    generator = seeded(trial.seed)
    x, y, x_test, y_test = digits(config, lambda images: images * CAFFE_SCALE)
    if config["network"] == "LeNet-300-100":
        x = x.flatten(1)
        x_test = x_test.flatten(1)
    net = make_network(config, generator)
    train(net, x, y, trial, generator)

    rows = sparsity(net)
    small = zero_pruned(net)
    stored = to_sparse(net)
    few = x_test[:1000]
    less = remove_dead_units(small)
    calls = {
        "ms_dense": lambda: small(few).sum().item(),  # which waits for a GPU
        "ms_stored": lambda: stored(few).sum().item(),
        "ms_shrunk": lambda: less(few).sum().item(),
    }
    with torch.no_grad():
        seconds = interleaved_times(calls, 31, warm_up=2)
    values = torch.cat([prune.layer_log_alpha(net[int(row.name)]).flatten() for row in rows])
    first, last, n_bins = BINS
    metrics = {
        "error": error_percent(mean_weights(small, x_test), y_test),
        "error_unpruned": error_percent(mean_weights(zero_pruned(net, inf), x_test), y_test),
        "compression": prune.compression(rows),
        "bytes_pruned": len(archive(stored)),
        "bytes_dense": len(archive(to_sparse(net, inf))),
        **{name: 1000 * median(times) for name, times in seconds.items()},
    }
    arrays = {
        "n_weights": [row.n_weights for row in rows],
        "n_kept": [row.n_kept for row in rows],
        "n_hidden": n_hidden(less),
        "log_alpha": torch.histc(values.clamp(first, last), n_bins, first, last).int().tolist(),
    }
    if config["network"] == "LeNet-300-100":
        arrays["pixels"] = (small[0].weight != 0).sum(0).tolist()
    return TrialResult(metrics, arrays)


def make_network(config: dict, generator: torch.Generator) -> Network:
    """One of the two networks, weights from ``N(0, init_std**2)``; Caffe's LeNet-5 plus ReLU."""
    method = partial(
        METHODS[config["method"]],
        init_log_sigma2=config["init_log_sigma2"],
        threshold=config.get("cut_at"),
    )
    if config["network"] == "LeNet-300-100":
        net = mlp((784, 300, 100, 10), method)
    else:
        net = lenet5(method)
        net = Network(*net[:2], nn.ReLU(), *net[2:4], nn.ReLU(), *net[4:])
    net.to(generator.device, memory_format=torch.channels_last)  # faster convolutions on a CPU
    with torch.no_grad():
        for module in net:
            if hasattr(module, "weight"):
                module.weight.normal_(0.0, config["init_std"], generator=generator)
                module.bias.zero_()
    return net


def train(net: Network, x: Tensor, y: Tensor, trial: Trial, generator: torch.Generator) -> None:
    """Fit ``net`` by the published schedule, its 200 epochs in those of the trial."""
    config = trial.config
    n_steps = config["n_epochs"] * (config["n_train"] // config["batch_size"])
    warm_up = kl_warmup(15, begin=5)
    late = config["network"] == "LeNet-300-100"
    train_by(
        config,
        net,
        x,
        y,
        generator,
        n_steps,
        kl_weight=lambda step: warm_up(PUBLISHED_EPOCHS * step / n_steps),
        schedule=lambda step: min(1.0, (2 if late else 1) * (1 - step / n_steps)),
        callback=Checkpoint(trial, net, generator, x, y),
    )


@torch.no_grad()
def remove_dead_units(network: PrunedNetwork) -> PrunedNetwork:
    """The smaller dense network inside a pruned one: the same function, in less time.

    A hidden unit, or a channel of a convolution, goes if nothing reads it, or only what goes; or
    if it is constant, for all that it reads is: then it moves into the biases of the next layer.
    One unit of a layer that could go as a whole stays.

    Args:
        network: what :func:`~bdl_lessons.inference.zero_pruned` returns: linear layers and
            convolutions without padding (a constant channel is not constant at a border), ReLU or
            tanh, max pooling, and a flatten between them.
    """
    small = deepcopy(network)
    layers = [module for module in small if hasattr(module, "weight")]
    units = layers[0].bias.new_full((1,), torch.nan)  # values before a layer, NaN where they vary
    for module in small:
        if module in layers:
            inputs = module.weight.reshape(len(module.weight), len(units), -1)
            module.bias += inputs.sum(2) @ units.nan_to_num(0.0)
            varying = inputs.masked_fill(~units.isnan()[:, None], 0.0)
            module.weight.copy_(varying.reshape(module.weight.shape))
            units = module.bias.masked_fill(varying.flatten(1).any(1), torch.nan)
        elif isinstance(module, nn.ReLU | nn.Tanh):
            units = module(units)
    for before, after in reversed([*pairwise(layers)]):
        inputs = after.weight.reshape(len(after.weight), len(before.weight), -1)
        read = inputs.any(2).any(0)
        read[0] |= ~read.any()
        kept = inputs[:, read].reshape(len(inputs), -1, *after.weight.shape[2:])
        after.weight = nn.Parameter(kept, requires_grad=False)
        before.weight = nn.Parameter(before.weight[read], requires_grad=False)
        before.bias = nn.Parameter(before.bias[read], requires_grad=False)
    return small


def n_hidden(network: PrunedNetwork) -> list[int]:
    """Hidden units, or channels, of each layer in order."""
    return [len(module.weight) for module in network if hasattr(module, "weight")][:-1]


def archive(network: PrunedNetwork) -> bytes:
    """A pruned network as a NumPy archive: kept weights, gaps between them, biases, modules."""
    arrays = {"header": np.frombuffer(repr(network).encode(), np.uint8)}
    for number, module in enumerate(network):
        if isinstance(module, prune.SparseLayer):
            gaps = np.diff(module.index.cpu().numpy(), prepend=0)
            arrays[f"{number}.values"] = module.values.cpu().numpy()
            arrays[f"{number}.gaps"] = gaps.astype(np.min_scalar_type(gaps.max(initial=0)))
            arrays[f"{number}.bias"] = module.bias.cpu().numpy()
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def table(records: list[Record]) -> str:
    """Errors and compression beside the published ones; what pruning saves; the set-up."""
    ours = [_summary(name, group) for name, group in _set_ups(records).items()]
    printed = map(_as_printed, published_table("sparse_lenet"))
    head = [*ours[0]]
    rows = [[*row.values()] for row in ours]
    return "\n\n".join(
        [
            markdown.table(head[:6], [*(row[:6] for row in rows), *printed]),
            "What is saved; *dense*: all means in the same format; median times, 1000 images:",
            markdown.table(head[:1] + head[6:], [row[:1] + row[6:] for row in rows]),
            _READING,
        ]
    )


def claims(records: list[Record]) -> list[Claim]:
    """Each network: is our sparse VD as small, and as good, as the published one?"""
    statements = []
    for network in group_by(records, "network"):
        groups = _set_ups(where(records, network=network, method="sparse VD"))
        good = []
        ours = []
        target = published_by("network and method", "sparse_lenet")[f"{network}, sparse VD"]
        for name, group in groups.items():
            smaller = mean(metric(group, "compression"))
            error = metric(group, "error")
            good += [smaller >= target["compression"], mean(error) <= target["error_percent"]]
            cut = ", cut" * name.endswith("cut")
            ours += [f"{smaller:.0f} times at {markdown.mean_and_error(error, 2)} %{cut}"]
        seeds = " and ".join(str(len(group)) for group in groups.values())
        statement = f"Sparse variational dropout prunes {network} so far, at so small an error"
        condition = f"as small; as good (± 0.1 points by the images); *cut* or not; seeds: {seeds}"
        printed = f"{target['compression']:.0f} times at {target['error_percent']:.2f} %"
        statements.append(
            Claim(statement, printed, "; ".join(ours), sum(good), len(good), condition)
        )
    return statements


def figure(records: list[Record]) -> Figure:
    """Error against compression; log alpha and kept pixels of LeNet-300-100."""
    picture = new_figure(10.0, 3.8, layout="constrained")
    left, middle, right = picture.subplots(1, 3, width_ratios=(1.35, 1.2, 1))
    for name, group in _set_ups(records).items():
        marker = _MARKERS[name.partition(",")[0]]
        left.plot(metric(group, "compression"), metric(group, "error"), marker, label=name)
    for name, row in published_by("network and method", "sparse_lenet").items():
        network, method = name.split(", ")
        style = {"color": INK if method == "sparse VD" else GREY, "mfc": "none"}
        left.plot(row["compression"], row["error_percent"], _MARKERS[network], **style)
    left.set(xscale="log", xlabel="compression (weights / kept weights)", ylabel="test error [%]")
    left.set_title("Open: published (grey: not sparse VD)")
    left.legend(fontsize=7, ncols=2, loc="upper center", bbox_to_anchor=(0.45, -0.24))

    shown = where(records, network="LeNet-300-100") or records
    edges = np.linspace(BINS[0], BINS[1], BINS[2] + 1)
    for method, group in group_by(shown, "method").items():
        middle.stairs(group[0]["arrays"]["log_alpha"], edges, label=method)
    middle.axvline(prune.THRESHOLD, color=INK, ls="--", lw=1)
    middle.set(yscale="log", xlabel="log α (12: 12 or more)", ylabel="weights")
    middle.set_title(shown[0]["config"]["network"])
    middle.legend(fontsize=8)

    pixels = shown[0]["arrays"].get("pixels", [np.nan] * 784)
    picture.colorbar(right.imshow(np.reshape(pixels, (28, 28))), ax=right, shrink=0.8)
    right.set_title(f"Kept weights of each pixel\n({shown[0]['config']['method']})")
    right.set_axis_off()
    return picture


def _set_ups(records: list[Record]) -> dict[str, list[Record]]:
    """The runs of each network and method, with or without the cut, by name: one for each seed."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        config = record["config"]
        name = f"{config['network']}, {config['method']}{', cut' * ('cut_at' in config)}"
        groups.setdefault(name, []).append(record)
    return groups


def _summary(name: str, group: list[Record]) -> dict[str, str]:
    """The cells of a set-up in both tables, six of the first, by their heads."""
    of = {measure: metric(group, measure) for measure in group[0]["metrics"]}
    kept, whole, hidden = (
        np.mean([record["arrays"][key] for record in group], 0)
        for key in ("n_kept", "n_weights", "n_hidden")
    )
    pruned, dense = (mean(of[f"bytes_{form}"]) / 1000 for form in ("pruned", "dense"))
    times = {form: np.divide(of[f"ms_{form}"], of["ms_dense"]) for form in ("stored", "shrunk")}
    cells = {
        "network, method": name,
        "seeds": str(len(group)),
        "test error (%)": markdown.mean_and_error(of["error"], 2),
        "before pruning (%)": markdown.mean_and_error(of["error_unpruned"], 2),
        "weights removed in each layer (%)": _joined(100 * (1 - kept / whole), ".1f"),
        "compression": markdown.mean_and_error(of["compression"], 0),
        "file (kB)": f"{pruned:.1f}",
        "dense (kB)": f"{dense:.0f}",
        "ratio": f"{dense / pruned:.0f}",
        "hidden units or channels left": _joined(hidden, ".0f"),
        "time, stored form / dense": f"{median(times['stored']):.2f}",
        "time, shrunk / dense": f"{median(times['shrunk']):.2f}",
    }
    if name.endswith("cut"):
        cells |= dict.fromkeys(("before pruning (%)", "dense (kB)", "ratio"), "–")
    return cells


def _as_printed(row: dict[str, Any]) -> list[str]:
    """A row of the published table in the cells of the first table."""
    removed = [row[f"sparsity_{layer}_percent"] for layer in (1, 2, 3, 4)]
    removed = _joined((value for value in removed if not isnan(value)), "g") or "–"
    name = f"*published:* {row['network and method']}"
    error = f"{row['error_percent']:.2f}"
    return [name, "", error, "", removed, f"{row['compression']:.0f}"]


def _joined(values: Iterable[float], form: str) -> str:
    return " − ".join(f"{value:{form}}" for value in values)


_READING = """\
Compression counts weights as the papers do: all of them over those with log α below 3; no biases,
no positions, which a file needs too. Training with the cut leaves means at exactly 0, which the
file leaves out anyway: nothing dense to compare with. *Stored form* puts the zeros back at every
call and multiplies as the dense network does. *Shrunk* is the dense network without hidden units
that nothing reaches or reads: the same function.

Set-up, after the authors' code: Adam, 100 images a step, learning rate 0.001 falling in a line to 0
(over the second half for LeNet-300-100, over all of it for LeNet-5), the KL at weight 0 for the
first 5 of 200 epochs and at 1 from the 20th, log σ² from −10, means from N(0, 0.01²), bytes divided
by 256, no augmentation, ReLU after the convolutions of LeNet-5. All start from random weights; an
author says that so did the published LeNet-5, without the warm-up of the KL (issue 11 of their
repository). What differs: log α has no bounds, theirs ±8; the sigmoid in the KL has the paper's
constants; only in lines with *cut* does a weight train with a mean of 0 once its log α passes 3, as
in the authors' code. ARD, not in the published table, is the same with the other KL."""
TITLE = "Sparse LeNets (Molchanov, Ashukha and Vetrov 2017)"
EXPERIMENT = Experiment("sparse_lenet", TITLE, trials, run, table, figure, claims)
