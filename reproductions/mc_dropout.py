"""Gal and Ghahramani (2016): MC dropout on the CO2 of Mauna Loa, and on a digit that is turned.

Figure 2: deep networks of 1024 units a layer see 272 months and predict the years after. Figure 4:
LeNet, with dropout 0.5 before the last layer only, classifies a handwritten 1 by 100 stochastic
passes; published are the predicted classes of one 1 in 12 positions, beside scatter plots of the
softmax inputs and outputs. Lesson 05.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from bdl_lessons.core import BLUE, CYCLE, DASHES, INK, RED, device, seeded, tint
from bdl_lessons.core.plot_style import new_figure
from bdl_lessons.datasets import GAL_SPAN, co2, detrended, rotated
from bdl_lessons.datasets.records import Record, where
from bdl_lessons.evaluation import error_percent, mutual_information, predictive_entropy, rmse
from bdl_lessons.inference import predict, sgd
from bdl_lessons.models import BinaryDropout, Deterministic, Network, initialise, mlp
from bdl_lessons.probability import gaussian_nll
from reproductions import markdown
from reproductions.checkpoint import Checkpoint
from reproductions.datasets import CAFFE_SCALE
from reproductions.experiment import Claim, Experiment, Trial, TrialResult
from reproductions.images.architectures import lenet5
from reproductions.measure import ALL_OF_MNIST, digits, mean_weights, train_by
from reproductions.records import longest, metric, rounded

ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh}
BEYOND = [n / 100 for n in range(175, 371, 3)]
"""Standardised times after the last month (1.73), to where the published figure ends."""

SPANS = {272: GAL_SPAN, 72: (1975.25, 1981.25)}
"""Number of months -> first and last date; 272 are the published ones."""

_CO2 = {"width": 1024, "batch_size": 68, "n_samples": 1000}
_BRIEF_CO2 = {"width": 16, "batch_size": 68, "n_samples": 20}
_STEPS = {"quick": (30,), "paper": (1500, 20_000)}
_RELU = {"activation": "relu", "learning_rate": 1e-3, "slope": 2.0}
_TANH = {"activation": "tanh", "learning_rate": 3e-4, "slope": 20.0}
_NETWORKS = (
    {**_TANH, "n_hidden": 4, "p_drop": 0.1, "n_months": 272},
    {**_RELU, "n_hidden": 4, "p_drop": 0.1, "n_months": 272},
    {**_TANH, "n_hidden": 4, "p_drop": 0.2, "n_months": 272},
    {**_RELU, "n_hidden": 4, "p_drop": 0.1, "n_months": 72},
    {**_RELU, "n_hidden": 3, "p_drop": 0.1, "n_months": 272},
    {**_TANH, "n_hidden": 3, "p_drop": 0.1, "n_months": 272},
)


def co2_trials(scale: str) -> list[Trial]:
    """The published networks of 4 hidden layers, then of 3; all of them briefly, then longer."""
    common = _CO2 if scale == "paper" else _BRIEF_CO2
    return [
        Trial({**network, **common, "n_steps": n_steps}, seed=0)
        for n_steps in _STEPS[scale]
        for network in _NETWORKS
    ]


def measure_co2(trial: Trial) -> TrialResult:
    """Train one network and draw functions from it.

    Metrics, in units of the standardised CO2: RMSE of the mean of the draws and of weight scaling,
    standard deviations of the draws, ``inside`` averaged over the training months, and a ratio.
    """
    config = trial.config
    on = device()
    data = detrended(co2(), *SPANS[config["n_months"]])
    x = data.x.float().to(on)
    y = data.y.float()[:, None].to(on)
    generator = seeded(trial.seed)
    n_steps = config["n_steps"]
    net = co2_network(config, generator)
    train_by(
        config,
        net,
        x,
        y,
        generator,
        n_steps,
        loss=partial(gaussian_nll, tau=1.0),
        kl_weight=0.0,
        schedule=lambda step: 1 - step / n_steps,
        callback=Checkpoint(trial, net, generator, x, y),
    )
    points = torch.cat([x, torch.tensor(BEYOND, device=on)[:, None]])
    draws = predict(net, points, config["n_samples"], "shared", generator=generator)[..., 0]
    mean = draws.mean(0)
    std = draws.std(0, correction=0)
    scaled = mean_weights(net, points)[:, 0]
    inside = std[: len(x)].mean()
    beyond = std[len(x) :]
    metrics = {
        "train_rmse": rmse(mean[: len(x)], y[:, 0]),
        "train_rmse_mean_weights": rmse(scaled[: len(x)], y[:, 0]),
        "std_inside": inside.item(),
        "std_at_2.5": beyond[BEYOND.index(2.5)].item(),
        "std_at_3.7": beyond[-1].item(),
        "ratio": (beyond[-1] / inside).item(),
    }
    curves = {"x": points[:, 0], "mean": mean, "std": std, "mean_weights": scaled}
    return TrialResult(metrics, {name: rounded(values, 6) for name, values in curves.items()})


def co2_network(config: dict, generator: torch.Generator) -> Network:
    """Dropout after every hidden layer, none on the input; weights drawn from ``generator``."""
    n_hidden = config["n_hidden"]
    width = config["width"]
    dropout = partial(BinaryDropout, p_drop=config["p_drop"])
    methods = [Deterministic] + [dropout] * n_hidden
    activation = ACTIVATIONS[config["activation"]]
    net = mlp((1, *[width] * n_hidden, 1), methods, activation).to(generator.device)
    initialise(net, generator, weight_var=2.0 if activation is nn.ReLU else 1.0)
    uniforms = torch.rand(3, width, generator=generator, device=generator.device)
    switch_inside_the_data(net[0], config["slope"], *uniforms)
    return net


@torch.no_grad()
def switch_inside_the_data(
    layer: nn.Module, slope: float, steepness: Tensor, sign: Tensor, place: Tensor
) -> None:
    """Start the units of the first layer steep, each switching at a place in the data: from the
    published zero biases all switch at 0, and 23 seasons take very many more steps.

    The smallest ``slope`` is given, the largest is three times that; ``steepness``, ``sign`` and
    ``place`` are uniform in [0, 1), one for each unit.
    """
    slopes = slope * (1 + 2 * steepness) * torch.where(sign < 0.5, -1.0, 1.0)
    layer.weight.copy_(slopes[:, None])
    layer.bias.copy_(-slopes * (3.6 * place - 1.8))


def co2_table(records: list[Record]) -> str:
    """Our standard deviations, and what can be said of the published pictures."""
    columns = {
        "network": _label,
        "months": "{config[n_months]}",
        "steps": "{config[n_steps]:,}",
        "training RMSE": "{metrics[train_rmse]:.3f}",
        "training RMSE, weight scaling": "{metrics[train_rmse_mean_weights]:.3f}",
        "std, training months": "{metrics[std_inside]:.3f}",
        "std at x = 2.5": "{metrics[std_at_2.5]:.2f}",
        "std at x = 3.7": "{metrics[std_at_3.7]:.2f}",
        "std at 3.7 / on training months": "{metrics[ratio]:.1f}",
    }
    parabolas = []
    for n_months, span in SPANS.items():
        data = detrended(co2(), *span)
        x = data.x[:, 0].numpy()
        y = data.y.numpy()
        residual = y - np.polynomial.Polynomial.fit(x, y, 2)(x)
        parabolas.append(f"{residual.std():.2f} for {n_months} months")
    prose = _CO2_NOTE.format(parabolas=" and ".join(parabolas))
    return f"{markdown.table_of(records, columns)}\n\n{prose}"


def co2_claims(records: list[Record]) -> list[Claim]:
    """How the std goes on beyond the data, in networks that have learnt the seasons."""
    trained = longest(records, "n_steps")
    found = []
    how = f"{trained[0]['config']['n_steps']:,} steps of Adam, not 1,000,000; training RMSE < 0.5"
    grows = "Beyond the data the standard deviation of MC dropout with ReLU units grows"
    for activation, statement, bound, least, most in (
        ("relu", grows, "by half or more", 1.5, np.inf),
        ("tanh", "With tanh units it stays bounded", "within a tenth", 0.9, 1.1),
    ):
        nets = where(trained, activation=activation)
        nets = [record for record in nets if record["metrics"]["train_rmse"] < 0.5]
        growth = np.divide(metric(nets, "std_at_3.7"), metric(nets, "std_at_2.5"))
        ours = f"from x = 2.5 to 3.7 times {', '.join(f'{factor:.2f}' for factor in growth)}"
        counts = ((growth > least) & (growth < most)).sum(), growth.size
        found.append(Claim(statement, "a picture", ours, *counts, f"{how}; {bound}"))
    return found


def co2_figure(records: list[Record]) -> Figure:
    """One row a network, the one trained longest: mean and deviation of the draws, months."""
    by_steps = sorted(records, key=lambda record: record["config"]["n_steps"])
    shown = {(_label(record), record["config"]["n_months"]): record for record in by_steps}
    picture = new_figure(7.2, 2.1 * len(shown) + 0.4, layout="constrained")
    rows = picture.subplots(len(shown), 1, sharex=True, squeeze=False)[:, 0]
    for axes, ((label, n_months), record) in zip(rows, shown.items(), strict=True):
        arrays = record["arrays"]
        data = detrended(co2(), *SPANS[n_months])
        x, mean, std = (np.array(arrays[name]) for name in ("x", "mean", "std"))
        look = {"color": tint(BLUE, 0.3), "lw": 0, "label": "± 2 epistemic std"}
        axes.fill_between(x, mean - 2 * std, mean + 2 * std, **look)
        axes.plot(x, mean, color=BLUE, ls="-", lw=1.2, label="mean of the draws")
        axes.plot(x, arrays["mean_weights"], color=RED, ls="--", lw=1.2, label="weight scaling")
        axes.plot(data.x[:, 0], data.y, ".", color=INK, ms=2.5, label="training months")
        axes.axvline(data.x[-1, 0], color=INK, lw=0.8, ls="--")
        axes.set(xlim=(-1.8, BEYOND[-1]), ylim=(-6, 6))
        axes.set_title(
            f"{label}, {n_months} months, {record['config']['n_steps']:,} steps: "
            f"std × {record['metrics']['ratio']:.1f} at x = 3.7"
        )
    rows[0].legend(loc="lower left", ncols=2, labelspacing=0.2)
    rows[-1].set_xlabel("standardised time")
    picture.supylabel("detrended CO2, standardised", fontsize=10)
    return picture


_CO2_NOTE = """\
All numbers are in standard deviations of the detrended series; std is the epistemic one, that of
the function draws without observation noise. Read the training RMSE first: the best parabola has
{parabolas}. A network near that has learnt hardly any of the seasons, and its std far from the data
says nothing about one that has.

Published are pictures without numbers. Networks with fewer layers did not fit. Set-up that differs:
Adam with a learning rate that falls linearly to 0, on 68 months a step, not 1,000,000 steps of
gradient descent with momentum on 200 months a step; no weight decay, and so no prior (lesson 04),
not 1e-6 (ReLU), 5e-7 and 0 (tanh); the units of the first layer start with steep slopes and switch
at places all over the data, not all at 0; times are dates, not the running number of the month. A
row with 72 months sees only the last six years."""


def _label(record: Record) -> str:
    config = record["config"]
    activation = {"relu": "ReLU", "tanh": "tanh"}[config["activation"]]
    return f"{activation}, {config['n_hidden']} × {config['width']}, p_drop {config['p_drop']:g}"


PUBLISHED = (1, 1, 1, 1, 1, 5, 5, 7, 7, 7, 7, 7)
SHOWN = (1, 2, 5, 7)  # classes in the figure
_DIGIT = {**ALL_OF_MNIST, "batch_size": 64, "learning_rate": 0.01, "momentum": 0.9}
_DIGIT |= {"weight_decay": 5e-4, "p_drop": 0.5, "n_samples": 100, "n_ones": 10, "step_degrees": 10}
_BRIEF_DIGIT = {**_DIGIT, "n_train": 256, "n_test": 50, "n_samples": 5, "n_ones": 2}


def digit_trials(scale: str) -> list[Trial]:
    """Networks that differ in the seed, trained briefly and then longer."""
    if scale == "quick":
        return [Trial({**_BRIEF_DIGIT, "n_steps": 8}, seed=0)]
    return [Trial({**_DIGIT, "n_steps": n}, seed) for n in (2000, 10_000) for seed in range(3)]


def measure_digit(trial: Trial) -> TrialResult:
    """Train LeNet, then classify the first 1s of the test set at every angle.

    Metrics: test errors of averaged passes and of weight scaling in percent. Arrays, ``(angles,
    ones)`` each: predicted ``classes``, ``entropy`` and ``information`` in nats; ``probs``: the
    passes' outputs for the first 1, ``(angles, passes, len(SHOWN))``.
    """
    config = trial.config
    generator = seeded(trial.seed)
    x, y, x_test, y_test = digits(config, lambda images: images * CAFFE_SCALE)
    net = digit_network(config, generator)
    n_samples = config["n_samples"]
    train_by(
        config,
        net,
        x,
        y,
        generator,
        config["n_steps"],
        optimizer=sgd(config["learning_rate"], config["momentum"]),
        schedule=lambda step: (1 + 1e-4 * step) ** -0.75,  # Caffe's "inv"
        callback=Checkpoint(trial, net, generator, x, y),
    )
    probs = predict(net, x_test, n_samples, generator=generator).softmax(-1).mean(0)

    indices = (y_test == 1).nonzero()[: config["n_ones"], 0]
    ones = turned(x_test[indices], config)
    logits = predict(net, ones.flatten(0, 1), n_samples, generator=generator)
    outputs = logits.softmax(-1).unflatten(1, ones.shape[:2])  # (S, A, ones, 10)
    classes = outputs.mean(0).argmax(-1)
    metrics = {
        "test_error": error_percent(probs, y_test),
        "test_error_mean_weights": error_percent(mean_weights(net, x_test), y_test),
    }
    arrays = {
        "test_index": indices.tolist(),
        "angles": angles(config),
        "classes": classes.tolist(),
        "entropy": rounded(predictive_entropy(logits).view_as(classes), 4),
        "information": rounded(mutual_information(logits).view_as(classes), 4),
        "probs": rounded(outputs[:, :, 0, SHOWN].transpose(0, 1), 3),
    }
    return TrialResult(metrics, arrays)


def angles(config: dict) -> list[int]:
    """Degrees, clockwise positive: as many steps either way as the published picture has."""
    last = (len(PUBLISHED) - 1) * config["step_degrees"]
    return list(range(-last, last + 1, config["step_degrees"]))


def digit_network(config: dict, generator: torch.Generator) -> Network:
    """LeNet with dropout before its last layer; weights drawn from ``generator`` (Caffe's Xavier).

    The weight decay becomes the prior of the same strength: ``l**2 = weight_decay * keep * N``.
    """
    keep = 1 - config["p_drop"]
    strength = config["weight_decay"] * config["n_train"]
    plain = partial(Deterministic, length_scale=strength**0.5)
    dropout = partial(BinaryDropout, p_drop=config["p_drop"], length_scale=(keep * strength) ** 0.5)
    net = lenet5([plain, plain, plain, dropout]).to(generator.device)
    return initialise(net, generator, weight_var=1.0)


def turned(ones: Tensor, config: dict) -> Tensor:
    """Images ``(N, 1, 28, 28)`` at each of A angles, clockwise positive: ``(A, N, 1, 28, 28)``."""
    return torch.stack([rotated(ones, -angle) for angle in angles(config)])


def digit_table(records: list[Record]) -> str:
    """Test errors, the class sequences of every 1, and how often they are like the published."""
    errors = {
        "seed": "{seed}",
        "steps": "{config[n_steps]:,}",
        "test error, MC dropout, 100 draws (%)": "{metrics[test_error]:.2f}",
        "test error, weight scaling (%)": "{metrics[test_error_mean_weights]:.2f}",
    }
    runs = longest(records, "n_steps")
    first = runs[0]
    config = runs[0]["config"]
    last = _near_the_change(runs)[1]
    nats = sequences(first, what="entropy")[:, 0]
    classes = sequences(*runs)
    shown = {
        "test image": first["arrays"]["test_index"],
        "classes, clockwise": map(_join, sequences(first)[:, 0]),
        "entropy, clockwise (nats): upright": (f"{values[0]:.2f}" for values in nats),
        "largest": (f"{values.max():.2f}" for values in nats),
        "classes, anticlockwise": map(_join, sequences(first)[:, 1]),
    }
    agree = classes == PUBLISHED  # (ones, directions, positions)
    counts = {
        "direction": ("clockwise", "anticlockwise"),
        "sequences": [len(classes)] * 2,
        "start with 1": agree[..., 0].sum(0),
        "end with 7": agree[..., -1].sum(0),
        "have a 5": (classes == 5).any(-1).sum(0),
        "equal the published": agree.all(-1).sum(0),
        "positions that agree, mean of 12": [f"{n:.1f}" for n in agree.sum(-1).mean(0)],
    }
    parts = [
        markdown.table_of(records, errors),
        f"Published classes of one 1 in 12 positions: {_join(PUBLISHED)}. Ours, the first 1s of "
        f"the test set, none chosen, seed {first['seed']}, {config['n_steps']:,} steps:",
        markdown.table_by_columns(shown),
        f"Every sequence of the networks of that many steps (seeds: {len(runs)}):",
        markdown.table_by_columns(counts),
        f"At the last position the predictive entropy is {last.min():.1f} to {last.max():.1f} "
        f"nats. Set-up that differs from the published one: {config['n_steps']:,} iterations, not "
        "1,000,000 (their solver also comes in a variant of 10,000); biases learn at the rate of "
        "the weights, not at twice it; neither the angles nor which 1 they turned is published: "
        f"ours are steps of {config['step_degrees']} degrees.",
    ]
    return "\n\n".join(parts)


def digit_claims(records: list[Record]) -> list[Claim]:
    """The published sequence of classes, and where the network is least certain."""
    runs = longest(records, "n_steps")
    classes = sequences(*runs)
    (near, last) = _near_the_change(runs)
    same = (classes == PUBLISHED).all(-1)
    how = f"{runs[0]['config']['n_steps']:,} steps, not 1,000,000, {len(runs)} seeds"
    return [
        Claim(
            f"A 1 that is turned step by step is called {_join(PUBLISHED)}",
            "one image",
            f"{(classes[..., -1] == 7).sum()} of {same.size} sequences end with 7",
            same.sum(),
            same.size,
            f"{how}; the first {len(classes) // len(runs)} ones, both directions, all 12 classes; "
            "which 1 they turned, and by what angles, is not published",
        ),
        Claim(
            "Where its class changes the network is uncertain",
            "a scatter of softmax outputs",
            "the entropy is largest within one position of the first change",
            near,
            len(last),
            how,
        ),
    ]


def digit_figure(records: list[Record]) -> Figure:
    """The passes' softmax outputs over the positions of the first 1, and the uncertainty of all."""
    record = longest(records, "n_steps")[0]
    arrays = {name: np.array(values) for name, values in record["arrays"].items()}
    degrees = arrays["angles"]
    n_ones = arrays["entropy"].shape[1]
    picture = new_figure(7.2, 5.4, layout="constrained")
    top, bottom = picture.subplots(2, 1, sharex=True)
    for k, name in enumerate(SHOWN):
        look = {"color": CYCLE[k], "marker": "os^D"[k]}
        probs = arrays["probs"][..., k]
        top.plot(degrees + 2 * (k - 1.5), probs, ls="", ms=2, alpha=0.3, **look)
        top.plot(degrees, probs.mean(1), ls=DASHES[k], lw=1, ms=4, label=f"class {name}", **look)
    top.set(ylabel="softmax output (probability)", ylim=(-0.04, 1.04))
    top.set_title("First 1 of the test set: the draws (small) and their mean")
    top.legend(loc="center", bbox_to_anchor=(0.46, 0.5))
    for name, look in (("entropy", {"color": INK}), ("information", {"color": BLUE, "ls": "--"})):
        labels = [name, *[None] * (n_ones - 1)]
        bottom.plot(degrees, arrays[name], lw=0.8, label=labels, **look)
    bottom.set(xlabel="rotation (degrees, clockwise positive)", xticks=degrees[1::2])
    bottom.set(ylabel="nats", ylim=(-0.05, 2.4))
    bottom.set_title(f"Predictive entropy, mutual information of the first {n_ones} ones")
    bottom.legend(loc="upper center")
    return picture


def sequences(*records: Record, what: str = "classes") -> np.ndarray:
    """Values at the 12 positions from upright on, clockwise and back: ``(ones, 2, 12)``, the ones
    of every record."""
    values = np.concatenate([record["arrays"][what] for record in records], 1)
    upright = records[0]["arrays"]["angles"].index(0)
    return np.stack([values[upright:], values[upright::-1]]).transpose(2, 0, 1)


def _near_the_change(records: list[Record]) -> tuple[int, np.ndarray]:
    """In how many sequences the entropy is largest near the first change; the last entropies."""
    classes, entropy = (sequences(*records, what=w).reshape(-1, 12) for w in ("classes", "entropy"))
    changed = classes != classes[:, :1]
    is_near = abs(entropy.argmax(1) - changed.argmax(1)) <= 1  # argmax: the first of them
    return (changed.any(1) & is_near).sum(), entropy[:, -1]


def _join(classes: Sequence[int]) -> str:
    return f"`{' '.join(map(str, classes))}`"


CO2 = Experiment(
    "co2_mc_dropout",
    "MC dropout on CO2 (Gal and Ghahramani 2016, figure 2)",
    co2_trials,
    measure_co2,
    co2_table,
    co2_figure,
    co2_claims,
)
DIGIT = Experiment(
    "rotated_digit",
    "A rotated digit (Gal and Ghahramani 2016, figure 4)",
    digit_trials,
    measure_digit,
    digit_table,
    digit_figure,
    digit_claims,
)
