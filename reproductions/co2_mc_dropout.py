"""Gal and Ghahramani (2016), figure 2: MC dropout on the CO2 of Mauna Loa.

Deep networks of 1024 units a layer see 272 months and predict the years after. Lesson 05.
"""

from functools import partial

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from bdl_lessons.core import BLUE, INK, RED, device, seeded, tint
from bdl_lessons.core.plot_style import new_figure
from bdl_lessons.datasets import GAL_SPAN, co2, detrended
from bdl_lessons.datasets.records import Record, where
from bdl_lessons.evaluation import rmse
from bdl_lessons.inference import predict
from bdl_lessons.models import BinaryDropout, Deterministic, Network, initialise, mlp
from bdl_lessons.probability import gaussian_nll
from reproductions import markdown
from reproductions.checkpoint import Checkpoint
from reproductions.experiment import Claim, Experiment, Trial, TrialResult
from reproductions.measure import mean_weights, train_by
from reproductions.records import longest, metric, rounded

ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh}
BEYOND = [n / 100 for n in range(175, 371, 3)]
"""Standardised times after the last month (1.73), to where the published figure ends."""

SPANS = {272: GAL_SPAN, 72: (1975.25, 1981.25)}
"""Number of months -> first and last date; 272 are the published ones."""

_PAPER = {"width": 1024, "batch_size": 68, "n_samples": 1000}
_QUICK = {"width": 16, "batch_size": 68, "n_samples": 20}
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


def trials(scale: str) -> list[Trial]:
    """The published networks of 4 hidden layers, then of 3; all of them briefly, then longer."""
    common = _PAPER if scale == "paper" else _QUICK
    return [
        Trial({**network, **common, "n_steps": n_steps}, seed=0)
        for n_steps in _STEPS[scale]
        for network in _NETWORKS
    ]


def run(trial: Trial) -> TrialResult:
    """Train one network and draw functions from it.

    Metrics, in units of the standardised CO2: RMSE of the mean of the draws and of weight scaling,
    standard deviations of the draws, ``inside`` averaged over the training months, and a ratio.
    """
    config, on = trial.config, device()
    data = detrended(co2(), *SPANS[config["n_months"]])
    x, y = data.x.float().to(on), data.y.float()[:, None].to(on)
    generator, n_steps = seeded(trial.seed), config["n_steps"]
    net = make_network(config, generator)
    how = {"loss": partial(gaussian_nll, tau=1.0), "kl_weight": 0.0}
    how |= {"schedule": lambda step: 1 - step / n_steps}
    how |= {"callback": Checkpoint(trial, net, generator, x, y)}
    train_by(config, net, x, y, generator, n_steps, **how)
    points = torch.cat([x, torch.tensor(BEYOND, device=on)[:, None]])
    draws = predict(net, points, config["n_samples"], "shared", generator=generator)[..., 0]
    mean, std, scaled = draws.mean(0), draws.std(0, correction=0), mean_weights(net, points)[:, 0]
    inside, beyond = std[: len(x)].mean(), std[len(x) :]
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


def make_network(config: dict, generator: torch.Generator) -> Network:
    """Dropout after every hidden layer, none on the input; weights drawn from ``generator``."""
    n_hidden, width = config["n_hidden"], config["width"]
    layers = [Deterministic(), *[BinaryDropout(config["p_drop"])] * n_hidden]
    activation = ACTIVATIONS[config["activation"]]
    net = mlp((1, *[width] * n_hidden, 1), layers, activation).to(generator.device)
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


def table(records: list[Record]) -> str:
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
        x, y = data.x[:, 0].numpy(), data.y.numpy()
        residual = y - np.polynomial.Polynomial.fit(x, y, 2)(x)
        parabolas.append(f"{residual.std():.2f} for {n_months} months")
    prose = _PROSE.format(parabolas=" and ".join(parabolas))
    return f"{markdown.table_of(records, columns)}\n\n{prose}"


def claims(records: list[Record]) -> list[Claim]:
    """How the std of ReLU and of tanh networks goes on beyond the data."""
    trained, growth, told = longest(records, "n_steps"), {}, {}
    for name in ACTIVATIONS:
        nets = where(trained, activation=name)
        growth[name] = np.divide(metric(nets, "std_at_3.7"), metric(nets, "std_at_2.5"))
        told[name] = ", ".join(f"{factor:.2f}" for factor in growth[name])
    relu, tanh = growth["relu"] > 1.5, abs(growth["tanh"] - 1) < 0.1
    deep = where(trained, activation="tanh", n_hidden=4)
    by_rate = sorted((r["config"]["p_drop"], r["metrics"]["std_at_3.7"]) for r in deep)
    rates = ", ".join(f"{std:.2f} with {p_drop:g}" for p_drop, std in by_rate)
    same = abs(np.array([by_rate[-1][1] / by_rate[0][1]]) - 1) < 0.1
    grows = "Beyond the data the standard deviation of MC dropout with ReLU units grows"
    how = f"CO2, {trained[0]['config']['n_steps']:,} steps of Adam, not 1,000,000; figure 2"
    cases = (
        (grows, f"from x = 2.5 to 3.7 times {told['relu']}", relu, "each network, by half or more"),
        ("That with tanh units stays bounded", f"times {told['tanh']}", tanh, "within a tenth"),
        ("and is the same with p_drop 0.1 and 0.2", rates, same, "within a tenth, one net each"),
    )
    return [
        Claim(said, "a picture", ours, holds.sum(), holds.size, f"{how}; {bound}")
        for said, ours, holds, bound in cases
    ]


def figure(records: list[Record]) -> Figure:
    """One row a network, the one trained longest: mean and deviation of the draws, months."""
    by_steps = sorted(records, key=lambda record: record["config"]["n_steps"])
    shown = {(_label(record), record["config"]["n_months"]): record for record in by_steps}
    picture = new_figure(7.2, 2.1 * len(shown) + 0.4, layout="constrained")
    rows = picture.subplots(len(shown), 1, sharex=True, squeeze=False)[:, 0]
    for axes, ((label, n_months), record) in zip(rows, shown.items(), strict=True):
        arrays, data = record["arrays"], detrended(co2(), *SPANS[n_months])
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


_PROSE = """\
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


TITLE = "MC dropout on CO2 (Gal and Ghahramani 2016, figure 2)"
EXPERIMENT = Experiment("co2_mc_dropout", TITLE, trials, run, table, figure, claims)
