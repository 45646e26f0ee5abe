"""Lesson 11: what a chain of T reflections does to the noise of twenty units, and its KL.

Before any reflection the factors are independent. Reflections mix them: correlations appear, the
variances draw closer to each other, the eigenvalues of the covariance stay as they are, and the KL
grows a little.
"""

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from bdl_lessons.core import BLUE, GREY, INK, RED, tint
from bdl_lessons.panels.engine import Choice, Panel, Slider, Update
from bdl_lessons.probability import orthogonal_matrix, reflect, rotated_variance

K = 20
N_DRAWS = 250
MEAN_ALPHA = 0.25
DEPTHS = tuple(range(9))
LOG_STDS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5)
SEEDS = (0, 1, 2, 3, 4)
FULL = 0.6  # correlation with the full colour
ANGLE = np.linspace(0, 2 * np.pi, 91)


def panel() -> Panel:
    """The panel of lesson 11: reflections, how unequal the alphas are, and which vectors."""
    return Panel(
        build_figure,
        Slider(
            name="depth",
            label="T, reflections",
            values=DEPTHS,
            value=2,
            show=str,
        ),
        Slider(
            name="log_std",
            label="standard deviation of log α",
            values=LOG_STDS,
            value=1.5,
            web=LOG_STDS[::2],
        ),
        Choice(
            name="seed",
            label="draw of α and v",
            values=SEEDS,
            value=4,
            web=SEEDS[::2],
        ),
        size=(9.6, 3.2),
    )


def build_figure(figure: Figure) -> Update:
    """First: the factors of two units as points, a dashed ellipse along the axes before the
    reflections and a tilted one after them. Second: the matrix of correlations of 20 units, in
    colours from violet for negative to brown for positive. Then: eigenvalues of the covariance
    beside the variances of the factors, and the KL, which grows with the number of reflections.
    """
    cloud, heat, spectrum, kl_axes = figure.subplots(1, 4, width_ratios=(1.1, 1.1, 0.95, 0.95))
    figure.subplots_adjust(left=0.06, bottom=0.19, right=0.99, top=0.82, wspace=0.42)

    cloud.set(aspect="equal", xlabel="factor of one unit")
    cloud.set_ylabel("factor of another unit", labelpad=0)
    cloud.set(xlim=(-2, 4), xticks=(-2, 0, 2, 4))
    cloud.set(ylim=(-2, 4), yticks=(-2, 0, 2, 4))
    before = cloud.scatter([], [], s=6, color=tint(RED, 0.4), lw=0, zorder=1, animated=True)
    after = cloud.scatter([], [], s=6, color=tint(BLUE, 0.5), lw=0, zorder=2, animated=True)
    (before_ellipse,) = cloud.plot([], [], color=RED, ls="--", zorder=3, animated=True)
    (after_ellipse,) = cloud.plot([], [], color=BLUE, ls="-", lw=2.5, zorder=4, animated=True)
    cloud.text(
        0.5,
        1.21,
        "red: before reflections",
        fontsize=11,
        color=RED,
        ha="center",
        va="center",
        transform=cloud.transAxes,
    )
    after_title = cloud.text(
        0.5,
        1.08,
        "",
        fontsize=11,
        color=BLUE,
        ha="center",
        va="center",
        transform=cloud.transAxes,
        animated=True,
    )

    heat.set(xticks=(), yticks=(), title=f"Correlations, {K} units")
    image = heat.imshow(np.zeros((K, K)), cmap="PuOr_r", vmin=-FULL, vmax=FULL, animated=True)
    bar = figure.colorbar(
        image,
        ax=heat,
        location="bottom",
        pad=0.05,
        extend="both",
        ticks=(-FULL, 0, FULL),
    )
    bar.set_label("correlation", labelpad=1)

    ranks = np.arange(1, K + 1)
    spectrum.set_title("● eigenvalues  — α̃")
    spectrum.set(xlim=(0.2, K + 0.8), xticks=(1, K // 2, K), xlabel="rank, largest first")
    spectrum.set(yscale="log", ylim=(2e-3, 3))
    spectrum.set_ylabel("variance", labelpad=0)
    spectrum.minorticks_off()
    (eigenvalues,) = spectrum.plot(ranks, ranks, "o", ms=4, color=GREY, animated=True)
    (variances,) = spectrum.plot(ranks, ranks, "-", color=BLUE, animated=True)

    kl_axes.set_title("Growth of the KL")
    kl_axes.set(xlim=(-0.4, DEPTHS[-1] + 0.4), xlabel="T, reflections")
    kl_axes.set_xticks(sorted({*DEPTHS[::2], DEPTHS[-1]}))
    kl_axes.set(ylim=(-0.03, 0.5), yticks=(0, 0.2, 0.4), ylabel="nats")
    bound = kl_axes.axhline(0, color=GREY, ls="--", lw=1.5, animated=True)
    (path,) = kl_axes.plot(DEPTHS, DEPTHS, "-o", ms=4, color=BLUE, animated=True)
    here = kl_axes.scatter([], [], s=60, c=RED, edgecolor=INK, zorder=4, animated=True)

    def update(depth: int, log_std: float, seed: int) -> str:
        alpha, vectors, eta = draws(log_std, seed)
        i, j = pair(log_std, seed)
        cov_before = np.diag(alpha.numpy())
        cov_after = covariance(alpha, vectors[:depth])
        std = np.sqrt(np.diag(cov_after))
        correlation = cov_after / np.outer(std, std)
        pair_correlation = round(correlation[i, j], 2) + 0.0  # no minus sign before a zero

        xi = 1 + reflect(eta, vectors[:depth])
        block = np.ix_([i, j], [i, j])
        before.set_offsets(1 + eta[:, [i, j]])
        after.set_offsets(xi[:, [i, j]])
        before_ellipse.set_data(*ellipse(cov_before[block]))
        after_ellipse.set_data(*ellipse(cov_after[block]))
        after_title.set_text(f"blue: after, correlation {pair_correlation:.2f}")

        image.set_data(np.where(np.eye(K, dtype=bool), np.nan, correlation))
        eigenvalues.set_ydata(_descending(np.linalg.eigvalsh(cov_after)))
        variances.set_ydata(_descending(np.diag(cov_after)))

        kls = kl_by_depth(alpha, vectors)
        kl_without = kls[0]
        kl = kls[DEPTHS.index(depth)]
        largest_growth = kl_per_output(alpha, alpha.mean().expand(K)) - kl_without
        path.set_ydata(kls - kl_without)
        bound.set_ydata([largest_growth, largest_growth])
        here.set_offsets([[depth, kl - kl_without]])
        return (
            f"Correlation of units {i + 1} and {j + 1}: <b>{pair_correlation:.2f}</b>. KL_EB per "
            f"output: <b>{kl:.3f}</b> nats; without reflections <b>{kl_without:.3f}</b>, at most "
            f"<b>{kl_without + largest_growth:.3f}</b>."
        )

    return update


def draws(log_std: float, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """``alpha (K,)`` with mean 1/4, vectors ``(T, K)`` and draws ``eta (N, K)``; T is the largest.

    The random numbers behind them depend on the seed alone: a slider transforms them. The vectors
    are drawn last and ``eta`` by a generator of its own, so that more of them change nothing else.
    """
    generator = torch.Generator().manual_seed(seed)
    eta_generator = torch.Generator().manual_seed(100 + seed)
    z = torch.randn(K, generator=generator, dtype=torch.float64)
    eps = torch.randn(N_DRAWS, K, generator=eta_generator, dtype=torch.float64)
    vectors = torch.randn(DEPTHS[-1], K, generator=generator, dtype=torch.float64)
    z = (z - z.mean()) / z.std(correction=0)
    alpha = MEAN_ALPHA * K * torch.softmax(log_std * z, dim=0)
    return alpha, vectors, alpha.sqrt() * eps


def covariance(alpha: Tensor, vectors: Tensor) -> np.ndarray:
    """``U diag(alpha) U'``, ``(K, K)``."""
    u = orthogonal_matrix(vectors)
    return (u * alpha @ u.T).numpy()


def pair(log_std: float, seed: int) -> tuple[int, int]:
    """The two units with the largest correlation on average over one to eight reflections."""
    alpha, vectors, _ = draws(log_std or 1.0, seed)
    total = np.zeros((K, K))
    for depth in range(1, 9):  # not DEPTHS: a longer grid would show other units
        cov = covariance(alpha, vectors[:depth])
        variances = np.diag(cov)
        total += np.abs(cov) / np.sqrt(np.outer(variances, variances))
    np.fill_diagonal(total, 0)
    i, j = np.unravel_index(total.argmax(), total.shape)
    return int(i), int(j)


def kl_per_output(alpha: Tensor, variances: Tensor) -> float:
    """``KL_EB / Q``, equation (8) of lesson 11, in nats; ``variances`` after the reflections."""
    return float((torch.log1p(variances) - alpha.log()).sum()) / 2


def kl_by_depth(alpha: Tensor, vectors: Tensor) -> np.ndarray:
    """``KL_EB / Q`` in nats at each of ``DEPTHS``."""
    return np.array([kl_per_output(alpha, rotated_variance(alpha, vectors[:T])) for T in DEPTHS])


def ellipse(cov: np.ndarray) -> np.ndarray:
    """The contour at two standard deviations around (1, 1), as ``(2, points)``."""
    values, directions = np.linalg.eigh(cov)
    stds = np.sqrt(np.maximum(values, 0))
    circle = np.stack([np.cos(ANGLE), np.sin(ANGLE)])
    return 1 + 2 * (directions * stds) @ circle


def _descending(values: np.ndarray) -> np.ndarray:
    return np.sort(values)[::-1]
