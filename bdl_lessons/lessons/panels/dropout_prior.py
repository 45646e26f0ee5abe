r"""Lesson 04: what a weight decay says about the noise, and the KL of one weight from its prior.

One weight under dropout has the posterior ``keep N(m, s^2) + p_drop N(0, s^2)`` with ``m = 1``;
dropout itself is the limit ``s -> 0``. Its exact divergence from the prior ``N(0, l^-2)`` is found
by Gauss-Hermite quadrature on each component, so nothing is drawn at random.
"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from scipy.special import roots_hermitenorm, xlogy

from bdl_lessons.core import BLUE, GREY, INK, ORANGE, VERMILLION
from bdl_lessons.lessons.panel import Panel, Slider, Update
from bdl_lessons.probability import implied_tau

RATES = tuple(round(0.05 * step, 2) for step in range(19))
LENGTHSCALES = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0)
N_TRAINS = (100, 353, 1000, 3000, 10_000, 30_000, 100_000, 1_000_000)
S_STDS = (1.0, 0.5, 0.3, 0.2, 0.1, 0.05, 0.03, 0.02, 0.01, 0.003, 0.001)
M = 1.0
DECAY = 1e-4
DECAYS = np.array([1e-7, 1.0])
CURVE_S = np.geomspace(2e-4, 1, 30)
W = np.linspace(-1.2, 2.2, 681)
NODES, NODE_WEIGHTS = roots_hermitenorm(64)


def panel() -> Panel:
    """The panel of lesson 04: ``p_drop``, ``length_scale``, ``n_train`` and the width ``s_std``."""
    return Panel(
        "dropout-prior",
        build_figure,
        [
            Slider("p_drop", "p_drop, drop probability", RATES, 0.2, "{:.2f}".format),
            Slider("length_scale", "l, prior std is 1/l", LENGTHSCALES, 1.0),
            Slider("n_train", "N, training examples", N_TRAINS, 353, "{:,}".format),
            Slider("s_std", "s, width of a spike", S_STDS, 0.1),
        ],
        size=(9.8, 3.4),
    )


def build_figure(figure: Figure) -> Update:
    """Left: weight decay against implied tau. Middle: the density. Right: the KL as s shrinks."""
    left, middle, right = figure.subplots(1, 3, width_ratios=(1, 1.05, 1))
    figure.subplots_adjust(0.07, 0.17, 0.985, 0.89, wspace=0.3)

    left.set(xscale="log", yscale="log", xlim=(1e-7, 1), ylim=(1e-5, 1e7))
    left.set(xlabel="weight_decay (SGD, ½ squared error)", ylabel="implied τ, in units of 1/y²")
    left.set_title("The noise you have assumed")
    left.axvline(DECAY, color=GREY, lw=0.8, ls=":")
    (classic,) = left.plot(DECAYS, DECAYS, color=BLUE, ls="-", animated=True)
    (inverted,) = left.plot(DECAYS, DECAYS, color=VERMILLION, ls="--", animated=True)
    typed = left.scatter([], [], s=150, marker="*", c=ORANGE, edgecolor=INK, zorder=3)
    typed.set_animated(True)
    left.legend([classic, inverted], ["masks 0, 1", "masks 0, 1/keep"], loc="upper right")

    middle.set(xlim=(W[0], W[-1]), ylim=(1e-3, 1e3), yscale="log")
    middle.set(xlabel="one weight w", ylabel="density", title="Its posterior and its prior")
    (prior,) = middle.plot(W, W, color=GREY, ls="--", animated=True)
    (posterior,) = middle.plot(W, W, color=BLUE, ls="-", animated=True)
    middle.legend([posterior, prior], ["q(w)", "prior"], loc="upper right", ncols=2)

    right.set(xscale="log", xlim=(1, 2e-4), ylim=(-3.5, 12))
    right.set(xlabel="s (towards dropout →)", ylabel="KL(q ‖ prior), nats")
    right.set_title("KL of this weight")
    (exact,) = right.plot(CURVE_S, CURVE_S, color=BLUE, ls="-", animated=True)
    (formula,) = right.plot(CURVE_S, CURVE_S, color=VERMILLION, ls="--", animated=True)
    here = right.scatter([], [], s=60, c=BLUE, edgecolor=INK, zorder=3, animated=True)
    right.legend([exact, formula], ["exact", "equation (15)"], loc="lower right")

    def update(p_drop: float, length_scale: float, n_train: int, s_std: float) -> str:
        assumed = {
            scaling: implied_tau(
                DECAY,
                length_scale,
                n_train,
                p_drop,
                data_term="half_squared_error",
                scaling=scaling,
            )
            for scaling in ("classic", "inverted")
        }
        classic.set_ydata(assumed["classic"] * DECAY / DECAYS)
        inverted.set_ydata(assumed["inverted"] * DECAY / DECAYS)
        tau = assumed["inverted"]
        typed.set_offsets([[DECAY, tau]])

        posterior.set_ydata(np.exp(log_q(W, M, p_drop, s_std)))
        prior.set_ydata(np.exp(_log_normal(W, 0.0, 1 / length_scale)))
        exact.set_ydata(exact_kl(M, p_drop, length_scale, CURVE_S))
        formula.set_ydata(separated_kl(M, p_drop, length_scale, CURVE_S))
        kl = float(exact_kl(M, p_drop, length_scale, s_std))
        here.set_offsets([[s_std, kl]])

        step = 1e-4 * s_std
        up, down = (exact_kl(M + sign * step, p_drop, length_scale, s_std) for sign in (1, -1))
        return (
            f"<code>weight_decay=1e-4</code> with <code>nn.Dropout({p_drop:g})</code> assumes "
            f"τ = <b>{tau:.3g}</b>, noise of standard deviation <b>{tau**-0.5:.3g}</b>. "
            f"KL = <b>{kl:.2f}</b> nats; its slope in m is <b>{(up - down) / (2 * step):.3f}</b>, "
            f"in the limit keep·l²·m = <b>{(1 - p_drop) * length_scale**2 * M:.3f}</b>."
        )

    return update


def log_q(w: np.ndarray, m: float, p_drop: float, s_std: np.ndarray | float) -> np.ndarray:
    """Log density of ``keep N(m, s^2) + p_drop N(0, s^2)``; arguments broadcast."""
    kept = np.log1p(-p_drop) + _log_normal(w, m, s_std)
    if p_drop == 0:
        return kept
    return np.logaddexp(kept, np.log(p_drop) + _log_normal(w, 0.0, s_std))


def exact_kl(m: float, p_drop: float, length_scale: float, s_std: np.ndarray | float) -> np.ndarray:
    """``KL(q || N(0, l^-2))`` of one weight in nats, by quadrature; the shape of ``s_std``."""
    s_std = np.asarray(s_std, dtype=float)[..., None]
    total = 0.0
    for share, centre in ((1 - p_drop, m), (p_drop, 0.0)):
        w = centre + s_std * NODES
        log_ratio = log_q(w, m, p_drop, s_std) - _log_normal(w, 0.0, 1 / length_scale)
        total = total + share * (log_ratio @ NODE_WEIGHTS) / np.sqrt(2 * np.pi)
    return total


def separated_kl(
    m: float, p_drop: float, length_scale: float, s_std: np.ndarray | float
) -> np.ndarray:
    """Equation (15) for one weight: the same divergence if the two spikes do not overlap."""
    precision, keep = length_scale**2, 1 - p_drop
    entropy = -xlogy(keep, keep) - xlogy(p_drop, p_drop)
    spike = precision * np.square(s_std) - 1 - np.log(precision * np.square(s_std))
    return 0.5 * (keep * precision * m**2 + spike) - entropy


def _log_normal(w: np.ndarray, mean: float, std: np.ndarray | float) -> np.ndarray:
    return -0.5 * ((w - mean) / std) ** 2 - np.log(std) - 0.5 * np.log(2 * np.pi)
