r"""Lesson 04: what a weight decay says about the noise, and the KL of one weight from its prior.

One weight under dropout has the posterior ``keep N(theta, sigma^2) + p_drop N(0, sigma^2)``;
dropout itself is the limit ``sigma -> 0``. Its exact divergence from the prior ``N(0, l^-2)`` is
found by Gauss-Hermite quadrature on each component, so nothing is drawn at random.
"""

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.special import roots_hermitenorm, xlogy

from bdl_lessons.core import BLUE, GREY, INK, ORANGE, RED
from bdl_lessons.panels.engine import Panel, Slider, Update
from bdl_lessons.probability import implied_tau

Array = np.ndarray | float

RATES = tuple(round(0.05 * step, 2) for step in range(19))
LENGTHSCALES = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0)
N_TRAINS = (100, 353, 1000, 3530, 10_000, 30_000, 100_000, 1_000_000)
SIGMAS = (1.0, 0.5, 0.3, 0.2, 0.1, 0.05, 0.03, 0.02, 0.01, 0.003, 0.001)

DECAY = 1e-4  # the weight decay that is marked and stated
DECAYS = np.array([1e-7, 1e-1])  # the ends of the axis
W = np.linspace(-1.2, 2.2, 681)
THETAS = np.concatenate([-np.geomspace(2.5, 1e-3, 40), [0], np.geomspace(1e-3, 2.5, 40)])
TANGENT = np.linspace(0.3, 1.7, 15)  # around theta = 1, the weight that is shown
GHOSTS = (1.0, 0.1, 0.01, 0.001)  # values of sigma that stay in the picture, in grey
TOP = 12.0  # nats: curves end where the axis does, below the legend
NODES, NODE_WEIGHTS = roots_hermitenorm(64)


def panel() -> Panel:
    """The panel of lesson 04: ``p_drop``, ``length_scale``, ``n_train`` and the width ``sigma``."""
    return Panel(
        build_figure,
        Slider(
            name="p_drop",
            label="p_drop, drop probability",
            values=RATES,
            value=0.1,
            show="{:.2f}".format,
            web=RATES[::2],
        ),
        Slider(
            name="length_scale",
            label="ℓ, prior std is 1/ℓ",
            values=LENGTHSCALES,
            value=1.0,
            web=(0.3, 1.0, 3.0),
        ),
        Slider(
            name="n_train",
            label="N, training examples",
            values=N_TRAINS,
            value=353,
            show="{:,}".format,
            web=N_TRAINS[1::2],
        ),
        Slider(
            name="sigma",
            label="σ, width of a spike",
            values=SIGMAS,
            value=0.1,
            web=SIGMAS[::2],
        ),
        size=(9.6, 3.7),
    )


def build_figure(figure: Figure) -> Update:
    """Left: the noise that is assumed grows with the weight decay, a line on two logarithmic axes.
    Middle: the density of one weight, two narrow peaks at 0 and at its value, under the wide
    prior. Right: its KL to the prior against its value, curves with a small hill at zero, and
    the slope away from it.
    """
    left, middle, right = figure.subplots(1, 3)
    figure.subplots_adjust(left=0.075, bottom=0.15, right=0.985, top=0.8, wspace=0.32)

    left.set(xscale="log", xlim=DECAYS, xlabel="weight_decay (mse_loss)")
    left.set(yscale="log", ylim=(1e-4, 1e4), ylabel="noise assumed, 1/√τ (units of y)")
    (classic,) = left.plot(DECAYS, DECAYS, color=BLUE, ls="-", animated=True)
    (inverted,) = left.plot(DECAYS, DECAYS, color=RED, ls="--", animated=True)
    star = left.scatter([], [], s=150, marker="*", c=ORANGE, edgecolor=INK, zorder=3, animated=True)
    reading = left.text(0.03, 0.98, "", va="top", transform=left.transAxes, animated=True)
    _title_and_legend(
        left,
        title="The noise that is assumed",
        legend={"masks 0, 1": classic, "nn.Dropout": inverted},
    )

    middle.set(xlim=(W[0], W[-1]), xlabel="weight w")
    middle.set(yscale="log", ylim=(1e-3, 1e3), ylabel="density")
    (prior,) = middle.plot(W, W, color=GREY, ls="--", animated=True)
    (posterior,) = middle.plot(W, W, color=BLUE, ls="-", animated=True)
    _title_and_legend(
        middle,
        title="One weight with Θ = 1",
        legend={"q(w)": posterior, "prior": prior},
    )

    right.set(xlim=(THETAS[0], THETAS[-1]), xlabel="parameter Θ")
    right.set(ylim=(-1, TOP), ylabel="KL(q ‖ prior), nats")
    ghosts = [
        right.plot(THETAS, THETAS, color=GREY, lw=0.9, ls="-", animated=True)[0] for _ in GHOSTS
    ]
    (exact,) = right.plot(THETAS, THETAS, color=BLUE, ls="-", animated=True)
    (tangent,) = right.plot(TANGENT, TANGENT, color=RED, ls="--", lw=2.4, animated=True)
    slope_text = right.text(
        0.5,
        0.98,
        "",
        ha="center",
        va="top",
        transform=right.transAxes,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},  # curves pass below it
        animated=True,
    )
    _title_and_legend(
        right,
        title="Its KL term",
        legend={"this σ": exact, "1 … 0.001": ghosts[0], "slope": tangent},
    )

    def update(p_drop: float, length_scale: float, n_train: int, sigma: float) -> str:
        def assumed_tau(scaling: str) -> float:
            """The noise precision that belongs to the weight decay ``DECAY``."""
            return implied_tau(
                DECAY, length_scale, n_train, p_drop, data_term="mse", scaling=scaling
            )

        tau_classic = assumed_tau("classic")
        tau_inverted = assumed_tau("inverted")
        noise_classic = tau_classic**-0.5
        noise_inverted = tau_inverted**-0.5
        classic.set_ydata(np.sqrt(DECAYS / DECAY / tau_classic))
        inverted.set_ydata(np.sqrt(DECAYS / DECAY / tau_inverted))
        star.set_offsets([[DECAY, noise_inverted]])
        reading.set_text(f"at 1e-4: {noise_inverted:.3g}\n(masks 0, 1: {noise_classic:.3g})")

        posterior.set_ydata(np.exp(log_q(W, 1.0, p_drop, sigma)))
        prior.set_ydata(np.exp(_log_normal(W, 0.0, 1 / length_scale)))

        widths = np.array([*GHOSTS, sigma])[:, None]
        curves = exact_kl(THETAS, p_drop, length_scale, widths)
        for line, curve in zip([*ghosts, exact], curves, strict=True):
            line.set_ydata(_below_top(curve))
        kl = float(exact_kl(1.0, p_drop, length_scale, sigma))
        slope = kl_slope(1.0, p_drop, length_scale, sigma)
        tangent.set_ydata(_below_top(kl + slope * (TANGENT - 1)))
        slope_text.set_text(f"slope at Θ = 1: {slope:.3f}")
        limit = (1 - p_drop) * length_scale**2
        return (
            f"<code>weight_decay=1e-4</code> with <code>nn.Dropout({p_drop:g})</code> assumes "
            f"noise of standard deviation <b>{noise_inverted:.3g}</b>. For Θ = 1 the KL is "
            f"<b>{kl:.2f}</b> nats and its slope is <b>{slope:.3f}</b>; the limit of the slope "
            f"as σ → 0 is keep·ℓ²·Θ = <b>{limit:.3f}</b>."
        )

    return update


def log_q(w: np.ndarray, theta: Array, p_drop: float, sigma: Array) -> np.ndarray:
    """Log density of ``keep N(theta, sigma^2) + p_drop N(0, sigma^2)``; arguments broadcast.

    >>> log_q(np.array([1.0]), theta=1.0, p_drop=0.0, sigma=1.0).round(4)
    array([-0.9189])
    """
    kept = np.log1p(-p_drop) + _log_normal(w, theta, sigma)
    if p_drop == 0:
        return kept
    dropped = np.log(p_drop) + _log_normal(w, 0.0, sigma)
    return np.logaddexp(kept, dropped)


def exact_kl(theta: Array, p_drop: float, length_scale: float, sigma: Array) -> np.ndarray:
    """``KL(q || N(0, l^-2))`` in nats by quadrature; ``theta`` and ``sigma`` broadcast.

    >>> exact_kl(theta=2.0, p_drop=0.0, length_scale=1.0, sigma=1.0).round(4).item()
    2.0
    """
    theta = np.asarray(theta, dtype=float)[..., None]
    sigma = np.asarray(sigma, dtype=float)[..., None]
    total = 0.0
    for share, centre in ((1 - p_drop, theta), (p_drop, 0.0)):
        w = centre + sigma * NODES
        log_ratio = log_q(w, theta, p_drop, sigma) - _log_normal(w, 0.0, 1 / length_scale)
        total = total + share * (log_ratio @ NODE_WEIGHTS) / np.sqrt(2 * np.pi)
    return total


def kl_slope(theta: float, p_drop: float, length_scale: float, sigma: float) -> float:
    """The derivative of ``exact_kl`` in ``theta``, by a central difference."""
    step = 1e-4 * sigma
    neighbours = np.array([theta - step, theta + step])
    down, up = exact_kl(neighbours, p_drop, length_scale, sigma)
    return float(up - down) / (2 * step)


def separated_kl(theta: Array, p_drop: float, length_scale: float, sigma: Array) -> np.ndarray:
    """Equation (25) for one weight: the same divergence if the two spikes do not overlap."""
    keep = 1 - p_drop
    precision = length_scale**2
    variance_ratio = precision * np.square(sigma)
    spike = variance_ratio - 1 - np.log(variance_ratio)
    entropy = -xlogy(keep, keep) - xlogy(p_drop, p_drop)
    return 0.5 * (keep * precision * np.square(theta) + spike) - entropy


def _log_normal(w: np.ndarray, mean: Array, std: Array) -> np.ndarray:
    return -0.5 * ((w - mean) / std) ** 2 - np.log(std) - 0.5 * np.log(2 * np.pi)


def _below_top(curve: np.ndarray) -> np.ndarray:
    """The curve with gaps where it leaves the axis."""
    return np.where(curve < TOP, curve, np.nan)


def _title_and_legend(axes: Axes, title: str, legend: dict[str, Artist]) -> None:
    """A title, and under it the legend: above the axes it lies on no data."""
    axes.set_title(title, pad=28)
    axes.legend(
        legend.values(),
        legend.keys(),
        loc="lower left",
        bbox_to_anchor=(-0.04, 0.98),
        ncols=len(legend),
        handlelength=1.3,
        columnspacing=0.8,
        handletextpad=0.4,
        borderpad=0.2,
    )
