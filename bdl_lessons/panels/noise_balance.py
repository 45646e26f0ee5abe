"""Lesson 07: the likelihood lowers the noise of a unit, the KL raises it; where do they balance?

The expected loss grows in proportion to alpha, as it does exactly in a linear model with Gaussian
observation noise. The KL is that from the log-uniform prior, for one factor.
"""

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from bdl_lessons.core import BLUE, GREY, INK, ORANGE, RED
from bdl_lessons.panels.engine import Choice, Panel, Slider, Update
from bdl_lessons.probability import loguniform_kl, loguniform_kl_slope

LOG_ALPHAS = tuple(round(-6 + 0.25 * step, 2) for step in range(25))  # alpha <= 1
SENSITIVITIES = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
KL_WEIGHTS = {"1": 1.0, "1/2": 1 / 2, "1/3 (A2)": 1 / 3}
CURVE = torch.linspace(LOG_ALPHAS[0], LOG_ALPHAS[-1], 241, dtype=torch.float64)
SEARCHED = torch.linspace(LOG_ALPHAS[0], LOG_ALPHAS[-1], 6001, dtype=torch.float64)
LIMIT = 4.2  # of the left picture, in nats
CLOSE = 0.02  # slopes that differ by less, in nats per unit of log alpha, are said to balance


def panel() -> Panel:
    """The panel of lesson 07: log alpha, how much the loss suffers, and the weight of the KL."""
    return Panel(
        build_figure,
        Slider(
            name="log_alpha",
            label="log α",
            values=LOG_ALPHAS,
            value=-1.0,
        ),
        Slider(
            name="sensitivity",
            label="growth of the loss at α = 1 (nats)",
            values=SENSITIVITIES,
            value=8.0,
        ),
        Choice(
            name="kl_weight",
            label="weight of the KL",
            values=tuple(KL_WEIGHTS),
            value="1",
        ),
        size=(9.6, 3.8),
    )


def resting_log_alpha(sensitivity: float, kl_weight: float) -> float:
    """Where the sum of loss and KL is smallest, with alpha at most 1."""
    slope = _loss_slope(SEARCHED, sensitivity) + kl_weight * loguniform_kl_slope(SEARCHED)
    is_rising = slope >= 0
    first = int(is_rising.int().argmax()) if is_rising.any() else len(SEARCHED) - 1
    return SEARCHED[first].item()


def build_figure(figure: Figure) -> Update:
    """Left: the expected loss, which rises with log alpha, the KL term, which falls, and their sum
    with its lowest point. Right: the two slopes, which cross where the noise rests.
    """
    left, right = figure.subplots(1, 2)
    figure.subplots_adjust(left=0.07, bottom=0.15, right=0.985, top=0.91, wspace=0.2)

    left.set_title("What the noise of one unit adds")
    left.set(xlim=(LOG_ALPHAS[0], LOG_ALPHAS[-1]), xlabel="log α")
    left.set(ylim=(-0.1, LIMIT), ylabel="nats")
    (sum_line,) = left.plot([], [], color=INK, ls="-", lw=2.4, animated=True)
    (kl_line,) = left.plot([], [], color=BLUE, ls="--", lw=2.2, animated=True)
    (loss_line,) = left.plot([], [], color=RED, ls="-.", lw=2.2, animated=True)
    left.legend(
        [sum_line, kl_line, loss_line],
        ["sum", "KL term", "expected loss"],
        loc="upper center",
    )
    here = left.scatter([], [], s=60, c=INK, zorder=4, animated=True)
    rest = left.scatter([], [], s=170, c=ORANGE, edgecolor=INK, zorder=3, animated=True)

    right.set_title("Who pulls harder?")
    right.set(xlim=(LOG_ALPHAS[0], LOG_ALPHAS[-1]), xlabel="log α")
    right.set(ylim=(0, 1.6), ylabel="nats per unit of log α")
    (up_line,) = right.plot([], [], color=RED, ls="-.", lw=2.2, animated=True)
    (down_line,) = right.plot([], [], color=BLUE, ls="--", lw=2.2, animated=True)
    right.legend(
        [up_line, down_line],
        ["loss: towards less noise", "KL: towards more noise"],
        loc="upper left",
    )
    place = right.axvline(0, color=GREY, ls=":", animated=True)

    def update(log_alpha: float, sensitivity: float, kl_weight: str) -> str:
        weight = KL_WEIGHTS[kl_weight]
        loss = sensitivity * CURVE.exp()
        kl = weight * loguniform_kl(CURVE)
        sum_line.set_data(CURVE, loss + kl)
        kl_line.set_data(CURVE, kl)
        loss_line.set_data(CURVE, loss)
        up_line.set_data(CURVE, _loss_slope(CURVE, sensitivity))
        down_line.set_data(CURVE, -weight * loguniform_kl_slope(CURVE))
        place.set_xdata([log_alpha, log_alpha])

        at = torch.tensor(log_alpha, dtype=torch.float64)
        up = _loss_slope(at, sensitivity).item()
        down = -weight * loguniform_kl_slope(at).item()
        here.set_offsets([[log_alpha, _total(at, sensitivity, weight)]])
        resting = torch.tensor(resting_log_alpha(sensitivity, weight), dtype=torch.float64)
        rest.set_offsets([[resting.item(), _total(resting, sensitivity, weight)]])

        alpha = resting.exp().item()
        where = "at the bound" if resting.item() == LOG_ALPHAS[-1] else "where the slopes are equal"
        return (
            f"At α = {np.exp(log_alpha):.3g} the loss pulls with <b>{up:.3f}</b> nats per unit of "
            f"log α, the KL with <b>{down:.3f}</b>: {_what_follows(up, down)}. It rests {where}, "
            f"at α = <b>{alpha:.3g}</b>, which is p_drop = {alpha / (1 + alpha):.3f}."
        )

    return update


def _loss_slope(log_alpha: Tensor, sensitivity: float) -> Tensor:
    """Of ``sensitivity * alpha``, in nats per unit of log alpha."""
    return sensitivity * log_alpha.exp()


def _total(log_alpha: Tensor, sensitivity: float, weight: float) -> float:
    return (sensitivity * log_alpha.exp() + weight * loguniform_kl(log_alpha)).item()


def _what_follows(up: float, down: float) -> str:
    if abs(up - down) < CLOSE:
        return "the noise is about at rest"
    return "the noise shrinks" if up > down else "the noise grows"
