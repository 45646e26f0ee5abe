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
START, END, HORIZON = 1975.25, 1981.25, 1984.75
WIDTH, N_HIDDEN, LESSON_RATE = 128, 3, 0.05
DRAWS = (2, 5, 10, 20, 50, 100)
TAUS = (0.25, 0.5, 1.0, 2.0, 6.0, 10.0, 25.0, 100.0)  # the networks were trained with 5.9


def panel() -> Panel:
    """The panel of lesson 05: ``p_drop``, ``n_samples`` and ``tau`` in 1/ppm²."""
    return Panel(
        build_figure,
        Slider("p_drop", "p_drop, drop probability", RATES, LESSON_RATE),
        Slider("n_samples", "S, number of draws", DRAWS, 20),
        Slider("tau", "τ, noise precision (1/ppm²)", TAUS, 6.0, web=TAUS[::2]),
        size=(9.6, 3.6),
    )


def build_figure(figure: Figure) -> Update:
    """Left: the monthly concentration of CO2, and draws, mean and band of the network, which leave
    the later months. Right: the predictive standard deviation over the years, with its epistemic
    and its aleatoric part.
    """
    stored = arrays.load("mc_dropout_co2")
    data = six_years()
    x = torch.from_numpy(stored["x"])[:, None]
    years = data.to_years(x[:, 0])
    future = co2()
    chosen = (future.times >= END) & (future.times < HORIZON)
    test_years = future.times[chosen]
    test_ppm = future.ppm[chosen]
    left, right = figure.subplots(1, 2, width_ratios=(1.7, 1))
    figure.subplots_adjust(0.07, 0.15, 0.99, 0.9, wspace=0.2)

    band = left.fill_between(years, 0, 1, color=tint(BLUE, 0.3), lw=0, animated=True)
    lines = LineCollection([], colors=BLUE, lw=0.5, alpha=0.6, ls="-", animated=True)
    left.add_collection(lines)
    (mean,) = left.plot([], [], color=BLUE, ls="-", lw=2.2, animated=True, zorder=3)
    train_years = data.to_years(data.x[:, 0])
    train_ppm = data.to_ppm(data.x[:, 0], data.y)
    (seen,) = left.plot(train_years, train_ppm, ".", color=INK, ms=4, animated=True, zorder=4)
    (hidden,) = left.plot(test_years, test_ppm, "x", color=RED, ms=4, animated=True, zorder=4)
    left.axvline(END, color=INK, lw=0.8, ls="--")
    left.set(xlim=(START, HORIZON), ylim=(322, 358), xlabel="year", ylabel="CO2 (ppm)")
    left.set_title("Mean ± 2 predictive standard deviations")
    names = ["training months", "later months", "mean of S draws"]
    left.legend([seen, hidden, mean], names, loc="lower right")

    (epistemic_line,) = right.plot([], [], color=BLUE, ls="--", animated=True)
    (noise_line,) = right.plot([], [], color=GREEN, ls=":", animated=True)
    (total_line,) = right.plot([], [], color=INK, ls="-", animated=True)
    right.axvline(END, color=INK, lw=0.8, ls="--")
    right.set(xlim=(START, HORIZON), ylim=(0, 8), xlabel="year", ylabel="standard deviation (ppm)")
    right.set_title("Its two parts: squares add")
    names = ["predictive", "epistemic (draws)", "aleatoric, 1/√τ"]
    right.legend([total_line, epistemic_line, noise_line], names, loc="upper left")

    def update(p_drop: float, n_samples: int, tau: float) -> str:
        draws = torch.from_numpy(stored["draws"][RATES.index(p_drop), :n_samples]).double()
        ppm = data.to_ppm(x[:, 0], draws)[..., None]
        centre = ppm.mean(0)[:, 0]
        std = predictive_var(ppm, tau)[:, 0].sqrt()
        epistemic = ppm.std(0, correction=0)[:, 0]
        band.set_data(years, centre - 2 * std, centre + 2 * std)
        lines.set_segments([np.column_stack([years, draw]) for draw in ppm[:20, :, 0]])
        mean.set_data(years, centre)
        epistemic_line.set_data(years, epistemic)
        noise_line.set_data(years, np.full(len(years), tau**-0.5))
        total_line.set_data(years, std)
        at_test = torch.from_numpy(np.stack([np.interp(test_years, years, d) for d in ppm[..., 0]]))
        score = log_predictive_likelihood(at_test[..., None], test_ppm[:, None], tau).mean()
        test_std = torch.from_numpy(np.interp(test_years, years, std))
        inside = ((test_ppm - at_test.mean(0)).abs() <= 2 * test_std).double()
        return (
            f"Standard deviation of the draws: <b>{epistemic[years < END].mean():.2f} ppm</b> on "
            f"average over the training months, <b>{epistemic[-1]:.2f} ppm</b> at the end. "
            f"Later months inside the band: {100 * inside.mean():.0f} %; log predictive "
            f"likelihood {score:.2f} nats."
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
