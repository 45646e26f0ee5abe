"""Lesson 11: noise on two inputs of a linear unit, and the ellipse of weights it holds back.

For squared loss nothing is approximated: the mean loss under the noise is the clean loss plus
``R(w) = ½ w' (S ∘ C) w`` with ``S`` the mean of ``h h'`` and ``C = U diag(alpha) U'``.
"""

from typing import NamedTuple

import numpy as np
import torch
from matplotlib.figure import Figure

from bdl_lessons.core import BLUE, GREY, INK, ORANGE, RED, tint
from bdl_lessons.panels.engine import Choice, Panel, Slider, Update
from bdl_lessons.probability import orthogonal_matrix

ALPHAS = tuple(float(f"{10 ** (0.1 * step - 3):.2g}") for step in range(31))
REFLECTIONS = tuple(range(7))
RATIOS = (1, 4, 25)
ANGLES = np.deg2rad(30 * np.arange(1, 7) - 15)
VECTORS = torch.from_numpy(np.stack([np.cos(ANGLES), np.sin(ANGLES)], 1))
"""Vector t stands at ``30 t - 15`` degrees: every further reflection turns the noise by 30."""

CIRCLE = np.stack([np.cos(t := np.linspace(0, 2 * np.pi, 61)), np.sin(t)])
N_EXAMPLES, N_COPIES = 40, 80
CHOSEN = np.array([1.0, 1.0])


class Setting(NamedTuple):
    """What two sliders and a choice stand for: numpy arrays of the mathematics."""

    alpha: np.ndarray
    U: np.ndarray
    C: np.ndarray
    w: np.ndarray
    penalty: float
    shares: np.ndarray
    bound: float


def panel() -> Panel:
    """The panel of lesson 11: size, directions and inequality of the noise."""
    return Panel(
        build_figure,
        Slider("mean_alpha", "mean of α₁, α₂", ALPHAS, 0.2, str, ALPHAS[1::2]),
        Slider("n_reflections", "reflections T", REFLECTIONS, 0, str),
        Choice("ratio", "α₁ / α₂", RATIOS, 25),
        size=(9.6, 4.2),
    )


def examples() -> tuple[np.ndarray, np.ndarray]:
    """Inputs ``(N, 2)``, correlated and positive as after a ReLU, and targets ``(N,)``."""
    rng = np.random.default_rng(3)
    common = rng.uniform(0.1, 1.4, N_EXAMPLES)
    h = common[:, None] + 0.22 * rng.standard_normal((N_EXAMPLES, 2))
    return np.abs(h), np.abs(h) @ [1.6, -0.5] + 0.15 * rng.standard_normal(N_EXAMPLES)


def setting(mean_alpha: float, n_reflections: int, ratio: float) -> Setting:
    """Noise covariance, the minimiser of clean loss plus penalty, and R there in three forms."""
    h, y = examples()
    S = h.T @ h / N_EXAMPLES
    alpha = mean_alpha * np.array([2 * ratio, 2]) / (1 + ratio)
    U = orthogonal_matrix(VECTORS[:n_reflections]).numpy()
    C = (U * alpha) @ U.T
    w = np.linalg.solve(S + S * C, h.T @ y / N_EXAMPLES)
    omega = np.outer(w, w) * S  # diag(h) H diag(h) with H = w w', averaged over examples
    shares = 0.5 * alpha * np.einsum("ik,ij,jk->k", U, omega, U)
    bound = 0.5 * np.linalg.eigvalsh(omega)[-1] * alpha.sum()
    return Setting(alpha, U, C, w, float(0.5 * w @ (S * C) @ w), shares, float(bound))


def ellipse(matrix: np.ndarray, level: float) -> np.ndarray:
    """The curve ``x' matrix x = level``, ``(2, 61)``."""
    values, axes = np.linalg.eigh(matrix)
    return axes @ (np.sqrt(level / values)[:, None] * CIRCLE)


def build_figure(figure: Figure) -> Update:
    """Left: noisy copies of one input in an ellipse; along a dotted line the weights without noise
    give equal outputs. Middle: contours of the loss and of the penalty over two weights, and the
    minimum between them. Right: the penalty of each direction and their sum, below a dashed bound.
    """
    left, middle, right = figure.subplots(1, 3, width_ratios=(1, 1, 0.8))
    figure.subplots_adjust(0.07, 0.29, 0.985, 0.92, wspace=0.34)
    below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.2), "ncols": 2}
    h, y = examples()
    S = h.T @ h / N_EXAMPLES
    best = np.linalg.solve(S, h.T @ y / N_EXAMPLES)
    normal = np.random.default_rng(0).standard_normal((N_COPIES, 2))

    left.set(xlim=(-0.6, 2.6), ylim=(-0.6, 2.6), xlabel="input h₁", ylabel="input h₂")
    left.set(aspect="equal", title="Noise on one input")
    left.scatter(*h.T, s=14, c=GREY, alpha=0.6, lw=0)
    copies = left.scatter([], [], s=8, c=ORANGE, lw=0, animated=True)
    (cloud,) = left.plot([], [], color=RED, ls="-", animated=True)
    for step in np.arange(-4, 5) * 0.6:  # of the output
        foot = CHOSEN + step * best / (best @ best)
        along = np.array([-best[1], best[0]])
        ends = foot[:, None] + np.outer(along, [-3, 3])
        (same,) = left.plot(*ends, color=BLUE, ls=":", lw=1.2)
    left.scatter(*CHOSEN, s=45, c=INK, zorder=5)
    left.legend([cloud, same], ["2 std of h ∘ ξ", "equal output at w₀"], **below)
    label = left.text(2.5, -0.5, "", ha="right", backgroundcolor="white", animated=True)

    middle.set(xlim=(-1.2, 2.2), ylim=(-1.7, 1.7), xlabel="weight w₁", ylabel="weight w₂")
    middle.set(aspect="equal", title="Loss and penalty")
    for level in (0.02, 0.08, 0.2, 0.4):
        middle.plot(*(best[:, None] + ellipse(S, 2 * level)), color=tint(BLUE, 0.45), ls="-", lw=1)
    clean = middle.scatter(*best, s=40, c=BLUE, marker="s", zorder=4)
    middle.scatter(0, 0, s=20, c=GREY, marker="+")
    (touching,) = middle.plot([], [], color=BLUE, ls="-", animated=True)
    (level_set,) = middle.plot([], [], color=RED, ls="--", animated=True)
    found = middle.scatter([], [], s=50, c=RED, edgecolor=INK, zorder=5, animated=True)
    middle.legend([clean, touching, level_set], ["w₀, without noise", "clean loss", "R"], **below)

    right.set(xlim=(0.4, 3.6), ylim=(0, 0.38), xticks=(1, 2, 3), ylabel="nats per example")
    right.set_xticklabels(["α₁", "α₂", "sum = R"])
    right.set_title("Penalty by direction")
    bars = right.bar([1, 2, 3], [0, 0, 0], 0.62, color=[ORANGE, ORANGE, RED], animated=True)
    (limit,) = right.plot([], [], color=INK, ls="--", lw=1.2, animated=True)
    right.legend([limit], ["bound ½ λmax Σα"], **below)

    def update(mean_alpha: float, n_reflections: int, ratio: float) -> str:
        now = setting(mean_alpha, n_reflections, ratio)
        label.set_text(f"T = {n_reflections}")
        Q = np.outer(CHOSEN, CHOSEN) * now.C
        copies.set_offsets(CHOSEN + CHOSEN * (normal * np.sqrt(now.alpha) @ now.U.T))
        cloud.set_data(*(CHOSEN[:, None] + ellipse(np.linalg.inv(Q), 4.0)))
        distance = now.w - best
        touching.set_data(*(best[:, None] + ellipse(S, max(distance @ S @ distance, 1e-9))))
        level_set.set_data(*ellipse(S * now.C, 2 * now.penalty))
        found.set_offsets(now.w[None])
        for bar, height in zip(bars, (*now.shares, now.penalty), strict=True):
            bar.set_height(height)
        limit.set_data([2.6, 3.4], [now.bound] * 2)
        fit = 0.5 * np.mean((y - h @ now.w) ** 2)
        return (
            f"α = (<b>{now.alpha[0]:.4f}</b>, <b>{now.alpha[1]:.4f}</b>), C has "
            f"c₁₂ = <b>{now.C[0, 1]:.4f}</b>. Weights <b>{now.w[0]:.3f}</b>, <b>{now.w[1]:.3f}</b> "
            f"(without noise {best[0]:.3f}, {best[1]:.3f}). R = <b>{now.penalty:.4f}</b> nats per "
            f"example, clean loss <b>{fit:.4f}</b>, bound <b>{now.bound:.4f}</b>."
        )

    return update
