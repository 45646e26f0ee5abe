"""Lesson 04: which noise the ELBO chooses under dropout, and of what it is made.

A linear regression with dropout on its ten inputs and the prior N(0, 1): the mean over masks has a
closed form, so nothing is trained and only the data are random. At the best noise precision,
1/tau = training residual² + variance over masks.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from bdl_lessons.core import BLUE, GREY, INK, RED, tint
from bdl_lessons.panels.engine import Panel, Slider, Update

RATES = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6)
NOISES = (0.03, 0.1, 0.3, 1.0, 3.0)
SIZES = (15, 20, 40, 100, 400)
CURVE = np.geomspace(RATES[0], RATES[-1], 25)
N_INPUTS = 10
N_ITERATIONS = 300
TOLERANCE = 1e-6  # of a turn, relative, at which it ends
LIMITS = (0.15, 30)  # of the left picture, in true standard deviations
BAR_WIDTH = 0.62


def panel() -> Panel:
    """The panel of lesson 04: drop probability, true noise, number of training examples."""
    return Panel(
        build_figure,
        Slider(
            name="p_drop",
            label="p_drop, drop probability",
            values=RATES,
            value=0.1,
        ),
        Slider(
            name="noise_std",
            label="true noise (std of the signal: 1)",
            values=NOISES,
            value=1.0,
        ),
        Slider(
            name="n_train",
            label="N, training examples",
            values=SIZES,
            value=40,
        ),
        size=(9.6, 3.8),
    )


class NoiseChoice(NamedTuple):
    """Of what the noise variance is made that the ELBO chooses.

    Attributes:
        residual_var: mean squared residual of the training examples, for the mean over masks.
        mask_var: mean variance of their predictions over masks.
    """

    residual_var: float
    mask_var: float

    @property
    def elbo_var(self) -> float:
        """1 / tau at the maximum of the ELBO."""
        return self.residual_var + self.mask_var


def build_figure(figure: Figure) -> Update:
    """Left: against the drop probability the noise that the ELBO chooses, and what the training
    residual alone would say, in units of the true noise. Right: at one drop probability a bar of
    the chosen variance with its two parts, training residual and variance over masks, beside one
    of the true variance.
    """
    left, right = figure.subplots(1, 2, width_ratios=(1.6, 1))
    figure.subplots_adjust(left=0.085, bottom=0.155, right=0.985, top=0.9, wspace=0.26)

    left.set_title("Noise chosen / true noise")
    left.set(xscale="log", xlim=(CURVE[0], CURVE[-1]), xlabel="p_drop")
    left.set_xticks([0.01, 0.03, 0.1, 0.3, 0.6], ["0.01", "0.03", "0.1", "0.3", "0.6"])
    left.set(yscale="log", ylim=LIMITS, ylabel="standard deviations")
    left.set_yticks([0.1, 0.3, 1, 3, 10], ["0.1", "0.3", "1", "3", "10"])
    left.minorticks_off()
    left.axhline(1, color=GREY, ls=":")
    (chosen,) = left.plot([], [], color=INK, ls="-", lw=2.4, animated=True)
    (residual,) = left.plot([], [], color=BLUE, ls="--", lw=2.2, animated=True)
    here = left.axvline(1, color=GREY, lw=1.2, ls="-", animated=True)
    left.legend(
        [chosen, residual],
        ["by the ELBO", "training residual alone"],
        loc="upper left",
    )

    right.set_title("Variances")
    right.set(xlim=(-0.6, 1.6), xticks=(0, 1), xticklabels=("ELBO's 1/τ", "true noise"))
    right.set(ylabel="variance (true noise: 1)")
    right.yaxis.set_animated(True)
    (residual_bar,) = right.bar(
        0, 0, width=BAR_WIDTH, facecolor=tint(BLUE, 0.55), edgecolor=INK, lw=0.6, animated=True
    )
    (mask_bar,) = right.bar(
        0, 0, width=BAR_WIDTH, facecolor=tint(RED, 0.5), hatch="//", edgecolor=INK, animated=True
    )
    right.bar(
        1, 1, width=BAR_WIDTH, facecolor=tint(GREY, 0.5), edgecolor=INK, lw=0.6, animated=True
    )
    right.legend(
        [mask_bar, residual_bar],
        ["over masks", "training residual"],
        loc="upper right",
    )

    def update(p_drop: float, noise_std: float, n_train: int) -> str:
        curve = [noise_choice(rate, noise_std, n_train) for rate in CURVE]
        chosen.set_data(CURVE, [choice.elbo_var**0.5 / noise_std for choice in curve])
        residual.set_data(CURVE, [choice.residual_var**0.5 / noise_std for choice in curve])
        here.set_xdata([p_drop, p_drop])

        now = noise_choice(p_drop, noise_std, n_train)
        unit = noise_std**2
        residual_bar.set_height(now.residual_var / unit)
        mask_bar.set(y=now.residual_var / unit, height=now.mask_var / unit)
        right.set_ylim(0, 1.45 * max(1, now.elbo_var / unit))
        return (
            f"True noise variance 1: training residual <b>{now.residual_var / unit:.3g}</b> plus "
            f"variance over masks <b>{now.mask_var / unit:.3g}</b> is the ELBO's 1/τ, "
            f"<b>{now.elbo_var / unit:.3g}</b>. As a standard deviation its noise is "
            f"<b>{(now.elbo_var / unit) ** 0.5:.2f}</b> times the true one."
        )

    return update


@cache
def noise_choice(p_drop: float, noise_std: float, n_train: int) -> NoiseChoice:
    """Where ascent on the ELBO in the weights and in tau ends, in turns of closed forms."""
    x, true_weights, noise = _data()
    x = x[:n_train]
    y = x @ true_weights + noise_std * noise[:n_train]
    keep = 1 - p_drop
    gram = x.T @ x
    mask_penalty = p_drop / keep * np.diag(gram.diagonal())
    noise_var = 1.0
    for _ in range(N_ITERATIONS):
        precision = gram + mask_penalty + noise_var / keep * np.eye(N_INPUTS)
        weights = np.linalg.solve(precision, x.T @ y)  # keep * Theta: of the mean over masks
        residual_var = np.mean((y - x @ weights) ** 2)
        mask_var = np.mean(_mask_variance(x, weights, p_drop))
        before = noise_var
        noise_var = residual_var + mask_var
        if abs(noise_var - before) < TOLERANCE * noise_var:
            break
    return NoiseChoice(residual_var=residual_var, mask_var=mask_var)


def _mask_variance(x: np.ndarray, weights: np.ndarray, p_drop: float) -> np.ndarray:
    """Variance over masks of z * x @ Theta for each row, with keep * Theta as the weights."""
    return p_drop / (1 - p_drop) * x**2 @ weights**2


@cache
def _data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs, true weights of length 1, so that the signal has variance 1, and standard noise."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((max(SIZES), N_INPUTS))
    noise = rng.standard_normal(max(SIZES))
    weights = rng.standard_normal(N_INPUTS)
    return x, weights / np.linalg.norm(weights), noise
