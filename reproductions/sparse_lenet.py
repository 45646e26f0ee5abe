"""Molchanov, Ashukha and Vetrov (2017), LeNets on MNIST: how many weights can go.

LeNet-300-100 and LeNet-5 are trained by sparse variational dropout, and by ARD in its place, with
the schedule of the authors' code. Then every weight with ``log_alpha > 3`` is removed. In half of
the trials such a weight trains with a mean of 0 already, as it does in that code (``threshold``,
which the records call ``cut_at``). Lesson 08.
"""

import io
from collections.abc import Iterable, Sequence
from copy import deepcopy
from functools import partial
from itertools import pairwise
from math import inf, isnan
from statistics import mean, median
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
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

_PAPER = {
    **ALL_OF_MNIST,
    "batch_size": 100,
    "learning_rate": 1e-3,
    "init_std": 0.01,
    "init_log_sigma2": -10.0,
}
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
    runs = [("LeNet-300-100", 0), ("LeNet-300-100", 1), ("LeNet-300-100", 2), ("LeNet-5", 0)]
    planned = []
    for network, seed in runs:
        for is_cut in (False, True):
            for method in METHODS:
                if network == "LeNet-5" and method == "ARD" and not is_cut:
                    continue
                config = {
                    **_PAPER,
                    "n_epochs": PUBLISHED_EPOCHS,
                    "network": network,
                    "method": method,
                }
                if is_cut:
                    config["cut_at"] = prune.THRESHOLD
                planned.append(Trial(config, seed))
    return planned


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
    pruned = zero_pruned(net)
    unpruned = zero_pruned(net, inf)
    stored = to_sparse(net)
    shrunk = remove_dead_units(pruned)
    few = x_test[:1000]
    calls = {
        "ms_dense": lambda: pruned(few).sum().item(),  # which waits for a GPU
        "ms_stored": lambda: stored(few).sum().item(),
        "ms_shrunk": lambda: shrunk(few).sum().item(),
    }
    with torch.no_grad():
        seconds = interleaved_times(calls, n_rounds=31, warm_up=2)
    metrics = {
        "error": error_percent(mean_weights(pruned, x_test), y_test),
        "error_unpruned": error_percent(mean_weights(unpruned, x_test), y_test),
        "compression": prune.compression(rows),
        "bytes_pruned": len(archive(stored)),
        "bytes_dense": len(archive(to_sparse(net, inf))),
    }
    for name, times in seconds.items():
        metrics[name] = 1000 * median(times)
    layers = [net[int(row.name)] for row in rows]
    arrays = {
        "n_weights": [row.n_weights for row in rows],
        "n_kept": [row.n_kept for row in rows],
        "n_hidden": n_hidden(shrunk),
        "log_alpha": _histogram([prune.layer_log_alpha(layer) for layer in layers]),
    }
    if config["network"] == "LeNet-300-100":
        arrays["pixels"] = (pruned[0].weight != 0).sum(0).tolist()
    return TrialResult(metrics, arrays)


def _histogram(log_alphas: Sequence[Tensor]) -> list[int]:
    """How many weights of all layers fall into each of ``BINS``."""
    first, last, n_bins = BINS
    values = torch.cat([log_alpha.flatten() for log_alpha in log_alphas])
    counts = torch.histc(values.clamp(first, last), n_bins, first, last)
    return counts.int().tolist()


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
        conv1, pool1, conv2, pool2, *dense = lenet5(method)
        net = Network(conv1, pool1, nn.ReLU(), conv2, pool2, nn.ReLU(), *dense)
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
    falls_late = config["network"] == "LeNet-300-100"

    def kl_weight(step: int) -> float:
        return warm_up(PUBLISHED_EPOCHS * step / n_steps)

    def schedule(step: int) -> float:
        """A line to 0, over all of the training or over its second half."""
        remaining = 1 - step / n_steps
        return min(1.0, 2 * remaining) if falls_late else remaining

    train_by(
        config,
        net,
        x,
        y,
        generator=generator,
        n_steps=n_steps,
        kl_weight=kl_weight,
        schedule=schedule,
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
    _move_constants_into_biases(small, layers)
    for before, after in reversed([*pairwise(layers)]):
        _remove_unread(before, after)
    return small


def _move_constants_into_biases(network: PrunedNetwork, layers: Sequence[nn.Module]) -> None:
    """Leave no weight on a unit that is constant; what it gave is in the biases that follow."""
    units = layers[0].bias.new_full((1,), torch.nan)  # values before a layer, NaN where they vary
    for module in network:
        if module in layers:
            inputs = module.weight.reshape(len(module.weight), len(units), -1)
            module.bias += inputs.sum(2) @ units.nan_to_num(0.0)
            is_constant = ~units.isnan()
            varying = inputs.masked_fill(is_constant[:, None], 0.0)
            module.weight.copy_(varying.reshape(module.weight.shape))
            varies = varying.flatten(1).any(1)
            units = module.bias.masked_fill(varies, torch.nan)
        elif isinstance(module, nn.ReLU | nn.Tanh):
            units = module(units)


def _remove_unread(before: nn.Module, after: nn.Module) -> None:
    """Take the units, or channels, out of ``before`` that ``after`` does not read; one stays."""
    inputs = after.weight.reshape(len(after.weight), len(before.weight), -1)
    is_read = inputs.any(2).any(0)
    is_read[0] |= ~is_read.any()
    read_weights = inputs[:, is_read].reshape(len(inputs), -1, *after.weight.shape[2:])
    after.weight = nn.Parameter(read_weights, requires_grad=False)
    before.weight = nn.Parameter(before.weight[is_read], requires_grad=False)
    before.bias = nn.Parameter(before.bias[is_read], requires_grad=False)


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
    errors = []
    savings = []
    for name, group in _set_ups(records).items():
        errors.append(_errors(name, group))
        savings.append(_savings(name, group))
    for row in published_table("sparse_lenet"):
        errors.append(_published_errors(row))
    return "\n\n".join(
        [
            markdown.frame_table(pd.DataFrame(errors)),
            "What is saved; *dense*: all means in the same format; median times, 1000 images:",
            markdown.frame_table(pd.DataFrame(savings)),
            _READING,
        ]
    )


def claims(records: list[Record]) -> list[Claim]:
    """Each network: is our sparse VD as small, and as good, as the published one?"""
    printed = published_by("network and method", "sparse_lenet")
    statements = []
    for network in group_by(records, "network"):
        groups = _set_ups(where(records, network=network, method="sparse VD"))
        target = printed[f"{network}, sparse VD"]
        holds = []
        ours = []
        for name, group in groups.items():
            compression = mean(metric(group, "compression"))
            errors = metric(group, "error")
            holds.append(compression >= target["compression"])
            holds.append(mean(errors) <= target["error_percent"])
            measured = f"{compression:.0f} times at {markdown.mean_and_error(errors, digits=2)} %"
            ours.append(f"{measured}, cut" if name.endswith("cut") else measured)
        seeds = " and ".join(str(len(group)) for group in groups.values())
        statements.append(
            Claim(
                statement=(
                    f"Sparse variational dropout prunes {network} so far, at so small an error"
                ),
                published=(f"{target['compression']:.0f} times at {target['error_percent']:.2f} %"),
                ours="; ".join(ours),
                holds=sum(holds),
                of=len(holds),
                condition=(
                    f"as small; as good (± 0.1 points by the images); *cut* or not; seeds: {seeds}"
                ),
            )
        )
    return statements


def figure(records: list[Record]) -> Figure:
    """Error against compression; log alpha and kept pixels of LeNet-300-100."""
    picture = new_figure(10.0, 3.8, layout="constrained")
    left, middle, right = picture.subplots(1, 3, width_ratios=(1.35, 1.2, 1))
    shown = where(records, network="LeNet-300-100") or records
    _draw_errors(left, records)
    _draw_log_alpha(middle, shown)
    _draw_pixels(right, shown[0])
    return picture


def _draw_errors(ax: Axes, records: list[Record]) -> None:
    """Error against compression, the published ones open."""
    for name, group in _set_ups(records).items():
        network = name.partition(",")[0]
        compression = metric(group, "compression")
        ax.plot(compression, metric(group, "error"), _MARKERS[network], label=name)
    for name, row in published_by("network and method", "sparse_lenet").items():
        network, method = name.split(", ")
        ax.plot(
            row["compression"],
            row["error_percent"],
            _MARKERS[network],
            color=INK if method == "sparse VD" else GREY,
            mfc="none",
        )
    ax.set(xscale="log", xlabel="compression (weights / kept weights)", ylabel="test error [%]")
    ax.set_title("Open: published (grey: not sparse VD)")
    ax.legend(fontsize=7, ncols=2, loc="upper center", bbox_to_anchor=(0.45, -0.24))


def _draw_log_alpha(ax: Axes, records: list[Record]) -> None:
    """How many weights have which log alpha, for the first run of each method."""
    first, last, n_bins = BINS
    edges = np.linspace(first, last, n_bins + 1)
    for method, group in group_by(records, "method").items():
        ax.stairs(group[0]["arrays"]["log_alpha"], edges, label=method)
    ax.axvline(prune.THRESHOLD, color=INK, ls="--", lw=1)
    ax.set(yscale="log", xlabel="log α (12: 12 or more)", ylabel="weights")
    ax.set_title(records[0]["config"]["network"])
    ax.legend(fontsize=8)


def _draw_pixels(ax: Axes, record: Record) -> None:
    """The kept weights of each pixel; nothing where these were not counted."""
    pixels = record["arrays"].get("pixels", [np.nan] * 784)
    image = ax.imshow(np.reshape(pixels, (28, 28)))
    ax.figure.colorbar(image, ax=ax, shrink=0.8)
    ax.set_title(f"Kept weights of each pixel\n({record['config']['method']})")
    ax.set_axis_off()


def _set_ups(records: list[Record]) -> dict[str, list[Record]]:
    """The runs of each network and method, with or without the cut, by name: one for each seed."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        config = record["config"]
        name = f"{config['network']}, {config['method']}"
        if "cut_at" in config:
            name += ", cut"
        groups.setdefault(name, []).append(record)
    return groups


def _errors(name: str, group: list[Record]) -> dict[str, str]:
    """A row of the first table: the errors and the compression of a set-up."""
    n_kept = _mean_array(group, "n_kept")
    n_weights = _mean_array(group, "n_weights")
    unpruned = markdown.mean_and_error(metric(group, "error_unpruned"), digits=2)
    return {
        "network, method": name,
        "seeds": str(len(group)),
        "test error (%)": markdown.mean_and_error(metric(group, "error"), digits=2),
        "before pruning (%)": "–" if name.endswith("cut") else unpruned,
        "weights removed in each layer (%)": _joined(100 * (1 - n_kept / n_weights), ".1f"),
        "compression": markdown.mean_and_error(metric(group, "compression"), digits=0),
    }


def _published_errors(row: dict[str, Any]) -> dict[str, str]:
    """A row of the published table as one of the first table."""
    removed = [row[f"sparsity_{layer}_percent"] for layer in (1, 2, 3, 4)]
    known = [percent for percent in removed if not isnan(percent)]
    return {
        "network, method": f"*published:* {row['network and method']}",
        "seeds": "",
        "test error (%)": f"{row['error_percent']:.2f}",
        "before pruning (%)": "",
        "weights removed in each layer (%)": _joined(known, "g") or "–",
        "compression": f"{row['compression']:.0f}",
    }


def _savings(name: str, group: list[Record]) -> dict[str, str]:
    """A row of the second table: the size of the file of a set-up, its units and its times.

    Training with the cut leaves zeros, so there is no dense file to compare with.
    """
    kilobytes = mean(metric(group, "bytes_pruned")) / 1000
    kilobytes_dense = mean(metric(group, "bytes_dense")) / 1000
    ms_dense = metric(group, "ms_dense")
    time_stored = np.divide(metric(group, "ms_stored"), ms_dense)
    time_shrunk = np.divide(metric(group, "ms_shrunk"), ms_dense)
    is_cut = name.endswith("cut")
    return {
        "network, method": name,
        "file (kB)": f"{kilobytes:.1f}",
        "dense (kB)": "–" if is_cut else f"{kilobytes_dense:.0f}",
        "ratio": "–" if is_cut else f"{kilobytes_dense / kilobytes:.0f}",
        "hidden units or channels left": _joined(_mean_array(group, "n_hidden"), ".0f"),
        "time, stored form / dense": f"{median(time_stored):.2f}",
        "time, shrunk / dense": f"{median(time_shrunk):.2f}",
    }


def _mean_array(group: list[Record], name: str) -> np.ndarray:
    """The mean over the runs of an array with an entry for each layer."""
    return np.mean([record["arrays"][name] for record in group], axis=0)


def _joined(values: Iterable[float], form: str) -> str:
    """The numbers of the layers in a cell."""
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
