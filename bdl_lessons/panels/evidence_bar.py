"""Lesson 02: move a Gaussian q over a true posterior and watch the evidence split in two.

Left: q over the posterior. Right: two steps. The expected log-likelihood less KL(q || prior) is the
ELBO; what is missing to the log evidence is KL(q || posterior). Both
posteriors are shown in the same coordinates, distances from the posterior mean in posterior
standard deviations, so that one set of sliders serves both.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from contourpy import contour_generator
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from bdl_lessons.core import BLUE, GREY, INK, ORANGE, RED, tint
from bdl_lessons.datasets import bioassay
from bdl_lessons.panels.engine import Choice, Panel, Slider, Update
from bdl_lessons.probability import gaussian_kl_full
from bdl_lessons.reference import BayesLinear, BayesLogistic, GridPosterior, gauss_hermite

LINE = "line, three points"
BIOASSAY = "bioassay"
SHIFTS = tuple(round(0.1 * step, 1) for step in range(-20, 21))
SCALES = tuple(round(0.05 * step, 2) for step in range(4, 41))
EXACT_CORRELATION = -math.sqrt(0.6)
CORRELATIONS = tuple(sorted([EXACT_CORRELATION, *(round(0.05 * k, 2) for k in range(-18, 19))]))
WEB_SHIFTS_1 = (-1.5, -0.5, 0.0, 0.6, 1.5)
WEB_SHIFTS_2 = (-1.5, -0.5, 0.0, 0.5, 1.5)
WEB_SCALES = (0.3, 0.45, 0.6, 0.85, 1.0, 2.0)
WEB_CORRELATIONS = (-0.9, EXACT_CORRELATION, -0.4, 0.0, 0.5, 0.8)
MASS = (0.9, 0.5, 0.1)  # share of the posterior inside each contour
DEEPEST = 9.0  # nats below the evidence that the picture shows
ANGLE = np.linspace(0, 2 * np.pi, 90)
CIRCLE = np.stack([np.cos(ANGLE), np.sin(ANGLE)])


@dataclass(frozen=True)
class Target:
    """A posterior over two weights and what is needed to place a q on it.

    Attributes:
        mean, std: of the posterior, ``(2,)`` each.
        log_evidence: in nats.
        prior_var: variance of the Gaussian prior of each weight.
        contours: polylines of the posterior's density in standardised coordinates.
        data_term: mean ``(2,)`` and covariance ``(2, 2)`` of q to E_q[log likelihood] in nats.
    """

    mean: Tensor
    std: Tensor
    log_evidence: float
    prior_var: float
    contours: list[np.ndarray]
    data_term: Callable[[Tensor, Tensor], Tensor]

    def bound(self, mean: Tensor, cov: Tensor) -> tuple[float, float]:
        """Data term and KL(q || prior) in nats; their difference is the ELBO."""
        prior_mean = torch.zeros_like(mean)
        prior_cov = self.prior_var * torch.eye(2, dtype=torch.float64)
        kl = gaussian_kl_full(mean, cov, prior_mean, prior_cov)
        return self.data_term(mean, cov).item(), kl.item()

    def place(self, shift: tuple, scale: float, correlation: float) -> tuple[Tensor, Tensor]:
        """Mean and covariance of the q that the sliders choose."""
        mean = self.mean + self.std.new_tensor(shift) * self.std
        std = scale * self.std
        corr = torch.tensor([[1, correlation], [correlation, 1]], dtype=torch.float64)
        return mean, std[:, None] * corr * std


def panel() -> Panel:
    """The panel of lesson 02: mean, scale and correlation of q, over one of two posteriors."""
    return Panel(
        build_figure,
        Slider(
            name="shift_1",
            label="mean of q in w₁, posterior std",
            values=SHIFTS,
            value=0.6,
            show="{:+.1f}".format,
            web=WEB_SHIFTS_1,
        ),
        Slider(
            name="shift_2",
            label="mean of q in w₂, posterior std",
            values=SHIFTS,
            value=0.0,
            show="{:+.1f}".format,
            web=WEB_SHIFTS_2,
        ),
        Slider(
            name="scale",
            label="std of q / posterior std",
            values=SCALES,
            value=2.0,
            show="{:.2f}".format,
            web=WEB_SCALES,
        ),
        Slider(
            name="correlation",
            label="correlation of q",
            values=CORRELATIONS,
            value=0.0,
            show="{:+.2f}".format,
            web=WEB_CORRELATIONS,
        ),
        Choice(
            name="posterior",
            label="posterior",
            values=(LINE, BIOASSAY),
            value=LINE,
        ),
        size=(9.4, 3.6),
    )


def build_figure(figure: Figure) -> Update:
    """Left: contours of the posterior of two weights and ellipses of q, without tilt at the start.
    Right: two bars that lead from the expected log-likelihood down to the ELBO and from there up
    to the log evidence at zero.
    """
    targets = {LINE: line_target(), BIOASSAY: bioassay_target()}
    plane, steps = figure.subplots(1, 2, width_ratios=(1, 1.25))
    figure.subplots_adjust(left=0.075, bottom=0.145, right=0.99, top=0.835, wspace=0.2)

    plane.set(xlim=(-4, 4), xlabel="w₁ [posterior std from its mean]")
    plane.set(ylim=(-4, 4), ylabel="w₂ [posterior std from its mean]")
    plane.set_title("10, 50 and 90 % of each density", y=1.08)
    contours = LineCollection([], colors=GREY, lw=1.6, ls="-", animated=True)
    plane.add_collection(contours)
    ellipses = [plane.plot([], [], color=BLUE, ls="-", lw=1.8, animated=True)[0] for _ in MASS]
    (centre,) = plane.plot([], [], "o", color=BLUE, ms=5, animated=True)
    plane.legend(
        [contours, ellipses[0]],
        ["posterior", "q"],
        loc="lower left",
        bbox_to_anchor=(-0.02, 1.01),
        ncols=2,
        handlelength=1.4,
        borderaxespad=0,
    )

    steps.set_title("From expected log-likelihood to log evidence", y=1.08)
    steps.set(xlim=(0, 3), xticks=(0.75, 2.0))
    steps.set(ylim=(-DEEPEST, 4.2), ylabel="nats above the log evidence")
    step_names = steps.set_xticklabels(["minus KL(q‖prior)", "plus KL(q‖posterior)"], weight="bold")
    step_names[0].set_color(_darker(RED))
    step_names[1].set_color(_darker(ORANGE))
    steps.tick_params(axis="x", length=0)
    steps.axhline(0, color=INK, ls="-", lw=1.4)
    steps.text(2.98, 0.12, "log evidence", ha="right", va="bottom")
    prior_bar = _bar(steps, x=0.75, colour=RED, hatch="//")
    posterior_bar = _bar(steps, x=2.0, colour=ORANGE, hatch="")
    (elbo,) = steps.plot([0.35, 2.4], [0, 0], color=BLUE, ls="-", lw=2.4, animated=True)
    top_name = steps.text(
        0.75,
        0,
        "expected log-likelihood",
        color=RED,
        weight="bold",
        ha="center",
        animated=True,
    )
    elbo_name = steps.text(
        1.375,
        0,
        "ELBO",
        color=BLUE,
        weight="bold",
        ha="center",
        va="top",
        animated=True,
    )

    def update(
        shift_1: float, shift_2: float, scale: float, correlation: float, posterior: str
    ) -> str:
        target = targets[posterior]
        mean, cov = target.place((shift_1, shift_2), scale, correlation)
        data_term, kl_prior = target.bound(mean, cov)
        bound = data_term - kl_prior
        kl_posterior = max(target.log_evidence - bound, 0.0)  # rounding can leave -1e-15

        contours.set_segments(target.contours)
        root = scale * np.linalg.cholesky(np.array([[1, correlation], [correlation, 1]]))
        for curve, mass in zip(ellipses, MASS, strict=True):
            radius = math.sqrt(-2 * math.log(1 - mass))
            x, y = radius * root @ CIRCLE
            curve.set_data(x + shift_1, y + shift_2)
        centre.set_data([shift_1], [shift_2])

        top = data_term - target.log_evidence
        bottom = -kl_posterior
        prior_bar.set(y=bottom, height=top - bottom)
        posterior_bar.set(y=bottom, height=kl_posterior)
        elbo.set_ydata([bottom, bottom])
        elbo_name.set_y(bottom - 0.15)
        top_name.set_y(top + 0.15)
        for text in (top_name, elbo_name):
            _, height = text.get_position()
            text.set_visible(height > -DEEPEST + 0.7)
        return (
            f"expected log-likelihood {data_term:.3f} − KL(q‖prior) {kl_prior:.3f} = ELBO "
            f"<b>{bound:.3f}</b>; ELBO + KL(q‖posterior) <b>{kl_posterior:.3f}</b> = log evidence "
            f"<b>{target.log_evidence:.3f}</b> nats"
        )

    return update


def line_target() -> Target:
    """Three points (1, 2), (2, 3), (3, 5), unit noise and prior: a Gaussian posterior."""
    x = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    y = torch.tensor([2.0, 3.0, 5.0], dtype=torch.float64)
    features = torch.stack([torch.ones_like(x), x], dim=1)
    model = BayesLinear(features, y, noise_var=1.0, prior_var=1.0)
    mean = model.mean
    std = model.cov.diagonal().sqrt()
    density = torch.distributions.MultivariateNormal(mean, model.cov)
    low = mean - 5 * std
    high = mean + 5 * std
    grid = GridPosterior(density.log_prob, low.tolist(), high.tolist())
    return Target(
        mean=mean,
        std=std,
        log_evidence=model.log_evidence().item(),
        prior_var=1.0,
        contours=_contours(grid, mean, std),
        data_term=model.data_term,
    )


def bioassay_target() -> Target:
    """Dose and death of twenty animals, prior N(0, 10² I): a skewed posterior, on a grid."""
    X, y = bioassay.load()
    model = BayesLogistic(X, y, prior_var=100.0)
    grid = GridPosterior(model.log_joint, (-6.0, -5.0), (12.0, 45.0), n=300)
    std = grid.cov.diagonal().sqrt()
    nodes, weights = gauss_hermite(24, 2)

    def data_term(mean: Tensor, cov: Tensor) -> Tensor:
        w = mean + nodes @ torch.linalg.cholesky(cov).mT
        return weights @ model.log_likelihood(w)

    return Target(
        mean=grid.mean,
        std=std,
        log_evidence=grid.log_evidence.item(),
        prior_var=100.0,
        contours=_contours(grid, grid.mean, std),
        data_term=data_term,
    )


def _contours(grid: GridPosterior, mean: Tensor, std: Tensor) -> list[np.ndarray]:
    """The lines of equal density that hold ``MASS``, in standardised coordinates."""
    density = grid.probs.view(grid.n, grid.n).mT
    ranked = grid.probs.sort(descending=True).values
    mass_above = ranked.cumsum(0)
    x, y = ((axis - m) / s for axis, m, s in zip(grid.axes, mean, std, strict=True))
    lines = contour_generator(x.numpy(), y.numpy(), density.numpy())
    contours = []
    for mass in MASS:
        level = ranked[(mass_above < mass).sum()].item()
        contours += lines.lines(level)
    return contours


def _bar(axes: Axes, x: float, colour: str, hatch: str) -> Rectangle:
    (bar,) = axes.bar(
        x,
        height=1,
        width=0.8,
        color=tint(colour, 0.6),
        hatch=hatch,
        edgecolor="white",
        animated=True,
    )
    return bar


def _darker(colour: str) -> tuple[float, ...]:
    """For text, which needs more contrast than an area."""
    return tuple(0.8 * channel for channel in to_rgb(colour))
