"""Lesson 06: which part of the variance of an estimator a larger minibatch removes.

A linear regression on the 442 diabetes patients with independent Gaussian weights. Every part of
the variance has a closed form (:func:`regression_parts`), so nothing is drawn at random.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from torch import Tensor

from bdl_lessons.core import BLUE, GREY, INK, RED, tint
from bdl_lessons.datasets import diabetes
from bdl_lessons.evaluation.stochastic_gradients import Estimator
from bdl_lessons.panels.engine import Choice, Panel, Slider, Update

BATCH_SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
NOISE_SCALES = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
QUANTITIES = {
    "loss": "loss",
    "gradient for μ": "mu",
    "gradient for log σ²": "log_sigma2",
}
ESTIMATORS = {
    "local": (BLUE, "-"),
    "per example": (INK, "--"),
    "per minibatch": (RED, "-."),
}
"""Colour and dash of each way of drawing the weights."""

TAU = 2.0
BAR_WIDTH = 0.62


def panel() -> Panel:
    """The panel of lesson 06: minibatch size, variance of the posterior, and variance of what."""
    return Panel(
        build_figure,
        Slider(
            name="batch_size",
            label="B, examples in a minibatch",
            values=BATCH_SIZES,
            value=100,
        ),
        Slider(
            name="noise_scale",
            label="σ², times that of the posterior",
            values=NOISE_SCALES,
            value=10.0,
        ),
        Choice(
            name="quantity",
            label="variance of",
            values=tuple(QUANTITIES),
            value="gradient for μ",
        ),
        size=(9.6, 3.5),
    )


def build_figure(figure: Figure) -> Update:
    """Left: variance of the gradient against the size of the minibatch on two logarithmic axes:
    noise for each unit falls fastest, noise that a minibatch shares levels off. Right: a stacked
    bar for each kind of noise with the share of examples, own noise and covariance.
    """
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.15))
    figure.subplots_adjust(left=0.085, bottom=0.155, right=0.985, top=0.89, wspace=0.24)

    left.set_title("Variance of the estimator")
    left.set(xscale="log", xlabel="B, examples in a minibatch")
    left.set_xlim(0.9 * BATCH_SIZES[0], 1.1 * BATCH_SIZES[-1])
    left.set(yscale="log", ylim=(3e-4, 30), ylabel="variance (local at B = 1 is 1)")
    sizes = np.geomspace(BATCH_SIZES[0], BATCH_SIZES[-1], 60)
    lines = {}
    for name, (colour, dash) in ESTIMATORS.items():
        (lines[name],) = left.plot(sizes, sizes, color=colour, ls=dash, animated=True)
    here = left.axvline(1, color=GREY, ls=":", lw=1.2, animated=True)
    (half,) = left.plot(1, 1, "o", color=RED, ms=8, animated=True)
    left.legend(lines.values(), lines.keys(), loc="lower left")

    places = range(len(ESTIMATORS))
    title = right.set_title("", animated=True)
    right.set(xlim=(-0.6, places[-1] + 0.6), xticks=places, xticklabels=ESTIMATORS)
    right.set(ylim=(0, 1.2), yticks=np.linspace(0, 1, 6), ylabel="share of per minibatch")
    examples_bars = _draw_bars(right, "examples", color=tint(GREY, 0.6))
    noise_bars = _draw_bars(right, "own noise", color=tint(BLUE, 0.45), hatch="//")
    covariance_bars = _draw_bars(right, "covariance", color=tint(RED, 0.7), hatch="..")
    right.legend(loc="upper left", ncols=3)

    def update(batch_size: int, noise_scale: float, quantity: str) -> str:
        parts = {
            name: example_parts(noise_scale, QUANTITIES[quantity], name) for name in ESTIMATORS
        }
        unit = sum(parts["local"].at(batch_size=1, n_train=1))

        def variance(name: str, size: float) -> float:
            """Of one estimator, as a multiple of local's for a single example."""
            return sum(parts[name].at(size, n_train=1)) / unit

        for name, line in lines.items():
            line.set_ydata([variance(name, size) for size in sizes])
        here.set_xdata([batch_size, batch_size])
        crossing = crossing_size(parts["per minibatch"])
        half.set_data([crossing], [variance("per minibatch", crossing)])

        title.set_text(f"Its parts at B = {batch_size}")
        at_size = np.array([parts[name].at(batch_size, n_train=1) for name in ESTIMATORS])
        local, per_example, per_minibatch = at_size.sum(axis=1)
        data, noise, covariance = (at_size / per_minibatch).T
        _stack(examples_bars, bottoms=0 * data, heights=data)
        _stack(noise_bars, bottoms=data, heights=noise)
        _stack(covariance_bars, bottoms=data + noise, heights=covariance)
        where = "the point on the left" if crossing <= BATCH_SIZES[-1] else "beyond the axis"
        return (
            f"Variance of the {quantity} at B = {batch_size}: per minibatch <b>"
            f"{per_minibatch / local:.2f}</b> and per example <b>{per_example / local:.2f}</b> "
            f"times that of local. Covariance: <b>{100 * covariance[-1]:.0f} %</b> of per "
            f"minibatch. It is more than half of it from B = <b>{crossing}</b> on ({where})."
        )

    return update


class VarianceParts(NamedTuple):
    """The parts of the variance of one example's term: ``Var[L_i] = data + noise``.

    Attributes:
        data: variance over examples of the term's mean over noise.
        noise: mean over examples of the term's variance over noise.
        shared: ``Cov[L_i, L_j]`` of two examples drawn at random; 0 if they share no noise.
    """

    data: float
    noise: float
    shared: float

    def at(self, batch_size: float, n_train: int) -> "VarianceParts":
        """The parts of the minibatch estimator's variance; they sum to it.

        Examples are drawn with replacement. Data and noise fall as ``1 / batch_size``; ``shared``
        grows to its full size.

        >>> VarianceParts(data=3.0, noise=2.0, shared=0.5).at(batch_size=4, n_train=10)
        VarianceParts(data=75.0, noise=50.0, shared=37.5)
        """
        scale = n_train**2 / batch_size
        shared = scale * (batch_size - 1) * self.shared
        return VarianceParts(scale * self.data, scale * self.noise, shared)


def crossing_size(parts: VarianceParts) -> int:
    """The smallest B at which the covariance is more than half of the variance."""
    return int((parts.data + parts.noise) / parts.shared) + 2


@cache
def example_parts(noise_scale: float, quantity: str, estimator: Estimator) -> VarianceParts:
    """The parts for one example, with the posterior's variances multiplied by ``noise_scale``."""
    x, y, mu, var = posterior()
    return regression_parts(x, y, mu, noise_scale * var, TAU, quantity, estimator)


@cache
def posterior() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Standardised diabetes data and the best independent Gaussians under the prior N(0, 1).

    The mean is the exact posterior's, and the variances are one over the diagonal of its precision
    (lesson 02). ``TAU`` is about one over the variance of the residuals.
    """
    data = diabetes()
    x = ((data.x - data.x.mean(0)) / data.x.std(0, correction=0)).double()
    y = ((data.y - data.y.mean()) / data.y.std(correction=0)).double()
    precision = TAU * x.T @ x + torch.eye(x.shape[1], dtype=torch.float64)
    mu = torch.linalg.solve(precision, TAU * x.T @ y)
    return x, y, mu, 1 / precision.diagonal()


def regression_parts(
    x: Tensor,
    y: Tensor,
    mu: Tensor,
    var: Tensor,
    tau: float,
    quantity: str,
    estimator: Estimator,
) -> VarianceParts:
    r"""The parts in closed form for :math:`L_i = \frac\tau2 (y_i - x_i^\top w)^2`.

    With ``w ~ N(mu, diag(var))`` the errors :math:`e_i = x_i^\top (w - \mu)` are jointly Gaussian
    with covariance :math:`\Delta_{ij} = \sum_k x_{ik} x_{jk} \sigma_k^2`, so every moment is
    elementary; means over pairs of examples become products of means over examples. For one
    example and ``tau = 2`` this is the variance of the gradient of :math:`(b - t)^2`.

    Args:
        x: ``(N, K)``. y: ``(N,)``. mu, var: ``(K,)``, mean and variance of the weights.
        tau: noise precision of y.
        quantity: one of ``QUANTITIES``: the loss, or its gradient for ``mu`` or ``log_sigma2``
            (averaged over the K).
        estimator: how the weights are drawn; not ``"no noise"``.

    >>> one, two = torch.ones(1, 1), torch.tensor([2.0])
    >>> regression_parts(one, torch.zeros(1), two, two, 1.0, "mu", "local")
    VarianceParts(data=0.0, noise=2.0, shared=0.0)
    """
    r = y - x @ mu
    delta = x.square() @ var
    xr = (x * r[:, None]).mean(0)
    xx = x.T @ x / len(x)
    covered = xx.square() @ var  # mean over i, j of x_ik x_jk Delta_ij
    if quantity == "loss":
        mean = tau / 2 * (r.square() + delta)
        noise = tau**2 * (r.square() * delta + delta.square() / 2)
        shared = tau**2 * (xr.square() @ var + covered @ var / 2)
    elif quantity == "mu":
        mean = -tau * x * r[:, None]
        noise = tau**2 * x.square() * delta[:, None]
        shared = tau**2 * covered
    else:
        r2 = r.square()[:, None]
        d = delta[:, None]
        var_x2 = var * x.square()
        mean = tau / 2 * var_x2
        if estimator == "local":
            smallest = torch.finfo(d.dtype).tiny  # a row of zeros has no noise
            noise = mean.square() * (r2 / d.clamp_min(smallest) + 2)
        else:
            noise = tau**2 / 4 * var_x2 * (r2 + d + var_x2)
        shared = tau**2 / 4 * var * (xr.square() + covered + var * xx.diagonal().square())
    if estimator != "per minibatch":
        shared = torch.zeros_like(shared)
    return VarianceParts(
        data=mean.var(0, correction=0).mean().item(),
        noise=noise.mean().item(),
        shared=shared.mean().item(),
    )


def _draw_bars(axes: Axes, label: str, color: tuple[float, ...], hatch: str = "") -> BarContainer:
    """One bar for each of ``ESTIMATORS``, still without height."""
    return axes.bar(
        range(len(ESTIMATORS)),
        height=0,
        width=BAR_WIDTH,
        facecolor=color,
        hatch=hatch,
        edgecolor=INK,
        lw=0.6,
        label=label,
        animated=True,
    )


def _stack(bars: BarContainer, bottoms: np.ndarray, heights: np.ndarray) -> None:
    for bar, bottom, height in zip(bars, bottoms, heights, strict=True):
        bar.set(y=bottom, height=height)
