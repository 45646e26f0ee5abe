"""Lesson 05: MC dropout on six years of CO2; drop rate, number of draws and noise precision.

A ReLU network was trained at each rate; 100 of its functions are stored. S takes the first S of
them, and tau adds observation noise to an epistemic standard deviation that stays the same.
"""

from functools import partial

import numpy as np
import torch
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from torch import nn

from bdl_lessons.core import BLUE, GREEN, INK, RED, tint
from bdl_lessons.datasets import DetrendedCO2, co2, detrended
from bdl_lessons.evaluation import log_predictive_likelihood, predictive_var
from bdl_lessons.models import BinaryDropout, Deterministic, Network, mlp
from bdl_lessons.panels import arrays
from bdl_lessons.panels.engine import Panel, Slider, Update

RATES = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5)
LESSON_RATE = 0.05
DRAWS = (2, 5, 10, 20, 50, 100)
TAUS = (0.25, 0.5, 1.0, 2.0, 6.0, 10.0, 25.0, 100.0)  # the networks were trained with 5.9
START = 1975.25
END = 1981.25  # training months are before it
HORIZON = 1984.75
WIDTH = 128
N_HIDDEN = 3


def panel() -> Panel:
    """The panel of lesson 05: ``p_drop``, ``n_samples`` and ``tau`` in 1/ppm²."""
    return Panel(
        build_figure,
        Slider(
            name="p_drop",
            label="p_drop, drop probability",
            values=RATES,
            value=LESSON_RATE,
        ),
        Slider(
            name="n_samples",
            label="S, number of draws",
            values=DRAWS,
            value=20,
        ),
        Slider(
            name="tau",
            label="τ, noise precision (1/ppm²)",
            values=TAUS,
            value=6.0,
            web=TAUS[::2],
        ),
        size=(9.6, 3.6),
    )


def build_figure(figure: Figure) -> Update:
    """Left: the monthly concentration of CO2, and draws, mean and band of the network, which leave
    the later months. Right: the predictive standard deviation over the years, with its epistemic
    and its aleatoric part.
    """
    stored = arrays.load("mc_dropout_co2")
    data = six_years()
    train_years = data.to_years(data.x[:, 0])
    train_ppm = data.to_ppm(data.x[:, 0], data.y)
    record = co2()
    is_test = (record.times >= END) & (record.times < HORIZON)
    test_years = record.times[is_test]
    test_ppm = record.ppm[is_test]
    x = torch.from_numpy(stored["x"])
    years = data.to_years(x)

    left, right = figure.subplots(1, 2, width_ratios=(1.7, 1))
    figure.subplots_adjust(left=0.07, bottom=0.15, right=0.99, top=0.9, wspace=0.2)

    left.set_title("Mean ± 2 predictive standard deviations")
    band = left.fill_between(years, 0, 1, color=tint(BLUE, 0.3), lw=0, animated=True)
    draw_lines = LineCollection([], colors=BLUE, lw=0.5, alpha=0.6, ls="-", animated=True)
    left.add_collection(draw_lines)
    (mean_line,) = left.plot([], [], color=BLUE, ls="-", lw=2.2, zorder=3, animated=True)
    (train_dots,) = left.plot(train_years, train_ppm, ".", color=INK, ms=4, zorder=4, animated=True)
    (test_dots,) = left.plot(test_years, test_ppm, "x", color=RED, ms=4, zorder=4, animated=True)
    left.axvline(END, color=INK, lw=0.8, ls="--")
    left.set(xlim=(START, HORIZON), xlabel="year")
    left.set(ylim=(322, 358), ylabel="CO2 (ppm)")
    left.legend(
        [train_dots, test_dots, mean_line],
        ["training months", "later months", "mean of S draws"],
        loc="lower right",
    )

    right.set_title("Its two parts: squares add")
    (epistemic_line,) = right.plot([], [], color=BLUE, ls="--", animated=True)
    (aleatoric_line,) = right.plot([], [], color=GREEN, ls=":", animated=True)
    (predictive_line,) = right.plot([], [], color=INK, ls="-", animated=True)
    right.axvline(END, color=INK, lw=0.8, ls="--")
    right.set(xlim=(START, HORIZON), xlabel="year")
    right.set(ylim=(0, 8), ylabel="standard deviation (ppm)")
    right.legend(
        [predictive_line, epistemic_line, aleatoric_line],
        ["predictive", "epistemic (draws)", "aleatoric, 1/√τ"],
        loc="upper left",
    )

    def update(p_drop: float, n_samples: int, tau: float) -> str:
        draws = torch.from_numpy(stored["draws"][RATES.index(p_drop), :n_samples]).double()
        ppm = data.to_ppm(x, draws)  # (S, months)
        mean = ppm.mean(0)
        epistemic_std = ppm.std(0, correction=0)
        aleatoric_std = tau**-0.5
        predictive_std = predictive_var(ppm[..., None], tau)[:, 0].sqrt()

        band.set_data(years, mean - 2 * predictive_std, mean + 2 * predictive_std)
        draw_lines.set_segments([np.column_stack([years, draw]) for draw in ppm[:20]])
        mean_line.set_data(years, mean)
        epistemic_line.set_data(years, epistemic_std)
        aleatoric_line.set_data(years, np.full(len(years), aleatoric_std))
        predictive_line.set_data(years, predictive_std)

        test_draws = torch.from_numpy(
            np.stack([np.interp(test_years, years, draw) for draw in ppm])
        )
        test_std = torch.from_numpy(np.interp(test_years, years, predictive_std))
        is_inside = (test_ppm - test_draws.mean(0)).abs() <= 2 * test_std
        log_likelihood = log_predictive_likelihood(
            test_draws[..., None], test_ppm[:, None], tau
        ).mean()
        return (
            f"Standard deviation of the draws: <b>{epistemic_std[years < END].mean():.2f} ppm</b> "
            f"on average over the training months, <b>{epistemic_std[-1]:.2f} ppm</b> at the end. "
            f"Later months inside the band: {100 * is_inside.double().mean():.0f} %; log "
            f"predictive likelihood {log_likelihood:.2f} nats."
        )

    return update


def six_years() -> DetrendedCO2:
    """The 72 months before March 1981, detrended and standardised."""
    return detrended(co2(), START, END)


def network(p_drop: float, activation: type[nn.Module]) -> Network:
    """Three hidden layers of 128 units, dropout after each of them, untrained."""
    plain = partial(Deterministic, length_scale=0.01)
    drop = partial(BinaryDropout, p_drop=p_drop, length_scale=0.01)
    return mlp((1, *[WIDTH] * N_HIDDEN, 1), [plain, *[drop] * N_HIDDEN], activation)


def trained(activation: type[nn.Module]) -> Network:
    """The stored network with ``nn.ReLU`` or ``nn.Tanh``, trained at ``LESSON_RATE``."""
    net = network(LESSON_RATE, activation)
    weights = torch.from_numpy(arrays.load("mc_dropout_co2")[activation.__name__])
    with torch.no_grad():
        nn.utils.vector_to_parameters(weights.float(), net.parameters())
    return net
