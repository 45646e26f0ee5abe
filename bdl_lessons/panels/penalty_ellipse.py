"""Lesson 12: noise on two inputs of a linear unit, and the ellipse of weights it holds back.

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
VECTOR_ANGLES = np.deg2rad(30 * np.arange(1, 7) - 15)
VECTORS = torch.from_numpy(np.stack([np.cos(VECTOR_ANGLES), np.sin(VECTOR_ANGLES)], axis=1))
"""Vector t stands at ``30 t - 15`` degrees: every further reflection turns the noise by 30."""

CIRCLE_ANGLES = np.linspace(0, 2 * np.pi, 61)
CIRCLE = np.stack([np.cos(CIRCLE_ANGLES), np.sin(CIRCLE_ANGLES)])
N_EXAMPLES = 40
N_COPIES = 80
TOP = 0.38  # nats per example; a bound above it is written
CHOSEN = np.array([1.0, 1.0])  # the input whose noisy copies are shown


class Setting(NamedTuple):
    """What two sliders and a choice stand for: numpy arrays of the mathematics.

    Attributes:
        alpha: variance of the noise along each direction, ``(2,)``.
        U: the directions as columns, ``(2, 2)``.
        C: covariance of the noise, ``U diag(alpha) U'``, ``(2, 2)``.
        w: the weights that minimise clean loss plus penalty, ``(2,)``.
        penalty: ``R(w)`` in nats per example.
        shares: the part of each direction in it, ``(2,)``.
        bound: half the largest eigenvalue of ``Omega`` times the sum of ``alpha``.
    """

    alpha: np.ndarray
    U: np.ndarray
    C: np.ndarray
    w: np.ndarray
    penalty: float
    shares: np.ndarray
    bound: float


def panel() -> Panel:
    """The panel of lesson 12: size, directions and inequality of the noise."""
    return Panel(
        build_figure,
        Slider(
            name="mean_alpha",
            label="mean of α₁, α₂",
            values=ALPHAS,
            value=0.2,
            show=str,
            web=ALPHAS[1::2],
        ),
        Slider(
            name="n_reflections",
            label="reflections T",
            values=REFLECTIONS,
            value=0,
            show=str,
        ),
        Choice(
            name="ratio",
            label="α₁ / α₂",
            values=RATIOS,
            value=25,
        ),
        size=(9.6, 4.2),
    )


def examples() -> tuple[np.ndarray, np.ndarray]:
    """Inputs ``(N, 2)``, correlated and positive as after a ReLU, and targets ``(N,)``."""
    rng = np.random.default_rng(3)
    common = rng.uniform(0.1, 1.4, N_EXAMPLES)
    h = np.abs(common[:, None] + 0.22 * rng.standard_normal((N_EXAMPLES, 2)))
    y = h @ [1.6, -0.5] + 0.15 * rng.standard_normal(N_EXAMPLES)
    return h, y


def setting(mean_alpha: float, n_reflections: int, ratio: float) -> Setting:
    """Noise covariance, the minimiser of clean loss plus penalty, and R there in three forms."""
    h, y = examples()
    S = h.T @ h / N_EXAMPLES
    alpha = mean_alpha * np.array([2 * ratio, 2]) / (1 + ratio)
    U = orthogonal_matrix(VECTORS[:n_reflections]).numpy()
    C = (U * alpha) @ U.T
    w = np.linalg.solve(S + S * C, h.T @ y / N_EXAMPLES)
    omega = np.outer(w, w) * S  # diag(h) H diag(h) with H = w w', averaged over examples
    largest_eigenvalue = np.linalg.eigvalsh(omega)[-1]
    return Setting(
        alpha=alpha,
        U=U,
        C=C,
        w=w,
        penalty=float(0.5 * w @ (S * C) @ w),
        shares=0.5 * alpha * np.einsum("ik,ij,jk->k", U, omega, U),
        bound=float(0.5 * largest_eigenvalue * alpha.sum()),
    )


def ellipse(matrix: np.ndarray, level: float) -> np.ndarray:
    """The curve ``x' matrix x = level``, ``(2, 61)``."""
    values, axes = np.linalg.eigh(matrix)
    radii = np.sqrt(level / values)
    return axes @ (radii[:, None] * CIRCLE)


def build_figure(figure: Figure) -> Update:
    """Left: noisy copies of one input in an ellipse; along a dotted line the weights without noise
    give equal outputs. Middle: contours of the loss and of the penalty over two weights, and the
    minimum between them. Right: the penalty of each direction and their sum, below a dashed bound.
    """
    h, y = examples()
    S = h.T @ h / N_EXAMPLES
    w_clean = np.linalg.solve(S, h.T @ y / N_EXAMPLES)
    normal = np.random.default_rng(0).standard_normal((N_COPIES, 2))
    left, middle, right = figure.subplots(1, 3, width_ratios=(1, 1, 0.8))
    figure.subplots_adjust(left=0.07, bottom=0.29, right=0.985, top=0.92, wspace=0.34)

    left.set(aspect="equal", title="Noise on one input")
    left.set(xlim=(-0.6, 2.6), xlabel="input h₁")
    left.set(ylim=(-0.6, 2.6), ylabel="input h₂")
    left.scatter(h[:, 0], h[:, 1], s=14, c=GREY, alpha=0.6, lw=0)
    copies = left.scatter([], [], s=8, c=ORANGE, lw=0, animated=True)
    (noise_ellipse,) = left.plot([], [], color=RED, ls="-", animated=True)
    along = np.array([-w_clean[1], w_clean[0]])
    for output_step in np.arange(-4, 5) * 0.6:
        foot = CHOSEN + output_step * w_clean / (w_clean @ w_clean)
        x_ends, y_ends = foot[:, None] + np.outer(along, [-3, 3])
        (equal_output,) = left.plot(x_ends, y_ends, color=BLUE, ls=":", lw=1.2)
    left.scatter(*CHOSEN, s=45, c=INK, zorder=5)
    depth_text = left.text(
        2.5,
        -0.45,
        "",
        ha="right",
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 2},  # on the dotted lines
        animated=True,
    )
    left.legend(
        [noise_ellipse, equal_output],
        ["2 std of h ∘ ξ", "equal output at w₀"],
        loc="upper center",
        bbox_to_anchor=(0.5, -0.2),
        ncols=2,
    )

    middle.set(aspect="equal", title="Loss and penalty")
    middle.set(xlim=(-1.2, 2.2), xlabel="weight w₁")
    middle.set(ylim=(-1.7, 1.7), ylabel="weight w₂")
    for level in (0.02, 0.08, 0.2, 0.4):
        x_contour, y_contour = w_clean[:, None] + ellipse(S, 2 * level)
        middle.plot(x_contour, y_contour, color=tint(BLUE, 0.45), ls="-", lw=1)
    clean_mark = middle.scatter(*w_clean, s=40, c=BLUE, marker="s", zorder=4)
    middle.scatter(0, 0, s=20, c=GREY, marker="+")
    (loss_contour,) = middle.plot([], [], color=BLUE, ls="-", animated=True)
    (penalty_contour,) = middle.plot([], [], color=RED, ls="--", animated=True)
    minimum = middle.scatter([], [], s=50, c=RED, edgecolor=INK, zorder=5, animated=True)
    middle.legend(
        [clean_mark, loss_contour, penalty_contour],
        ["w₀, without noise", "clean loss", "R"],
        loc="upper center",
        bbox_to_anchor=(0.5, -0.2),
        ncols=2,
    )

    right.set_title("Penalty by direction")
    right.set(xlim=(0.4, 3.6), xticks=(1, 2, 3), xticklabels=["α₁", "α₂", "sum = R"])
    right.set(ylim=(0, TOP), ylabel="nats per example")
    bars = right.bar([1, 2, 3], [0, 0, 0], 0.62, color=[ORANGE, ORANGE, RED], animated=True)
    (bound_line,) = right.plot([], [], color=INK, ls="--", lw=1.2, animated=True)
    bound_above = right.text(3, TOP, "", ha="center", va="top", animated=True)
    right.legend(
        [bound_line],
        ["bound ½ λmax Σα"],
        loc="upper center",
        bbox_to_anchor=(0.5, -0.2),
        ncols=2,
    )

    def update(mean_alpha: float, n_reflections: int, ratio: float) -> str:
        now = setting(mean_alpha, n_reflections, ratio)

        depth_text.set_text(f"T = {n_reflections}")
        noise = normal * np.sqrt(now.alpha) @ now.U.T
        copies.set_offsets(CHOSEN + CHOSEN * noise)
        copies_cov = np.outer(CHOSEN, CHOSEN) * now.C
        noise_ellipse.set_data(*(CHOSEN[:, None] + ellipse(np.linalg.inv(copies_cov), level=4.0)))

        shift = now.w - w_clean
        excess_loss = max(shift @ S @ shift, 1e-9)  # twice the loss above its minimum
        loss_contour.set_data(*(w_clean[:, None] + ellipse(S, excess_loss)))
        penalty_contour.set_data(*ellipse(S * now.C, 2 * now.penalty))
        minimum.set_offsets([now.w])

        for bar, height in zip(bars, [*now.shares, now.penalty], strict=True):
            bar.set_height(height)
        bound_line.set_data([2.6, 3.4], [now.bound, now.bound])
        bound_above.set_text(f"↑ {now.bound:.2f}" if now.bound > TOP else "")

        clean_loss = 0.5 * np.mean((y - h @ now.w) ** 2)
        return (
            f"α = (<b>{now.alpha[0]:.4f}</b>, <b>{now.alpha[1]:.4f}</b>), C has "
            f"c₁₂ = <b>{now.C[0, 1]:.4f}</b>. Weights <b>{now.w[0]:.3f}</b>, <b>{now.w[1]:.3f}</b> "
            f"(without noise {w_clean[0]:.3f}, {w_clean[1]:.3f}). R = <b>{now.penalty:.4f}</b> "
            f"nats per example, clean loss <b>{clean_loss:.4f}</b>, bound <b>{now.bound:.4f}</b>."
        )

    return update
