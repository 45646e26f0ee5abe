"""Lesson 06: what a drawn activation leaves out of the noise that drawn weights bring.

One unit with K inputs that count equally, one example, the loss (a - y)² and its derivative for the
log variance of the first weight. All moments are those of Gaussians (:func:`variances`); the dots
are fixed standard normal numbers, which the sliders only transform.
"""

from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch

from bdl_lessons.core import BLUE, GREY, INK, ORANGE, RED, tint
from bdl_lessons.panels.engine import Panel, Slider, Update

INPUTS = (1, 2, 3, 5, 10, 20, 50, 100)
OFF_TARGET = (0.0, 0.5, 1.0, 2.0, 5.0, 20.0, 100.0)
ACTIVATIONS = (-2.0, -1.6, -1.2, -0.8, -0.4, 0.0, 0.4, 0.8, 1.2, 1.6, 2.0)
N_DRAWS = 900
HALF_WIDTH = 0.1  # draws this near to the chosen activation are orange
LIMIT = 3.2  # of standard normal numbers that are shown
BAR_WIDTH = 0.62


def panel() -> Panel:
    """The panel of lesson 06: inputs of the unit, distance from the target, chosen activation."""
    return Panel(
        build_figure,
        Slider(
            name="n_inputs",
            label="K, inputs of the unit",
            values=INPUTS,
            value=2,
            web=(1, 2, 10, 100),
        ),
        Slider(
            name="off_target",
            label="(γ − y)² / δ, how far off target",
            values=OFF_TARGET,
            value=2.0,
            web=(0.0, 2.0, 20.0),
        ),
        Slider(
            name="zeta",
            label="ζ, activation of the orange draws",
            values=ACTIVATIONS,
            value=-1.2,
            web=(-1.2, 0.8),
        ),
        size=(9.6, 3.9),
    )


class Variances(NamedTuple):
    """Of one estimated derivative, in units of the square of the exact derivative.

    Attributes:
        weights: with drawn weights.
        activation: with a drawn activation: the variance of the conditional mean.
    """

    weights: float
    activation: float

    @property
    def left_out(self) -> float:
        """The mean of the conditional variance."""
        return self.weights - self.activation


def variances(n_inputs: int, off_target: float) -> Variances:
    r"""Both variances for K inputs of equal :math:`x^2 \sigma^2`, in closed form.

    With :math:`o = (\gamma - y) / \sqrt\delta` the estimates are :math:`\sqrt K (o + \zeta)
    \epsilon` and :math:`(o + \zeta) \zeta`, both of mean 1.

    Args:
        n_inputs: K.
        off_target: the squared distance of the mean from the target, in units of delta: o².

    >>> variances(n_inputs=2, off_target=2.0)
    Variances(weights=7.0, activation=4.0)
    """
    return Variances(
        weights=n_inputs * (off_target + 1) + 1,
        activation=off_target + 2,
    )


def build_figure(figure: Figure) -> Update:
    """Left: noise of one weight against that of all others together; an arrow is the direction of
    the activation, and draws with one activation lie on a line across it. Middle: their estimates
    of a derivative scatter about a curve, which the drawn activation gives. Right: two bars with
    the variances of both; the one for drawn weights has a part that is left out.
    """
    left, middle, right = figure.subplots(1, 3, width_ratios=(1.42, 1.42, 0.6))
    figure.subplots_adjust(left=0.06, bottom=0.153, right=0.99, top=0.9, wspace=0.28)
    left.set_position((0.07, 0.153, 0.747 * 3.9 / 9.6, 0.747))  # a square
    rng = np.random.default_rng(4)
    zeta_of_draws, across = rng.standard_normal((2, N_DRAWS))

    left.set_title("Noise of the weights")
    left.set(xlim=(-LIMIT, LIMIT), ylim=(-LIMIT, LIMIT))
    left.set(xticks=(-2, 0, 2), yticks=(-2, 0, 2))
    left.set(xlabel="ε of weight 1", ylabel="the other weights, together")
    cloud, chosen = _dots(left)
    arrow = FancyArrowPatch(
        (0, 0),
        (1, 1),
        arrowstyle="-|>",
        mutation_scale=18,
        lw=2.2,
        color=INK,
        zorder=3,
        animated=True,
    )
    left.add_patch(arrow)
    (foot,) = left.plot([], [], "D", ms=10, color=BLUE, mec="white", zorder=4, animated=True)

    middle.set_title("Estimates of the derivative")
    middle.set(xlim=(-LIMIT, LIMIT), xlabel="ζ, noise of the activation")
    middle.set_ylabel("estimate / exact")
    middle.yaxis.set_animated(True)
    estimates, chosen_estimates = _dots(middle)
    places = np.linspace(-LIMIT, LIMIT, 200)
    (curve,) = middle.plot([], [], color=BLUE, ls="-", lw=2.6, animated=True)
    (mean,) = middle.plot([], [], "D", ms=10, color=BLUE, mec="white", zorder=4, animated=True)
    middle.legend(
        [estimates, curve],
        ["(6), drawn weights", "(7), drawn activation"],
        loc="upper right",
    )

    right.set_title("Variance")
    right.set(xlim=(-0.6, 1.6), xticks=(0, 1), xticklabels=("(6)", "(7)"))
    right.set(ylim=(0, 1.3), yticks=(0, 0.5, 1), ylabel="share of (6)")
    (stays_of_weights, stays) = right.bar(
        (0, 1), 0, width=BAR_WIDTH, facecolor=tint(BLUE, 0.6), edgecolor=INK, lw=0.6, animated=True
    )
    (left_out,) = right.bar(
        0, 0, width=BAR_WIDTH, facecolor=tint(RED, 0.5), hatch="//", edgecolor=INK, animated=True
    )
    right.legend([left_out, stays], ["left out", "stays"], loc="upper right")

    def update(n_inputs: int, off_target: float, zeta: float) -> str:
        part = n_inputs**-0.5  # of the activation's noise, that of weight 1
        rest = (1 - 1 / n_inputs) ** 0.5
        eps = part * zeta_of_draws - rest * across
        others = (rest * zeta_of_draws + part * across) * (n_inputs > 1)
        offset = -(off_target**0.5)
        of_weights = n_inputs**0.5 * (offset + zeta_of_draws) * eps
        is_chosen = np.abs(zeta_of_draws - zeta) < HALF_WIDTH

        cloud.set_data(eps[~is_chosen], others[~is_chosen])
        chosen.set_data(eps[is_chosen], others[is_chosen])
        arrow.set_positions((-3 * part, -3 * rest), (3 * part, 3 * rest))
        foot.set_data([zeta * part], [zeta * rest])
        estimates.set_data(zeta_of_draws[~is_chosen], of_weights[~is_chosen])
        chosen_estimates.set_data(zeta_of_draws[is_chosen], of_weights[is_chosen])
        curve.set_data(places, (offset + places) * places)
        mean.set_data([zeta], [(offset + zeta) * zeta])

        of_both = variances(n_inputs, off_target)
        std = of_both.weights**0.5
        middle.set_ylim(-2.6 * std, 4.2 * std)
        share = of_both.activation / of_both.weights
        stays_of_weights.set_height(share)
        stays.set_height(share)
        left_out.set(y=share, height=1 - share)
        return (
            f"Variance in units of the exact derivative squared: drawn weights <b>"
            f"{of_both.weights:g}</b>, drawn activation <b>{of_both.activation:g}</b>, left out "
            f"<b>{of_both.left_out:g}</b>; the ratio is <b>{1 / share:.2f}</b>. At ζ = {zeta:g} "
            f"the conditional mean of ε is ζ / √K = <b>{zeta * part:.2f}</b>, and that of (6) is "
            f"<b>{(offset + zeta) * zeta:.2f}</b> (diamonds)."
        )

    return update


def _dots(axes: Axes) -> tuple[Line2D, Line2D]:
    """Grey dots for all draws and orange ones for the chosen, still without places."""
    (every,) = axes.plot([], [], "o", ms=3.5, color=tint(GREY, 0.45), mew=0, animated=True)
    (chosen,) = axes.plot([], [], "o", ms=6, color=ORANGE, mew=0, animated=True)
    return every, chosen
