"""Lesson 14: where posteriors of different structure are uncertain, by the direction of an input.

A linear model with eight correlated inputs. The arrays hold, for each number of training examples,
the covariance of the exact posterior and of the best ``q`` with T reflections.
"""

import numpy as np
from matplotlib.figure import Figure

from bdl_lessons.core import BLUE, GREY, INK, RED, tint
from bdl_lessons.panels import arrays
from bdl_lessons.panels.engine import Panel, Slider, Update

N_INPUTS = 8
REFLECTIONS = (0, 1, 2, 4, 8)
N_TRAIN = (20, 60, 200)
ANGLES = tuple(range(0, 91, 5))
"""Degrees between an input and the ridge of the data; 0 is along it."""

FINE_ANGLES = np.linspace(0, 90, 91)


def panel() -> Panel:
    """The panel of lesson 14: the input's direction, reflections, training examples."""
    return Panel(
        build_figure,
        Slider(
            name="angle",
            label="angle of the input to the ridge (degrees)",
            values=ANGLES,
            value=0,
            show=str,
            web=ANGLES[::2],
        ),
        Slider(
            name="n_reflections",
            label="reflections T",
            values=REFLECTIONS,
            value=0,
            show=str,
        ),
        Slider(
            name="n_train",
            label="training examples N",
            values=N_TRAIN,
            value=60,
            show=str,
        ),
        size=(9.6, 4.0),
    )


def inputs_at(degrees: np.ndarray) -> np.ndarray:
    """Inputs ``(len(degrees), K)`` of one length, turned from the ridge towards a direction across.

    The ridge is (1, ..., 1). Across it the first four inputs grow and the last four fall.
    """
    ridge = np.ones(N_INPUTS)
    across = np.repeat([1.0, -1.0], N_INPUTS // 2)
    radians = np.deg2rad(degrees)[:, None]
    return np.cos(radians) * ridge + np.sin(radians) * across


def variances(covariance: np.ndarray, degrees: np.ndarray) -> np.ndarray:
    """Predictive variance ``x' Sigma x`` of the function at each angle."""
    x = inputs_at(degrees)
    return np.einsum("ni,ij,nj->n", x, covariance, x)


def build_figure(figure: Figure) -> Update:
    """Left: predictive variance of q and of the exact posterior for inputs of one length, against
    their angle to the ridge. Right: its mean over the training inputs, for both.
    """
    stored = arrays.load("structure_by_direction")
    left, right = figure.subplots(1, 2, width_ratios=(2.1, 1))
    figure.subplots_adjust(left=0.09, bottom=0.27, right=0.985, top=0.9, wspace=0.28)

    left.set_title("Where: variance by direction")
    left.set(xlim=(0, 90), xlabel="angle of the input to the ridge (degrees)")
    left.set(ylim=(3e-3, 30), yscale="log", ylabel="variance of f")
    left.set_xticks(range(0, 91, 15))
    left.axvspan(0, 15, color=tint(GREY, 0.3), lw=0)
    left.text(7.5, 14, "near the\nridge", ha="center", va="center", color=INK)
    (exact_line,) = left.plot([], [], color=RED, ls="--", animated=True)
    (q_line,) = left.plot([], [], color=BLUE, ls="-", animated=True)
    (exact_dot,) = left.plot([], [], "s", color=RED, ms=9, animated=True)
    (q_dot,) = left.plot([], [], "o", color=BLUE, ms=9, animated=True)
    left.legend(
        [q_line, exact_line],
        ["q with T reflections", "exact posterior"],
        loc="upper center",
        bbox_to_anchor=(0.5, -0.17),
        ncols=2,
    )

    right.set_title("On average")
    right.set(xlim=(-0.6, 1.6), xticks=(0, 1), xticklabels=["q", "exact"])
    right.set(ylim=(0, 0.3), ylabel="mean variance, training inputs")
    bars = right.bar([0, 1], [0, 0], 0.6, color=[BLUE, RED], animated=True)

    def update(angle: int, n_reflections: int, n_train: int) -> str:
        rows = stored["x"][:n_train]
        at_n = N_TRAIN.index(n_train)
        exact = stored["exact"][at_n]
        q = stored["q"][at_n, REFLECTIONS.index(n_reflections)]

        exact_line.set_data(FINE_ANGLES, variances(exact, FINE_ANGLES))
        q_line.set_data(FINE_ANGLES, variances(q, FINE_ANGLES))
        (exact_here,) = variances(exact, np.array([angle]))
        (q_here,) = variances(q, np.array([angle]))
        exact_dot.set_data([angle], [exact_here])
        q_dot.set_data([angle], [q_here])

        means = [np.mean(np.einsum("ni,ij,nj->n", rows, cov, rows)) for cov in (q, exact)]
        for bar, height in zip(bars, means, strict=True):
            bar.set_height(height)

        precision = np.linalg.inv(exact)
        traces = [np.trace(precision @ cov) for cov in (q, exact)]
        return (
            f"At {angle}° the standard deviation of f is <b>{np.sqrt(q_here):.3f}</b> under q and "
            f"<b>{np.sqrt(exact_here):.3f}</b> under the exact posterior. Mean variance over the "
            f"training inputs: <b>{means[0]:.4f}</b> and <b>{means[1]:.4f}</b>; tr ΛΣ = "
            f"<b>{traces[0]:.2f}</b> and <b>{traces[1]:.2f}</b>."
        )

    return update
