"""Lesson 07: one alpha, three views: the noise, one noisy weight, and its KL from the prior."""

import numpy as np
import torch
from matplotlib.figure import Figure

from bdl_lessons.core import BLUE, GREEN, GREY, INK, RED
from bdl_lessons.panels.engine import Choice, Panel, Slider, Update
from bdl_lessons.probability import kingma_kl, loguniform_kl, loguniform_kl_slope, molchanov_kl

LOG_ALPHAS = tuple(round(-6 + 0.25 * step, 2) for step in range(41))
MEANS = (0.25, 0.5, 1.0, 2.0)
NOISE = np.linspace(-2, 4, 601)
WEIGHT = np.linspace(-4, 6, 801)
CURVE = torch.linspace(LOG_ALPHAS[0], LOG_ALPHAS[-1], 401, dtype=torch.float64)


def panel() -> Panel:
    """The panel of lesson 07: the noise variance alpha, and the weight that it multiplies."""
    return Panel(
        build_figure,
        Slider(
            name="log_alpha",
            label="log α (p_drop)",
            values=LOG_ALPHAS,
            value=-1.0,
            show=show_alpha,
        ),
        Choice(
            name="mu",
            label="μ, mean of the weight",
            values=MEANS,
            value=1.0,
            show="{:g}".format,
        ),
        size=(9.6, 3.9),
    )


def show_alpha(log_alpha: float) -> str:
    """``log alpha`` with the drop probability of the same variance, ``alpha / (1 + alpha)``."""
    return f"{log_alpha:g} ({matched_p_drop(log_alpha):.3f})"


def matched_p_drop(log_alpha: float) -> float:
    """The drop probability whose inverted dropout has variance alpha."""
    return float(1 / (1 + np.exp(-log_alpha)))


def build_figure(figure: Figure) -> Update:
    """Left: the Gaussian factor as a curve and the binary one as two bars. Middle: the density of
    one weight beside the prior, which has a pole at zero. Right: the KL against log alpha, a
    falling curve, with two approximations of it; the cubic one leaves it above alpha = 1.
    """
    left, middle, right = figure.subplots(1, 3, width_ratios=(1, 1, 1.15))
    figure.subplots_adjust(left=0.07, bottom=0.155, right=0.985, top=0.9, wspace=0.3)

    left.set_title("The noise")
    left.set(xlim=(NOISE[0], NOISE[-1]), xlabel="factor ξ")
    left.set(ylim=(0, 2.6), yticks=(0, 1, 2), ylabel="density, or probability (bars)")
    (gaussian,) = left.plot(NOISE, NOISE, color=BLUE, ls="-", animated=True)
    binary = left.vlines([0, 1], 0, [1, 1], color=RED, lw=5, alpha=0.7, animated=True)
    left.legend([gaussian, binary], ["N(1, α)", "binary"], loc="upper right")

    middle.set_title("One weight")
    middle.set(xlim=(WEIGHT[0], WEIGHT[-1]), xlabel="weight w = μ ξ")
    middle.set(yscale="log", ylim=(1e-3, 2e3), yticks=(1e-3, 1e-2, 0.1, 1, 10), ylabel="density")
    middle.minorticks_off()
    with np.errstate(divide="ignore"):  # the pole at zero
        prior_density = np.minimum(0.3 / np.abs(WEIGHT), 30)
    (prior,) = middle.plot(WEIGHT, prior_density, color=GREY, ls="--")
    (weight,) = middle.plot(WEIGHT, WEIGHT, color=BLUE, ls="-", animated=True)
    middle.legend([weight, prior], ["q(w)", "prior ∝ 1/|w|"], loc="upper right")

    right.set_title("Its KL divergence")
    right.set(xlim=(LOG_ALPHAS[0], LOG_ALPHAS[-1]), xlabel="log α")
    right.set(ylim=(-0.6, 4.6), ylabel="KL (nats per factor)")
    right.axhline(0, color=GREY, lw=0.8, ls=":")
    right.plot([0, 0], [-0.6, 2.4], color=GREY, lw=0.8, ls=":")
    right.text(0.3, 1.7, "α > 1")
    right.plot(CURVE, loguniform_kl(CURVE), color=BLUE, ls="-", label="exact")
    right.plot(CURVE, kingma_kl(CURVE), color=RED, ls="--", label="cubic")
    right.plot(CURVE, molchanov_kl(CURVE), color=GREEN, ls=":", lw=2.6, label="sigmoid")
    right.legend(loc="upper right")
    here = right.scatter(
        [], [], s=60, c=BLUE, edgecolor=INK, zorder=4, clip_on=False, animated=True
    )
    (tangent,) = right.plot([], [], color=INK, ls="-", lw=1.1, animated=True)

    def update(log_alpha: float, mu: float) -> str:
        std = np.exp(log_alpha / 2)
        p_drop = matched_p_drop(log_alpha)
        keep = 1 - p_drop
        gaussian.set_ydata(_normal(NOISE, mean=1.0, std=std))
        dropped_bar = [(0, 0), (0, p_drop)]
        kept_bar = [(1 / keep, 0), (1 / keep, keep)]
        binary.set_segments([dropped_bar, kept_bar])

        weight.set_ydata(np.maximum(_normal(WEIGHT, mean=mu, std=std * mu), 1e-9))

        at = torch.tensor(log_alpha, dtype=torch.float64)
        kl = loguniform_kl(at).item()
        slope = loguniform_kl_slope(at).item()
        here.set_offsets([[log_alpha, kl]])
        reach = np.array([-1.2, 1.2])
        tangent.set_data(log_alpha + reach, kl + slope * reach)

        sign_flips = torch.special.ndtr(torch.tensor(-1 / std)).item()
        return (
            f"α = <b>{std**2:.4g}</b>, as inverted dropout with p_drop = <b>{p_drop:.3f}</b>. "
            f"KL = <b>{kl:.4f}</b> nats for any μ; cubic <b>{kingma_kl(at).item():.4g}</b>, "
            f"sigmoid <b>{molchanov_kl(at).item():.4f}</b>. Slope of the KL: <b>{slope:.4f}</b> "
            f"nats per unit of log α. P(sign of w flips) = <b>{sign_flips:.3f}</b>."
        )

    return update


def _normal(x: np.ndarray, mean: float, std: float) -> np.ndarray:
    return np.exp(-0.5 * ((x - mean) / std) ** 2) / (std * np.sqrt(2 * np.pi))
