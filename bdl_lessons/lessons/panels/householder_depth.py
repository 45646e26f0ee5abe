"""Lesson 10: what a chain of T reflections does to the noise of twenty units, and its KL.

Before any reflection the units fail independently. Reflections mix them: two units begin to move
together, the variances of the units draw closer to each other, the eigenvalues of the covariance
stay as they are, and the KL rises.
"""

from __future__ import annotations

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from bdl_lessons.core import BLUE, GREY, INK, VERMILLION, tint
from bdl_lessons.lessons.panel import Choice, Panel, Slider, Update
from bdl_lessons.probability import orthogonal_matrix, reflect, rotated_variance

K, N_DRAWS, MEAN_ALPHA = 20, 250, 0.25
DEPTHS = tuple(range(9))
SPREADS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5)
SEEDS = (0, 1, 2, 3, 4)
SHADE = 0.5  # full colour at half the largest alpha
ANGLE = np.linspace(0, 2 * np.pi, 91)


def panel() -> Panel:
    """The panel of lesson 10: reflections, how unequal the alphas are, and which vectors."""
    return Panel(
        "householder-depth",
        build_figure,
        [
            Slider("depth", "T, reflections", DEPTHS, 2, str),
            Slider("spread", "spread, std of log α", SPREADS, 1.0),
            Choice("seed", "draw of α and v", SEEDS, 0),
        ],
        size=(9.8, 3.3),
    )


def build_figure(figure: Figure) -> Update:
    """Two units, the covariance of all, its eigenvalues beside the variances, and the KL."""
    cloud, heat, spectrum, kl_axes = figure.subplots(1, 4, width_ratios=(1, 1, 1, 1))
    figure.subplots_adjust(0.045, 0.165, 0.99, 0.89, wspace=0.3)
    units = np.arange(1, K + 1)

    cloud.set(xlim=(-1, 3), ylim=(-1, 3), xticks=(-1, 0, 1, 2, 3), yticks=(-1, 0, 1, 2, 3))
    cloud.set(aspect="equal", title="Two units")
    before = cloud.scatter([], [], s=6, color=tint(VERMILLION, 0.4), lw=0, animated=True, zorder=1)
    after = cloud.scatter([], [], s=6, color=tint(BLUE, 0.5), lw=0, animated=True, zorder=2)
    (before_ellipse,) = cloud.plot([], [], color=VERMILLION, ls="--", animated=True, zorder=3)
    (after_ellipse,) = cloud.plot([], [], color=BLUE, ls="-", animated=True, zorder=4)
    at = {"ha": "center", "va": "center", "transform": cloud.transAxes, "animated": True}
    names = cloud.text(0.5, -0.19, "", **at), cloud.text(-0.16, 0.5, "", rotation=90, **at)
    cloud.legend(
        [before_ellipse, after_ellipse], ["1 + η", "ξ"], loc="upper right", handlelength=1.4
    )

    image = heat.imshow(np.zeros((K, K)), cmap="PuOr_r", vmin=-1, vmax=1, animated=True)
    heat.set(xticks=(), yticks=(), xlabel="unit", title="Covariance, all units")

    spectrum.set(xlim=(0.2, K + 0.8), ylim=(3e-3, 3), yscale="log", xticks=(1, 10, 20))
    spectrum.set(xlabel="rank, largest first", title="Same eigenvalues")
    (eigenvalues,) = spectrum.plot(units, units, "o", ms=4, color=GREY, animated=True)
    (variances,) = spectrum.plot(units, units, "-", color=BLUE, animated=True)
    spectrum.legend([eigenvalues, variances], ["eigenvalues", "variances sᵢ"], loc="lower left")

    kl_axes.set(xlim=(-0.4, 8.4), ylim=(-0.04, 1.04), xticks=(0, 2, 4, 6, 8), yticks=(0, 1))
    kl_axes.set_yticklabels(["U = I", "all sᵢ equal"], rotation=90)
    kl_axes.get_yticklabels()[0].set_va("bottom")
    kl_axes.get_yticklabels()[1].set_va("top")
    kl_axes.set(xlabel="T, reflections", title="KL_EB")
    kl_axes.axhline(0, color=GREY, ls="--", lw=1)
    kl_axes.axhline(1, color=GREY, ls=":", lw=1)
    (path,) = kl_axes.plot(DEPTHS, DEPTHS, "-o", ms=4, color=BLUE, animated=True)
    here = kl_axes.scatter([], [], s=60, c=VERMILLION, edgecolor=INK, zorder=4, animated=True)

    def update(depth: int, spread: float, seed: int) -> str:
        alpha, vectors, eta = draws(spread, seed)
        i, j = pair(spread, seed)
        xi = 1 + reflect(eta, vectors[:depth])
        cov = covariance(alpha, vectors[:depth])
        before.set_offsets(1 + eta[:, [i, j]])
        after.set_offsets(xi[:, [i, j]])
        before_ellipse.set_data(*ellipse(np.diag(alpha[[i, j]].numpy())))
        after_ellipse.set_data(*ellipse(cov[np.ix_([i, j], [i, j])]))
        names[0].set_text(f"unit {i + 1}")
        names[1].set_text(f"unit {j + 1}")
        image.set_data(cov / (SHADE * float(alpha.max())))
        eigenvalues.set_ydata(np.sort(np.linalg.eigvalsh(cov))[::-1])
        variances.set_ydata(np.sort(np.diag(cov))[::-1])
        kls = kl_by_depth(alpha, vectors)
        low, high = kl_per_output(alpha, alpha), kl_per_output(alpha, alpha.mean().expand(K))
        position = (kls - low) / (high - low) if high - low > 1e-9 else 0 * kls
        path.set_ydata(position)
        here.set_offsets([[depth, position[depth]]])
        std = np.sqrt(np.diag(cov))
        correlation = cov / np.outer(std, std)
        return (
            f"Units {i + 1} and {j + 1}: correlation <b>{correlation[i, j]:.2f}</b>. "
            f"Effective rank of the covariance <b>{effective_rank(cov):.1f}</b> of 20, of the "
            f"correlations <b>{effective_rank(correlation):.1f}</b>. KL_EB per output unit "
            f"<b>{kls[depth]:.3f}</b> nats; U = I: <b>{low:.3f}</b>, at most <b>{high:.3f}</b>."
        )

    return update


def draws(spread: float, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """``alpha (K,)`` with mean 1/4, vectors ``(8, K)`` and draws ``eta (N, K)``.

    The random numbers behind them depend on the seed alone: a slider transforms them.
    """
    generator = torch.Generator().manual_seed(seed)
    z, vectors, eps = (
        torch.randn(shape, generator=generator, dtype=torch.float64)
        for shape in ((K,), (DEPTHS[-1], K), (N_DRAWS, K))
    )
    z = (z - z.mean()) / z.std(correction=0)
    alpha = MEAN_ALPHA * K * torch.softmax(spread * z, 0)
    return alpha, vectors, alpha.sqrt() * eps


def covariance(alpha: Tensor, vectors: Tensor) -> np.ndarray:
    """``U diag(alpha) U'``, ``(K, K)``."""
    u = orthogonal_matrix(vectors)
    return (u * alpha @ u.T).numpy()


def pair(spread: float, seed: int) -> tuple[int, int]:
    """The two units with the largest correlation on average over the depths 1 to 8."""
    alpha, vectors, _ = draws(spread or 1.0, seed)
    total = np.zeros((K, K))
    for depth in DEPTHS[1:]:
        cov = covariance(alpha, vectors[:depth])
        total += np.abs(cov) / np.sqrt(np.outer(np.diag(cov), np.diag(cov)))
    np.fill_diagonal(total, 0)
    i, j = np.unravel_index(total.argmax(), total.shape)
    return int(i), int(j)


def kl_per_output(alpha: Tensor, variances: Tensor) -> float:
    """``KL_EB / Q = (1/2) sum_i log((1 + s_i) / alpha_i)`` in nats."""
    return float((torch.log1p(variances) - alpha.log()).sum()) / 2


def kl_by_depth(alpha: Tensor, vectors: Tensor) -> np.ndarray:
    """``KL_EB / Q`` after 0, 1, ... 8 reflections."""
    return np.array(
        [kl_per_output(alpha, rotated_variance(alpha, vectors[:depth])) for depth in DEPTHS]
    )


def effective_rank(matrix: np.ndarray) -> float:
    """``exp`` of the entropy of the normalised eigenvalues: K for ``I``, 1 for rank one."""
    values = np.linalg.eigvalsh(matrix)
    shares = np.clip(values / values.sum(), 1e-300, None)
    return float(np.exp(-(shares * np.log(shares)).sum()))


def ellipse(cov: np.ndarray) -> np.ndarray:
    """The contour at two standard deviations around (1, 1), as ``(2, points)``."""
    values, directions = np.linalg.eigh(cov)
    circle = np.stack([np.cos(ANGLE), np.sin(ANGLE)])
    return 1 + 2 * (directions * np.sqrt(np.maximum(values, 0))) @ circle
