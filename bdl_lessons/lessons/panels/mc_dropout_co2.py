"""Lesson 05: MC dropout on six years of CO2; drop rate, number of draws and noise precision.

A ReLU network was trained at each rate; 100 of its functions are stored. T takes the first T of
them, and tau adds noise to a spread that stays the same.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from torch import nn

from bdl_lessons.core import BLUE, GREEN, INK, VERMILLION, tint
from bdl_lessons.datasets import co2, detrended
from bdl_lessons.datasets.co2 import DetrendedCO2
from bdl_lessons.evaluation import log_predictive_likelihood, predictive_var
from bdl_lessons.inference import adam, fit, predict
from bdl_lessons.lessons.panel import Panel, Slider, Update
from bdl_lessons.lessons.panels import arrays
from bdl_lessons.models import BinaryDropout, Network, initialise, mlp
from bdl_lessons.probability import gaussian_nll

RATES = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5)
DRAWS = (2, 5, 10, 20, 50, 100)
TAUS = (0.25, 0.5, 1.0, 2.0, 4.0, 10.0, 25.0, 100.0)
START, END, HORIZON = 1975.25, 1981.25, 1984.75
WIDTH, N_HIDDEN, TRAIN_TAU = 128, 3, 25.0
LESSON_RATE = 0.05


def panel() -> Panel:
    """The panel of lesson 05: ``p_drop``, ``n_samples`` and ``tau`` in 1/ppm²."""
    return Panel(
        "mc-dropout-co2",
        build_figure,
        [
            Slider("p_drop", "p_drop, drop probability", RATES, LESSON_RATE),
            Slider("n_samples", "T, number of draws", DRAWS, 20),
            Slider("tau", "τ, noise precision (1/ppm²)", TAUS, 4.0),
        ],
        size=(9.6, 3.6),
    )


def build_figure(figure: Figure) -> Update:
    """Left: draws, mean and band over the months. Right: what the band is made of."""
    stored, data = arrays.load("mc_dropout_co2"), six_years()
    x = torch.from_numpy(stored["x"])[:, None]
    years, future = data.to_years(x[:, 0]), co2()
    chosen = (future.times >= END) & (future.times < HORIZON)
    test_years, test_ppm = future.times[chosen], future.ppm[chosen]
    left, right = figure.subplots(1, 2, width_ratios=(1.7, 1))
    figure.subplots_adjust(0.07, 0.15, 0.99, 0.9, wspace=0.2)

    band = left.fill_between(years, 0, 1, color=tint(BLUE, 0.3), lw=0, animated=True)
    lines = LineCollection(
        [], colors=BLUE, linewidths=0.5, alpha=0.6, linestyles="-", animated=True
    )
    left.add_collection(lines)
    (mean,) = left.plot([], [], color=BLUE, ls="-", lw=2.2, animated=True, zorder=3)
    train_years = data.to_years(data.x[:, 0])
    train_ppm = data.to_ppm(data.x[:, 0], data.y)
    (seen,) = left.plot(train_years, train_ppm, ".", color=INK, ms=4, animated=True, zorder=4)
    (hidden,) = left.plot(
        test_years, test_ppm, "x", color=VERMILLION, ms=4, animated=True, zorder=4
    )
    left.axvline(END, color=INK, lw=0.8, ls="--")
    left.set(xlim=(START, HORIZON), ylim=(322, 358), xlabel="year", ylabel="CO2 (ppm)")
    left.set_title("Mean ± 2 predictive standard deviations")
    left.legend(
        [seen, hidden, mean],
        ["training months", "later months", "mean of T draws"],
        loc="lower right",
    )

    (spread_line,) = right.plot([], [], color=BLUE, ls="--", animated=True)
    (noise_line,) = right.plot([], [], color=GREEN, ls=":", animated=True)
    (total_line,) = right.plot([], [], color=INK, ls="-", animated=True)
    right.axvline(END, color=INK, lw=0.8, ls="--")
    right.set(xlim=(START, HORIZON), ylim=(0, 8), xlabel="year")
    right.set_ylabel("standard deviation (ppm)")
    right.set_title("Spread and noise: squares add")
    right.legend(
        [total_line, spread_line, noise_line],
        ["predictive", "spread of the draws", "noise, 1/√τ"],
        loc="upper left",
    )

    def update(p_drop: float, n_samples: int, tau: float) -> str:
        draws = torch.from_numpy(stored["draws"][RATES.index(p_drop), :n_samples]).double()
        ppm = data.to_ppm(x[:, 0], draws)[..., None]
        centre, std = ppm.mean(0)[:, 0], predictive_var(ppm, tau)[:, 0].sqrt()
        spread = ppm.std(0, correction=0)[:, 0]
        band.set_data(years, centre - 2 * std, centre + 2 * std)
        lines.set_segments([np.column_stack([years, draw]) for draw in ppm[:20, :, 0]])
        mean.set_data(years, centre)
        spread_line.set_data(years, spread)
        noise_line.set_data(years, np.full(len(years), tau**-0.5))
        total_line.set_data(years, std)
        at_test = torch.stack(
            [torch.from_numpy(np.interp(test_years, years, draw)) for draw in ppm[..., 0]]
        )
        score = log_predictive_likelihood(at_test[..., None], test_ppm[:, None], tau).mean()
        test_std = torch.from_numpy(np.interp(test_years, years, std))
        inside = ((test_ppm - at_test.mean(0)).abs() <= 2 * test_std).double()
        return (
            f"Spread of the draws: <b>{spread[years < END].mean():.2f} ppm</b> on average over the "
            f"training months, <b>{spread[-1]:.2f} ppm</b> at the end. Later months inside the "
            f"band: {100 * inside.mean():.0f} %; log predictive likelihood {score:.2f} nats."
        )

    return update


def six_years() -> DetrendedCO2:
    """The 72 months before March 1981, detrended and standardised."""
    return detrended(co2(), START, END)


def untrained(p_drop: float, activation: type[nn.Module], generator: torch.Generator) -> Network:
    """Three hidden layers of 128 units with fresh weights; dropout after every hidden layer.

    The units of the first layer switch at places spread over the data, with steep slopes. From
    the customary zero biases a small network needs very many steps to learn six seasons.
    """
    plain, drop = BinaryDropout(0.0, 0.01), BinaryDropout(p_drop, 0.01)
    net = mlp((1, *[WIDTH] * N_HIDDEN, 1), [plain, *[drop] * N_HIDDEN], activation)
    initialise(net, generator, weight_var=2.0 if activation is nn.ReLU else 1.0)
    place, steepness, sign = torch.rand(3, WIDTH, generator=generator)
    slope = (2 + 4 * steepness) * torch.where(sign < 0.5, -1, 1)
    with torch.no_grad():
        net[0].weight.copy_(slope[:, None])
        net[0].bias.copy_(-slope * (3.6 * place - 1.8))
    return net


def train(net: Network, generator: torch.Generator, n_steps: int) -> Network:
    """Fit ``net`` to the six years by Adam, with a learning rate that falls to 0; returns it."""
    data, device = six_years(), net[0].weight.device
    fit(
        net,
        data.x.float().to(device),
        data.y.float()[:, None].to(device),
        partial(gaussian_nll, tau=TRAIN_TAU),
        n_steps=n_steps,
        generator=generator,
        optimizer=adam(3e-3),
        schedule=lambda step: 1 - step / n_steps,
    )
    return net


def trained(activation: type[nn.Module]) -> Network:
    """The stored network with ``nn.ReLU`` or ``nn.Tanh``, trained at ``LESSON_RATE``."""
    net = untrained(LESSON_RATE, activation, torch.Generator())
    weights = torch.from_numpy(arrays.load("mc_dropout_co2")[activation.__name__])
    with torch.no_grad():
        nn.utils.vector_to_parameters(weights.float(), net.parameters())
    return net


def make_arrays(n_steps: int = 6000) -> dict[str, np.ndarray]:
    """Train a ReLU network for each rate and return 100 functions of each on a grid of times.

    With them come the weights of the two networks that the lesson itself asks: the ReLU network at
    ``LESSON_RATE`` and one with tanh.
    """
    data = six_years()
    x = torch.linspace(data.x.min(), data.to_x(torch.tensor(HORIZON)), 180)
    draws, weights = [], {}
    for p_drop, activation in [*((rate, nn.ReLU) for rate in RATES), (LESSON_RATE, nn.Tanh)]:
        generator = torch.Generator().manual_seed(3)
        net = train(untrained(p_drop, activation, generator), generator, n_steps)
        if p_drop == LESSON_RATE:
            flat = nn.utils.parameters_to_vector(net.parameters())
            weights[activation.__name__] = flat.detach().half().numpy()
        if activation is nn.ReLU:
            functions = predict(net, x[:, None], max(DRAWS), "shared", generator=generator)
            draws.append(functions[..., 0])
    return {"x": x.double().numpy(), "draws": torch.stack(draws).half().numpy(), **weights}
