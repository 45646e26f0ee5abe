"""Gal and Ghahramani (2016): MC dropout on the CO2 of Mauna Loa, and on a digit that is turned.

Figure 2: deep networks of 1024 units a layer see 272 months and predict the years after. Figure 4:
LeNet, with dropout 0.5 before the last layer only, classifies a handwritten 1 by 100 stochastic
passes; published are the predicted classes of one 1 in 12 positions, beside scatter plots of the
softmax inputs and outputs. Lesson 05.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn

from bdl_lessons.core import BLUE, CYCLE, DASHES, INK, RED, device, seeded, tint
from bdl_lessons.core.plot_style import new_figure
from bdl_lessons.datasets import GAL_SPAN, DetrendedCO2, co2, detrended, rotated
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
_BY_ACTIVATION = {
    "relu": {"activation": "relu", "learning_rate": 1e-3, "slope": 2.0},
    "tanh": {"activation": "tanh", "learning_rate": 3e-4, "slope": 20.0},
}


def _network(activation: str, n_hidden: int = 4, p_drop: float = 0.1, n_months: int = 272) -> dict:
    """The configuration of a network; that of the first published one by default."""
    return {
        **_BY_ACTIVATION[activation],
        "n_hidden": n_hidden,
        "p_drop": p_drop,
        "n_months": n_months,
    }


_NETWORKS = (
    _network("tanh"),
    _network("relu"),
    _network("tanh", p_drop=0.2),
    _network("relu", n_months=72),
    _network("relu", n_hidden=3),
    _network("tanh", n_hidden=3),
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
    data = _months(config["n_months"])
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
        generator=generator,
        n_steps=n_steps,
        loss=partial(gaussian_nll, tau=1.0),
        kl_weight=0.0,
        schedule=lambda step: 1 - step / n_steps,
        callback=Checkpoint(trial, net, generator, x, y),
    )
    points = torch.cat([x, torch.tensor(BEYOND, device=on)[:, None]])
    draws = predict(net, points, config["n_samples"], "shared", generator=generator)[..., 0]
    mean = draws.mean(0)
    std = draws.std(0, correction=0)
    by_mean_weights = mean_weights(net, points)[:, 0]
    n_train = len(x)
    std_inside = std[:n_train].mean()
    std_beyond = std[n_train:]
    metrics = {
        "train_rmse": rmse(mean[:n_train], y[:, 0]),
        "train_rmse_mean_weights": rmse(by_mean_weights[:n_train], y[:, 0]),
        "std_inside": std_inside.item(),
        "std_at_2.5": std_beyond[BEYOND.index(2.5)].item(),
        "std_at_3.7": std_beyond[-1].item(),
        "ratio": (std_beyond[-1] / std_inside).item(),
    }
    arrays = {
        "x": rounded(points[:, 0], digits=6),
        "mean": rounded(mean, digits=6),
        "std": rounded(std, digits=6),
        "mean_weights": rounded(by_mean_weights, digits=6),
    }
    return TrialResult(metrics, arrays)


def co2_network(config: dict, generator: torch.Generator) -> Network:
    """Dropout after every hidden layer, none on the input; weights drawn from ``generator``."""
    n_hidden = config["n_hidden"]
    width = config["width"]
    widths = [1] + [width] * n_hidden + [1]
    dropout = partial(BinaryDropout, p_drop=config["p_drop"])
    methods = [Deterministic] + [dropout] * n_hidden
    activation = ACTIVATIONS[config["activation"]]
    net = mlp(widths, methods, activation).to(generator.device)
    initialise(net, generator, weight_var=2.0 if activation is nn.ReLU else 1.0)
    steepness, sign, place = torch.rand(3, width, generator=generator, device=generator.device)
    switch_inside_the_data(net[0], config["slope"], steepness, sign, place)
    return net


@torch.no_grad()
def switch_inside_the_data(
    layer: nn.Module, slope: float, steepness: Tensor, sign: Tensor, place: Tensor
) -> None:
    """Start the units of the first layer steep, each switching at a place in the data.

    From the published zero biases all switch at 0, and 23 seasons take very many more steps.
    The smallest ``slope`` is given, the largest is three times that; ``steepness``, ``sign`` and
    ``place`` are uniform in [0, 1), one for each unit.
    """
    slopes = slope * (1 + 2 * steepness) * torch.where(sign < 0.5, -1.0, 1.0)
    layer.weight.copy_(slopes[:, None])
    layer.bias.copy_(-slopes * (3.6 * place - 1.8))


def co2_table(records: list[Record]) -> str:
    """Our standard deviations, and what can be said of the published pictures."""
    runs = pd.json_normalize(records)
    shown = pd.DataFrame(
        {
            "network": map(_label, records),
            "months": runs["config.n_months"],
            "steps": runs["config.n_steps"].map("{:,}".format),
            "training RMSE": runs["metrics.train_rmse"].map("{:.3f}".format),
            "training RMSE, weight scaling": runs["metrics.train_rmse_mean_weights"].map(
                "{:.3f}".format
            ),
            "std, training months": runs["metrics.std_inside"].map("{:.3f}".format),
            "std at x = 2.5": runs["metrics.std_at_2.5"].map("{:.2f}".format),
            "std at x = 3.7": runs["metrics.std_at_3.7"].map("{:.2f}".format),
            "std at 3.7 / on training months": runs["metrics.ratio"].map("{:.1f}".format),
        }
    )
    parabolas = []
    for n_months in SPANS:
        data = _months(n_months)
        x = data.x[:, 0].numpy()
        y = data.y.numpy()
        parabola = np.polynomial.Polynomial.fit(x, y, deg=2)
        residual = y - parabola(x)
        parabolas.append(f"{residual.std():.2f} for {n_months} months")
    note = _CO2_NOTE.format(parabolas=" and ".join(parabolas))
    return f"{markdown.frame_table(shown)}\n\n{note}"


def co2_claims(records: list[Record]) -> list[Claim]:
    """How the std goes on beyond the data, in networks that have learnt the seasons."""
    trained = longest(records, "n_steps")
    n_steps = trained[0]["config"]["n_steps"]
    condition = f"{n_steps:,} steps of Adam, not 1,000,000; training RMSE < 0.5"
    growth_relu = _growth_beyond(where(trained, activation="relu"))
    growth_tanh = _growth_beyond(where(trained, activation="tanh"))
    is_bounded = (growth_tanh > 0.9) & (growth_tanh < 1.1)
    return [
        Claim(
            statement="Beyond the data the standard deviation of MC dropout with ReLU units grows",
            published="a picture",
            ours=f"from x = 2.5 to 3.7 times {_factors(growth_relu)}",
            holds=(growth_relu > 1.5).sum(),
            of=growth_relu.size,
            condition=f"{condition}; by half or more",
        ),
        Claim(
            statement="With tanh units it stays bounded",
            published="a picture",
            ours=f"from x = 2.5 to 3.7 times {_factors(growth_tanh)}",
            holds=is_bounded.sum(),
            of=growth_tanh.size,
            condition=f"{condition}; within a tenth",
        ),
    ]


def _growth_beyond(records: list[Record]) -> np.ndarray:
    """The std at 3.7 over that at 2.5 in the networks that have learnt the seasons."""
    learnt = [record for record in records if record["metrics"]["train_rmse"] < 0.5]
    return np.divide(metric(learnt, "std_at_3.7"), metric(learnt, "std_at_2.5"))


def _factors(growth: np.ndarray) -> str:
    return ", ".join(f"{factor:.2f}" for factor in growth)


def co2_figure(records: list[Record]) -> Figure:
    """One row a network, the one trained longest: mean and deviation of the draws, months."""
    by_steps = sorted(records, key=lambda record: record["config"]["n_steps"])
    longest_of_network = {}
    for record in by_steps:
        longest_of_network[_label(record), record["config"]["n_months"]] = record
    n_networks = len(longest_of_network)
    picture = new_figure(7.2, 2.1 * n_networks + 0.4, layout="constrained")
    rows = picture.subplots(n_networks, 1, sharex=True, squeeze=False)[:, 0]
    for axes, record in zip(rows, longest_of_network.values(), strict=True):
        _draw_functions(axes, record)
    rows[0].legend(loc="lower left", ncols=2, labelspacing=0.2)
    rows[-1].set_xlabel("standardised time")
    picture.supylabel("detrended CO2, standardised", fontsize=10)
    return picture


def _draw_functions(axes: Axes, record: Record) -> None:
    """Mean and band of the draws of one network, its mean weights, and the months it saw."""
    config = record["config"]
    arrays = record["arrays"]
    data = _months(config["n_months"])
    x = np.array(arrays["x"])
    mean = np.array(arrays["mean"])
    std = np.array(arrays["std"])
    axes.fill_between(
        x,
        mean - 2 * std,
        mean + 2 * std,
        color=tint(BLUE, 0.3),
        lw=0,
        label="± 2 epistemic std",
    )
    axes.plot(x, mean, color=BLUE, ls="-", lw=1.2, label="mean of the draws")
    axes.plot(x, arrays["mean_weights"], color=RED, ls="--", lw=1.2, label="weight scaling")
    axes.plot(data.x[:, 0], data.y, ".", color=INK, ms=2.5, label="training months")
    axes.axvline(data.x[-1, 0], color=INK, lw=0.8, ls="--")
    axes.set(xlim=(-1.8, BEYOND[-1]), ylim=(-6, 6))
    axes.set_title(
        f"{_label(record)}, {config['n_months']} months, {config['n_steps']:,} steps: "
        f"std × {record['metrics']['ratio']:.1f} at x = 3.7"
    )


def _months(n_months: int) -> DetrendedCO2:
    """The months that a network sees, detrended and standardised."""
    first, last = SPANS[n_months]
    return detrended(co2(), first, last)


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
    """What a network is, e.g. ``"ReLU, 4 × 1024, p_drop 0.1"``."""
    config = record["config"]
    activation = {"relu": "ReLU", "tanh": "tanh"}[config["activation"]]
    size = f"{config['n_hidden']} × {config['width']}"
    return f"{activation}, {size}, p_drop {config['p_drop']:g}"


PUBLISHED = (1, 1, 1, 1, 1, 5, 5, 7, 7, 7, 7, 7)
SHOWN = (1, 2, 5, 7)  # classes in the figure
_DIGIT = {
    **ALL_OF_MNIST,
    "batch_size": 64,
    "learning_rate": 0.01,
    "momentum": 0.9,
    "weight_decay": 5e-4,
    "p_drop": 0.5,
    "n_samples": 100,
    "n_ones": 10,
    "step_degrees": 10,
}
_BRIEF_DIGIT = {**_DIGIT, "n_train": 256, "n_test": 50, "n_samples": 5, "n_ones": 2}


def digit_trials(scale: str) -> list[Trial]:
    """Networks that differ in the seed, trained briefly and then longer."""
    if scale == "quick":
        return [Trial({**_BRIEF_DIGIT, "n_steps": 8}, seed=0)]
    return [
        Trial({**_DIGIT, "n_steps": n_steps}, seed)
        for n_steps in (2000, 10_000)
        for seed in range(3)
    ]


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
        generator=generator,
        n_steps=config["n_steps"],
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
    of_first_one = outputs[:, :, 0, SHOWN].transpose(0, 1)
    arrays = {
        "test_index": indices.tolist(),
        "angles": angles(config),
        "classes": classes.tolist(),
        "entropy": rounded(predictive_entropy(logits).view_as(classes), digits=4),
        "information": rounded(mutual_information(logits).view_as(classes), digits=4),
        "probs": rounded(of_first_one, digits=3),
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
    runs = longest(records, "n_steps")
    first = runs[0]
    config = first["config"]
    _, last_entropies = _near_the_change(runs)
    parts = [
        _test_errors(records),
        f"Published classes of one 1 in 12 positions: {_join(PUBLISHED)}. Ours, the first 1s of "
        f"the test set, none chosen, seed {first['seed']}, {config['n_steps']:,} steps:",
        _sequences_of_ones(first),
        f"Every sequence of the networks of that many steps (seeds: {len(runs)}):",
        _agreement_with_published(runs),
        f"At the last position the predictive entropy is {last_entropies.min():.1f} to "
        f"{last_entropies.max():.1f} nats. Set-up that differs from the published one: "
        f"{config['n_steps']:,} iterations, not 1,000,000 (their solver also comes in a variant of "
        "10,000); biases learn at the rate of the weights, not at twice it; neither the angles nor "
        "which 1 they turned is published: "
        f"ours are steps of {config['step_degrees']} degrees.",
    ]
    return "\n\n".join(parts)


def _test_errors(records: list[Record]) -> str:
    """A table: the errors of each network, by averaged passes and by weight scaling."""
    runs = pd.json_normalize(records)
    shown = pd.DataFrame(
        {
            "seed": runs["seed"],
            "steps": runs["config.n_steps"].map("{:,}".format),
            "test error, MC dropout, 100 draws (%)": runs["metrics.test_error"].map(
                "{:.2f}".format
            ),
            "test error, weight scaling (%)": runs["metrics.test_error_mean_weights"].map(
                "{:.2f}".format
            ),
        }
    )
    return markdown.frame_table(shown)


def _sequences_of_ones(record: Record) -> str:
    """A table: the classes of each 1 of one network, position by position, and its entropies."""
    classes = sequences([record])
    entropy = sequences([record], "entropy")
    clockwise = 0
    anticlockwise = 1
    shown = pd.DataFrame(
        {
            "test image": record["arrays"]["test_index"],
            "classes, clockwise": map(_join, classes[:, clockwise]),
            "entropy, clockwise (nats): upright": entropy[:, clockwise, 0],
            "largest": entropy[:, clockwise].max(-1),
            "classes, anticlockwise": map(_join, classes[:, anticlockwise]),
        }
    )
    for column in ("entropy, clockwise (nats): upright", "largest"):
        shown[column] = shown[column].map("{:.2f}".format)
    return markdown.frame_table(shown)


def _agreement_with_published(records: list[Record]) -> str:
    """A table: for each direction how many sequences are like the published one, and where."""
    classes = sequences(records)
    agree = classes == PUBLISHED  # (ones, directions, positions)
    shown = pd.DataFrame(
        {
            "direction": ["clockwise", "anticlockwise"],
            "sequences": len(classes),
            "start with 1": agree[..., 0].sum(0),
            "end with 7": agree[..., -1].sum(0),
            "have a 5": (classes == 5).any(-1).sum(0),
            "equal the published": agree.all(-1).sum(0),
            "positions that agree, mean of 12": agree.sum(-1).mean(0),
        }
    )
    column = "positions that agree, mean of 12"
    shown[column] = shown[column].map("{:.1f}".format)
    return markdown.frame_table(shown)


def digit_claims(records: list[Record]) -> list[Claim]:
    """The published sequence of classes, and where the network is least certain."""
    runs = longest(records, "n_steps")
    classes = sequences(runs)
    is_published = (classes == PUBLISHED).all(-1)
    n_near, last_entropies = _near_the_change(runs)
    condition = f"{runs[0]['config']['n_steps']:,} steps, not 1,000,000, {len(runs)} seeds"
    n_end_with_7 = (classes[..., -1] == 7).sum()
    return [
        Claim(
            statement=f"A 1 that is turned step by step is called {_join(PUBLISHED)}",
            published="one image",
            ours=f"{n_end_with_7} of {is_published.size} sequences end with 7",
            holds=is_published.sum(),
            of=is_published.size,
            condition=(
                f"{condition}; the first {len(classes) // len(runs)} ones, both directions, all 12 "
                "classes; which 1 they turned, and by what angles, is not published"
            ),
        ),
        Claim(
            statement="Where its class changes the network is uncertain",
            published="a scatter of softmax outputs",
            ours="the entropy is largest within one position of the first change",
            holds=n_near,
            of=len(last_entropies),
            condition=condition,
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
        color = CYCLE[k]
        marker = "os^D"[k]
        probs = arrays["probs"][..., k]
        beside = degrees + 2 * (k - 1.5)
        top.plot(beside, probs, ls="", ms=2, alpha=0.3, color=color, marker=marker)
        top.plot(
            degrees,
            probs.mean(1),
            ls=DASHES[k],
            lw=1,
            ms=4,
            color=color,
            marker=marker,
            label=f"class {name}",
        )
    top.set(ylabel="softmax output (probability)", ylim=(-0.04, 1.04))
    top.set_title("First 1 of the test set: the draws (small) and their mean")
    top.legend(loc="center", bbox_to_anchor=(0.46, 0.5))
    unlabelled = [None] * (n_ones - 1)
    bottom.plot(degrees, arrays["entropy"], lw=0.8, label=["entropy", *unlabelled], color=INK)
    bottom.plot(
        degrees,
        arrays["information"],
        lw=0.8,
        label=["information", *unlabelled],
        color=BLUE,
        ls="--",
    )
    bottom.set(xlabel="rotation (degrees, clockwise positive)", xticks=degrees[1::2])
    bottom.set(ylabel="nats", ylim=(-0.05, 2.4))
    bottom.set_title(f"Predictive entropy, mutual information of the first {n_ones} ones")
    bottom.legend(loc="upper center")
    return picture


def sequences(records: Sequence[Record], name: str = "classes") -> np.ndarray:
    """An array of the records at the 12 positions from upright on: ``(ones, 2, 12)``.

    The ones of every record are there, clockwise and back.
    """
    values = np.concatenate([record["arrays"][name] for record in records], axis=1)
    upright = records[0]["arrays"]["angles"].index(0)
    clockwise = values[upright:]
    anticlockwise = values[upright::-1]
    return np.stack([clockwise, anticlockwise]).transpose(2, 0, 1)


def _near_the_change(records: list[Record]) -> tuple[int, np.ndarray]:
    """In how many sequences the entropy is largest near the first change; the last entropies."""
    classes = sequences(records).reshape(-1, 12)
    entropy = sequences(records, "entropy").reshape(-1, 12)
    has_changed = classes != classes[:, :1]
    first_change = has_changed.argmax(1)
    is_near = abs(entropy.argmax(1) - first_change) <= 1
    changes = has_changed.any(1)
    return (changes & is_near).sum(), entropy[:, -1]


def _join(classes: Sequence[int]) -> str:
    """Classes with blanks between them, as code."""
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
