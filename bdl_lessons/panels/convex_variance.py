"""Lesson 09: three hidden units, two clusters, and a straight line over the variance.

With ReLU units and noise on them, the variance of the output is convex: no hinge and no output
weight lifts it over the straight line from cluster to cluster. With tanh, or with noise on the
input, the proof breaks, and some settings have a hill.
"""

from collections.abc import Callable

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from bdl_lessons.core import BLUE, GREY, INK, RED, tint
from bdl_lessons.panels.engine import Choice, Panel, Slider, Update
from bdl_lessons.probability import all_masks

P_DROP = 0.5
CLUSTERS = (1.0, 3.0)
MIDDLE = 2.0
X = np.linspace(0, 4, 401)
DISTANCES = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5)
WEIGHTS = (-5.0, -4.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0)
STEEPNESS = 2.0  # of tanh

RELU = "ReLU, noise on the units"
TANH = "tanh, noise on the units"
INPUT = "ReLU, noise on the input"
NETWORKS = (RELU, TANH, INPUT)


def panel() -> Panel:
    """A panel of lesson 09: where the hinges are, the middle unit's weight, and what has noise."""
    return Panel(
        build_figure,
        Slider(
            name="distance",
            label="outer hinges: distance from the middle",
            values=DISTANCES,
            value=1.0,
        ),
        Slider(
            name="weight",
            label="output weight of the middle unit",
            values=WEIGHTS,
            value=1.0,
        ),
        Choice(
            name="network",
            label="units and noise",
            values=NETWORKS,
            value=RELU,
        ),
        size=(9.4, 3.5),
    )


def build_figure(figure: Figure) -> Update:
    """Left: the output of a network of three units under each of its masks, with dotted lines at
    two clusters. Right: what each unit adds to the variance, the variance itself, and a straight
    line over it from cluster to cluster; where the variance rises above the line, the area between
    them is red.
    """
    left, right = figure.subplots(1, 2)
    figure.subplots_adjust(left=0.06, bottom=0.15, right=0.985, top=0.9, wspace=0.2)
    for axes in (left, right):
        axes.set(xlim=(X[0], X[-1]), xlabel="input x")
        for centre in CLUSTERS:
            axes.axvline(centre, color=GREY, ls=":", lw=1)

    left.set_title("Output under every mask")
    left.set(ylim=(-9, 9), ylabel="f(x)")
    outputs = LineCollection([], colors=BLUE, lw=1.2, ls="-", animated=True)
    left.add_collection(outputs)

    right.set_title("Variance of the output")
    right.set(ylim=(0, 10), ylabel="variance of f(x)")
    parts = LineCollection([], colors=tint(BLUE, 0.5), lw=1.2, ls="--", animated=True)
    right.add_collection(parts)
    hill = right.fill_between([], [], color=tint(RED, 0.4), lw=0, animated=True)
    (total_line,) = right.plot([], [], color=BLUE, ls="-", lw=2.4, animated=True)
    (chord_line,) = right.plot([], [], color=INK, ls="-.", marker="o", ms=6, animated=True)
    right.legend(
        [total_line, parts, chord_line, hill],
        ["variance", "of one unit", "straight line", "hill above it"],
        loc="upper center",
        ncols=2,
    )

    def update(distance: float, weight: float, network: str) -> str:
        functions, probs = functions_of_masks(X, distance, weight, network)
        variance = variance_of(functions, probs)
        line = np.interp(X, CLUSTERS, np.interp(CLUSTERS, X, variance))
        is_between = np.abs(X - MIDDLE) <= 1
        outputs.set_segments(_curves(functions))
        parts.set_segments([])
        if network != INPUT:
            parts.set_segments(_curves(variances_of_units(X, distance, weight, network)))
        total_line.set_data(X, variance)
        chord_line.set_data(CLUSTERS, np.interp(CLUSTERS, X, variance))
        top = np.maximum(line, variance)
        hill.set_data(X[is_between], line[is_between], top[is_between])

        excess = np.where(is_between, variance - line, -np.inf)
        highest = int(excess.argmax())
        at_left, at_middle, at_right = np.interp([CLUSTERS[0], MIDDLE, CLUSTERS[1]], X, variance)
        values = (
            f"Variance at 1, 2 and 3: <b>{at_left:.2f}</b>, <b>{at_middle:.2f}</b>, "
            f"<b>{at_right:.2f}</b>."
        )
        if excess[highest] < 1e-9:
            return f"{values} Nowhere from 1 to 3 above the straight line."
        return (
            f"{values} Above the straight line by up to <b>{excess[highest]:.2f}</b>, "
            f"at x = {X[highest]:.2f}."
        )

    return update


def units(x: np.ndarray, distance: float, network: str) -> np.ndarray:
    """Values ``(3, L)`` of the hidden units at inputs ``x (L,)``, without noise.

    The first rises to the right of ``MIDDLE - distance``, the second to the left of
    ``MIDDLE + distance``, the third to the right of ``MIDDLE``.
    """
    phi: Callable[[np.ndarray], np.ndarray] = _tanh if network == TANH else _relu
    first = phi(x - (MIDDLE - distance))
    second = phi((MIDDLE + distance) - x)
    return np.stack([first, second, phi(x - MIDDLE)])


def functions_of_masks(
    x: np.ndarray, distance: float, weight: float, network: str
) -> tuple[np.ndarray, np.ndarray]:
    """The output under every mask ``(masks, L)``, and the probabilities ``(masks,)``.

    Masks on units are divided by keep = 1/2; the mask on the input is 0 or 1.
    """
    w_out = np.array([1.0, -1.0, weight])
    if network == INPUT:
        dropped = w_out @ units(np.zeros_like(x), distance, network)
        kept = w_out @ units(x, distance, network)
        return np.stack([dropped, kept]), np.array([P_DROP, 1 - P_DROP])
    masks = all_masks(3).numpy() / (1 - P_DROP)
    functions = (masks * w_out) @ units(x, distance, network)
    return functions, np.full(len(masks), P_DROP**3)


def variance_of(functions: np.ndarray, probs: np.ndarray) -> np.ndarray:
    """Variance ``(L,)`` over functions ``(masks, L)`` that have probabilities ``(masks,)``."""
    mean = probs @ functions
    return probs @ (functions - mean) ** 2


def variances_of_units(x: np.ndarray, distance: float, weight: float, network: str) -> np.ndarray:
    """What each unit adds to the variance ``(3, L)``, equation (2) of the lesson."""
    w_out = np.array([[1.0], [-1.0], [weight]])
    return P_DROP / (1 - P_DROP) * (w_out * units(x, distance, network)) ** 2


def _relu(u: np.ndarray) -> np.ndarray:
    return np.maximum(u, 0)


def _tanh(u: np.ndarray) -> np.ndarray:
    return np.tanh(STEEPNESS * u)


def _curves(values: np.ndarray) -> list[np.ndarray]:
    """One polyline ``(positions, 2)`` for each row."""
    return [np.column_stack([X, row]) for row in values]
