"""Lesson 05: MC dropout on windows of six years of CO2; unit, drop rate and noise precision.

Networks were trained in six windows, at each rate, with ReLU and tanh. 50 functions of the one of
median coverage are stored for each, and how many of the 42 later months the intervals of all of
them contain. tau adds observation noise to functions that stay the same.
"""

from dataclasses import dataclass
from functools import cache, partial

import numpy as np
import torch
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from scipy.special import ndtr
from torch import Tensor, nn

from bdl_lessons.core import BLUE, INK, ORANGE, RED, tint
from bdl_lessons.datasets import DetrendedCO2, co2, detrended
from bdl_lessons.models import BinaryDropout, Network, wrap
from bdl_lessons.panels import arrays
from bdl_lessons.panels.engine import Choice, Panel, Slider, Update

STARTS = (1965.25, 1970.25, 1975.25, 1980.25, 1985.25, 1990.25)
START = 1975.25  # the window of the lesson
N_YEARS = 6
N_LATER_YEARS = 3.5
RATES = (0.05, 0.2, 0.5)
LESSON_RATE = 0.05
TAUS = (0.5, 2.0, 6.0, 25.0)  # the networks were trained with about 6
LESSON_TAU = 6.0
ACTIVATIONS = {"ReLU": nn.ReLU, "tanh": nn.Tanh}
N_FUNCTIONS = 50
WIDTH = 64
N_HIDDEN = 3


@dataclass(frozen=True)
class Window:
    """Six years of months, detrended and standardised, and the 42 months after them.

    ``x`` and ``y`` are ``(72, 1)``, ``x_later`` and ``y_later`` ``(42, 1)`` in the same units, all
    float64. Two months of each year are held out: ``is_held_out`` is ``(72,)``.
    """

    data: DetrendedCO2
    x: Tensor
    y: Tensor
    is_held_out: Tensor
    x_later: Tensor
    y_later: Tensor
    years_later: Tensor
    ppm_later: Tensor


@cache
def window(start: float) -> Window:
    """The six years from ``start``, in decimal years, and what came later."""
    series = co2()
    end = start + N_YEARS
    data = detrended(series, start, end)
    is_later = (series.times >= end) & (series.times < end + N_LATER_YEARS)
    x_later = data.to_x(series.times[is_later])
    return Window(
        data=data,
        x=data.x,
        y=data.y[:, None],
        is_held_out=torch.arange(len(data.x)) * 13 // 12 % 6 == 3,
        x_later=x_later[:, None],
        y_later=data.to_y(x_later, series.ppm[is_later])[:, None],
        years_later=series.times[is_later],
        ppm_later=series.ppm[is_later],
    )


def network(p_drop: float, activation: type[nn.Module]) -> Network:
    """Three hidden layers of 64 units, dropout after each of them, untrained.

    The first layer starts with slopes of 2 to 6 in size, and each unit switches at a place in the
    data. PyTorch's global generator draws the start.
    """
    layers: list[nn.Module] = [nn.Linear(1, WIDTH), activation()]
    for _ in range(N_HIDDEN - 1):
        layers += [nn.Linear(WIDTH, WIDTH), activation()]
    layers.append(nn.Linear(WIDTH, 1))
    net = nn.Sequential(*layers)
    slope = (2 + 4 * torch.rand(WIDTH)) * torch.sign(torch.rand(WIDTH) - 0.5)
    with torch.no_grad():
        net[0].weight[:, 0] = slope
        net[0].bias[:] = slope * (3.6 * torch.rand(WIDTH) - 1.8)
    rates = (0.0, *[p_drop] * N_HIDDEN)
    return wrap(net, [partial(BinaryDropout, p_drop=rate, length_scale=0.01) for rate in rates])


def trained(activation: type[nn.Module]) -> Network:
    """The stored network with ``nn.ReLU`` or ``nn.Tanh``: the lesson's window and rate.

    It has the median coverage of fifteen.
    """
    with torch.random.fork_rng(devices=[]):
        net = network(LESSON_RATE, activation)
    weights = torch.from_numpy(arrays.load("mc_dropout_co2")[activation.__name__])
    with torch.no_grad():
        nn.utils.vector_to_parameters(weights.float(), net.parameters())
    return net


def panel() -> Panel:
    """The panel of lesson 05: first year of the window, unit, ``p_drop`` and ``tau`` in 1/ppm²."""
    return Panel(
        build_figure,
        Slider(
            name="start",
            label="training begins in",
            values=STARTS,
            value=START,
            show="{:.0f}".format,
        ),
        Choice(
            name="activation",
            label="units",
            values=tuple(ACTIVATIONS),
            value="ReLU",
        ),
        Slider(
            name="p_drop",
            label="p_drop, drop probability",
            values=RATES,
            value=LESSON_RATE,
        ),
        Slider(
            name="tau",
            label="τ, noise precision (1/ppm²)",
            values=TAUS,
            value=LESSON_TAU,
        ),
        size=(9.6, 3.8),
    )


def build_figure(figure: Figure) -> Update:
    """Left: the months of one window, and draws, mean and 95 % band of a network, which leave the
    later months. Right: for every window, how many of its later months the bands of several
    networks contain, each a dot; nearly all are far below 95 %.
    """
    stored = arrays.load("mc_dropout_co2")
    left, right = figure.subplots(1, 2, width_ratios=(1.7, 1))
    figure.subplots_adjust(left=0.075, bottom=0.14, right=0.985, top=0.91, wspace=0.2)

    left.set_title("50 masks: mean and 95 % interval")
    band = left.fill_between([0, 1], 0, 1, color=tint(BLUE, 0.3), lw=0, animated=True)
    draw_lines = LineCollection([], colors=BLUE, lw=0.5, alpha=0.6, ls="-", animated=True)
    left.add_collection(draw_lines)
    (mean_line,) = left.plot([], [], color=BLUE, ls="-", lw=2.2, zorder=3, animated=True)
    (train_dots,) = left.plot([], [], ".", color=INK, ms=4, zorder=4, animated=True)
    (later_dots,) = left.plot([], [], "x", color=RED, ms=4, zorder=4, animated=True)
    left.axvline(N_YEARS, color=INK, lw=0.8, ls="--")
    left.set(xlim=(0, N_YEARS + N_LATER_YEARS), xlabel="years from the start of training")
    left.set(ylim=(-12, 12), ylabel="CO2 − trend line (ppm)")
    left.legend(
        [train_dots, later_dots, mean_line],
        ["months of the six years", "later months", "mean"],
        loc="lower left",
    )

    right.set_title("Later months in the interval")
    places = np.arange(len(STARTS))
    (network_dots,) = right.plot([], [], "o", ms=5, mew=0, color=BLUE, alpha=0.5, animated=True)
    medians = LineCollection([], colors=INK, lw=2.5, animated=True)
    right.add_collection(medians)
    here = right.axvspan(0, 0, color=tint(ORANGE, 0.4), lw=0, animated=True)
    right.axhline(95, color=INK, lw=0.8, ls="--")
    right.set(xlim=(-0.6, len(STARTS) - 0.4), ylim=(-3, 103), ylabel="%")
    right.set_xlabel("training begins in")
    right.set_xticks(places, [f"{start:.0f}" for start in STARTS])

    def update(start: float, activation: str, p_drop: float, tau: float) -> str:
        place = STARTS.index(start)
        unit = list(ACTIVATIONS).index(activation)
        rate = RATES.index(p_drop)
        months = window(start)
        scale = months.data.residual_std
        x = torch.cat([months.x, months.x_later])
        years = (months.data.to_years(x[:, 0]) - start).numpy()
        f = scale * stored["draws"][unit, place, rate].astype(float)  # (S, months), ppm
        low, high = interval(f, tau)

        band.set_data(years, low, high)
        draw_lines.set_segments([np.column_stack([years, draw]) for draw in f[:12]])
        mean_line.set_data(years, f.mean(axis=0))
        train_dots.set_data(years[: len(months.x)], scale * months.y[:, 0])
        later_dots.set_data(years[len(months.x) :], scale * months.y_later[:, 0])

        covered = stored["covered"][unit, :, rate, TAUS.index(tau)].astype(float)
        n_networks = int(np.isfinite(covered[0]).sum())
        covered = np.sort(covered[:, :n_networks], axis=1)  # (windows, networks)
        shift = np.linspace(-0.3, 0.3, n_networks)
        network_dots.set_data((places[:, None] + shift).ravel(), covered.ravel())
        middle = np.median(covered, axis=1)
        ends = [
            [(k - 0.38, value), (k + 0.38, value)] for k, value in zip(places, middle, strict=True)
        ]
        medians.set_segments(ends)
        here.set_bounds(place - 0.48, 0, 0.96, 1)
        return (
            f"Of the 42 months after this window the intervals of {n_networks} networks contain "
            f"<b>{middle[place]:.0f} %</b> in the median ({covered[place].min():.0f} to "
            f"{covered[place].max():.0f} %). Over all windows the medians go from "
            f"{middle.min():.0f} to {middle.max():.0f} %."
        )

    return update


def interval(f: np.ndarray, tau: float) -> tuple[np.ndarray, np.ndarray]:
    """The 2.5 % and 97.5 % quantiles of y at each month, from draws ``f`` ``(S, months)``.

    y is a mixture of Gaussians with means ``f`` and variance ``1/tau``; its distribution function
    is inverted by bisection.
    """
    reach = 6 / tau**0.5
    ends = []
    for level in (0.025, 0.975):
        low = f.min(axis=0) - reach
        high = f.max(axis=0) + reach
        for _ in range(30):
            middle = (low + high) / 2
            is_below = ndtr((middle - f) * tau**0.5).mean(axis=0) < level
            low = np.where(is_below, middle, low)
            high = np.where(is_below, high, middle)
        ends.append(middle)
    return ends[0], ends[1]
