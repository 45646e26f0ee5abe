"""Lesson 11: one reflection on two real weights, and where its direction shows.

A linear model predicts the progress of diabetes from two measurements of cholesterol, as in the
lesson. For each direction of the vector the rest of variational structured dropout is fitted, so
every number is exact: no network is trained and nothing is sampled.
"""

import functools
from typing import NamedTuple

import numpy as np
import torch
from matplotlib.figure import Figure

from bdl_lessons.core import BLUE, GREEN, INK, ORANGE, tint
from bdl_lessons.datasets import diabetes
from bdl_lessons.panels.engine import Choice, Panel, Slider, Update
from bdl_lessons.panels.householder_depth import ellipse
from bdl_lessons.probability import orthogonal_matrix

COLUMNS = (6, 7)  # HDL, and total over HDL cholesterol
ANGLES = tuple(range(0, 91, 2))
"""Of the first vector, in degrees: at 0 and 90 it lies along an axis. From 90 on all repeats."""
DEPTHS = (1, 2)
SECOND_ANGLE = 30
"""Of the second vector, in degrees; it stands still."""
ALPHAS = ("fitted to the reflection", "as at T = 0")
N_PERMUTATIONS = 20
N_ITERATIONS = 30  # of prior, mean and alphas in turn; the tenth changes nothing any more


class Data(NamedTuple):
    """The two measurements in standard units, the target, and its precision.

    Attributes:
        x: ``(N, 2)``, mean 0 and standard deviation 1.
        y: ``(N,)``, mean 0.
        tau: precision of the observation noise, one over the residual variance.
        permuted: ``(20 N, 2)``: each patient's first measurement with the second of another.
    """

    x: np.ndarray
    y: np.ndarray
    tau: float
    permuted: np.ndarray


class Fitted(NamedTuple):
    """VSD at one direction, beside the exact posterior under the prior (7) that belongs to it.

    Attributes:
        mean: of both, ``(2,)``: the panel compares covariances.
        cov, exact_cov: of q and of the posterior, ``(2, 2)``.
        gap: log marginal likelihood minus ELBO, nats.
        kl: equation (8), nats.
        losses: expected log-likelihood lost against the exact predictive distribution, at the
            inputs as they are and at permuted ones, ``(2,)``, nats an example.
    """

    mean: np.ndarray
    cov: np.ndarray
    exact_cov: np.ndarray
    gap: float
    kl: float
    losses: np.ndarray


class FixedPoint(NamedTuple):
    """Mean ``(2,)`` and precision ``(2, 2)`` of the exact posterior, and the alphas ``(2,)``."""

    mean: np.ndarray
    precision: np.ndarray
    alpha: np.ndarray


def panel() -> Panel:
    """A panel of lesson 11: the direction of the vector, a second reflection, and the alphas."""
    return Panel(
        build_figure,
        Slider(
            name="angle",
            label="angle of v₁ [°]",
            values=ANGLES,
            value=0,
            show=str,
            web=(0, 10, 20, 30, 34, 40, 50, 60, 70, 80, 90),
        ),
        Choice(
            name="depth",
            label="T, reflections",
            values=DEPTHS,
            value=1,
        ),
        Choice(
            name="alphas",
            label="α₁, α₂",
            values=ALPHAS,
            value="as at T = 0",
        ),
        size=(9.6, 3.9),
    )


def build_figure(figure: Figure) -> Update:
    """Left: a dashed ellipse, the exact posterior of two weights, and a solid one, that of VSD; the
    slider turns the solid one. Middle: how far the ELBO is below the log marginal likelihood, over
    the angle. Right: the loss at inputs as they are, which hardly depends on the angle, and at
    permuted inputs, which does.
    """
    plane, gap_axes, loss_axes = figure.subplots(1, 3, width_ratios=(1.05, 1, 1))
    figure.subplots_adjust(left=0.075, bottom=0.3, right=0.985, top=0.9, wspace=0.36)

    plane.set(title="Two weights (2 std)", xlabel="weight of HDL")
    plane.set_ylabel("weight of total / HDL", labelpad=0)
    _draw_limits(plane)
    (exact_line,) = plane.plot([], [], color=INK, ls="--", lw=1.6, zorder=3, animated=True)
    (q_line,) = plane.plot([], [], color=BLUE, ls="-", lw=2.5, zorder=2, animated=True)
    plane.legend(
        [exact_line, q_line],
        ["exact posterior", "VSD"],
        loc="upper center",
        bbox_to_anchor=(0.5, -0.2),
        ncols=2,
    )

    curves = {key: curve(*key) for key in _all_curves()}
    gaps = np.array([[now.gap for now in each] for each in curves.values()])
    losses = 1e6 * np.array([[now.losses for now in each] for each in curves.values()])
    gap_axes.set(title="ELBO below log p(y)", xlabel="angle of v₁ [°]", ylabel="nats")
    loss_axes.set(title="Loss against exact", xlabel="angle of v₁ [°]", ylabel="10⁻⁶ nats")
    for axes, heights in ((gap_axes, gaps), (loss_axes, losses)):
        axes.set(xlim=(-3, 93), xticks=(0, 30, 60, 90))
        axes.set(ylim=(-0.06 * heights.max(), 1.06 * heights.max()))
    (gap_line,) = gap_axes.plot([], [], color=BLUE, ls="-", animated=True)
    gap_here = gap_axes.scatter([], [], s=60, c=BLUE, edgecolor=INK, zorder=4, animated=True)
    (given_line,) = loss_axes.plot([], [], color=GREEN, ls=":", lw=2.5, animated=True)
    (permuted_line,) = loss_axes.plot([], [], color=ORANGE, ls="-", animated=True)
    given_here = loss_axes.scatter([], [], s=60, c=GREEN, edgecolor=INK, zorder=4, animated=True)
    permuted_here = loss_axes.scatter(
        [], [], s=60, c=ORANGE, edgecolor=INK, zorder=4, animated=True
    )
    gap_axes.axhline(0, color=tint(INK, 0.4), lw=0.8)
    loss_axes.axhline(0, color=tint(INK, 0.4), lw=0.8)
    loss_axes.legend(
        [given_line, permuted_line],
        ["inputs as given", "permuted"],
        loc="upper right",
        bbox_to_anchor=(1.05, -0.2),
        ncols=2,
    )

    def update(angle: int, depth: int, alphas: str) -> str:
        now = fitted(angle, depth, alphas)
        every = curves[depth, alphas]
        exact_line.set_data(*_outline(now.mean, now.exact_cov))
        q_line.set_data(*_outline(now.mean, now.cov))
        gap_line.set_data(ANGLES, [each.gap for each in every])
        gap_here.set_offsets([[angle, now.gap]])
        given, permuted = 1e6 * now.losses
        given_line.set_data(ANGLES, [1e6 * each.losses[0] for each in every])
        permuted_line.set_data(ANGLES, [1e6 * each.losses[1] for each in every])
        given_here.set_offsets([[angle, given]])
        permuted_here.set_offsets([[angle, permuted]])
        return (
            f"ELBO below the log marginal likelihood: <b>{now.gap:.3f}</b> nats; KL (8) "
            f"<b>{now.kl:.2f}</b> nats. Loss at inputs as given <b>{given:.1f}</b>, at permuted "
            f"ones <b>{permuted:.1f}</b> millionths of a nat."
        )

    return update


@functools.cache
def data() -> Data:
    """442 patients, and 20 permutations of their second measurement."""
    patients = diabetes()
    x = patients.x[:, COLUMNS].numpy()
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    y = patients.y.numpy() - patients.y.numpy().mean()
    residual = y - x @ np.linalg.lstsq(x, y, rcond=None)[0]
    rng = np.random.default_rng(0)
    second = np.concatenate([rng.permutation(x[:, 1]) for _ in range(N_PERMUTATIONS)])
    return Data(
        x=x,
        y=y,
        tau=(len(y) - 3) / (residual @ residual),
        permuted=np.stack([np.tile(x[:, 0], N_PERMUTATIONS), second], axis=1),
    )


def vectors(angle: float, depth: int) -> torch.Tensor:
    """The Householder vectors ``(depth, 2)``: the first one at ``angle``, the second at 30°."""
    angles = torch.deg2rad(torch.tensor([angle, SECOND_ANGLE][:depth], dtype=torch.float64))
    return torch.stack([angles.cos(), angles.sin()], dim=1)


@functools.cache
def fitted(angle: float, depth: int, alphas: str) -> Fitted:
    """VSD with its vectors held: the alphas are the best ones for them, or those of T = 0."""
    U = orthogonal_matrix(vectors(angle, depth)).numpy()
    if alphas == "as at T = 0":
        return _compared(U, _fixed_point(np.eye(2)).alpha)
    return _compared(U)


def curve(depth: int, alphas: str) -> list[Fitted]:
    """``fitted`` at each of ``ANGLES``."""
    return [fitted(angle, depth, alphas) for angle in ANGLES]


def _all_curves() -> list[tuple[int, str]]:
    return [(depth, alphas) for depth in DEPTHS for alphas in ALPHAS]


def _fixed_point(U: np.ndarray, held_alpha: np.ndarray | None = None) -> FixedPoint:
    """Prior, mean and alphas, each the best one for the others.

    At a given prior, minus the ELBO of q has the part ``(tr(precision cov) - log det cov) / 2``. So
    alpha_k is best at one over entry k of the diagonal of ``U' diag(mean) precision diag(mean) U``.
    """
    x, y, tau, _ = data()
    gram = tau * x.T @ x
    xy = tau * x.T @ y
    mean = np.linalg.solve(gram, xy)
    alpha = np.zeros(2) if held_alpha is None else held_alpha
    for _ in range(N_ITERATIONS):
        noise_var = U**2 @ alpha
        precision = gram + np.diag(1 / (mean**2 * (1 + noise_var)))  # the prior (7)
        mean = np.linalg.solve(precision, xy)
        if held_alpha is None:
            scaled = np.outer(mean, mean) * precision
            alpha = 1 / (U.T @ scaled @ U).diagonal()
    return FixedPoint(mean, precision, alpha)


def _compared(U: np.ndarray, held_alpha: np.ndarray | None = None) -> Fitted:
    mean, precision, alpha = _fixed_point(U, held_alpha)
    _, _, tau, permuted = data()
    noise_cov = (U * alpha) @ U.T
    cov = np.outer(mean, mean) * noise_cov  # (5)
    exact_cov = np.linalg.inv(precision)
    ratio = precision @ cov
    losses = []
    for inputs in (data().x, permuted):
        exact_var = 1 / tau + _quadratic(inputs, exact_cov)
        var_ratio = exact_var / (1 / tau + _quadratic(inputs, cov))
        losses.append(np.mean(var_ratio - 1 - np.log(var_ratio)) / 2)  # the KL of two Gaussians
    return Fitted(
        mean=mean,
        cov=cov,
        exact_cov=exact_cov,
        gap=(np.trace(ratio) - 2 - np.linalg.slogdet(ratio)[1]) / 2,
        kl=np.log((1 + noise_cov.diagonal()) / alpha).sum() / 2,  # (8) for one output
        losses=np.array(losses),
    )


def _quadratic(inputs: np.ndarray, cov: np.ndarray) -> np.ndarray:
    """``x' cov x`` for each row."""
    return np.einsum("ni,ij,nj->n", inputs, cov, inputs)


def _outline(mean: np.ndarray, cov: np.ndarray) -> np.ndarray:
    """The contour at two standard deviations, ``(2, points)``."""
    return mean[:, None] + ellipse(cov) - 1  # which draws around (1, 1)


def _draw_limits(plane) -> None:
    """Limits that hold every ellipse that the panel can show."""
    outlines = []
    for depth, alphas in _all_curves():
        for now in curve(depth, alphas):
            outlines += [_outline(now.mean, now.exact_cov), _outline(now.mean, now.cov)]
    low = np.min(outlines, axis=(0, 2))
    high = np.max(outlines, axis=(0, 2))
    margin = 0.06 * (high - low)
    plane.set_xlim(low[0] - margin[0], high[0] + margin[0])
    plane.set_ylim(low[1] - margin[1], high[1] + margin[1])
