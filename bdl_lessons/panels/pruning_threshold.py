"""Lesson 08: prune at a threshold on log alpha; what is left, how it looks, and its accuracy.

Three networks 64-50-10 were trained on handwritten digits: two priors on the true labels, and one
on random labels. The slider prunes; nothing is trained again.
"""

import numpy as np
from matplotlib.figure import Figure

from bdl_lessons.core import BLUE, GREY, INK, RED, tint
from bdl_lessons.datasets import digits
from bdl_lessons.panels import arrays
from bdl_lessons.panels.engine import Choice, Panel, Slider, Update

NETWORKS = ("sparse VD", "ARD", "sparse VD, random labels")
WIDTH = 50
THRESHOLDS = tuple(0.5 * step for step in range(-12, 29))
BINS = np.linspace(-10, 30, 81)
GRID = (5, 10)


def panel() -> Panel:
    """The panel of lesson 08: the threshold, and which network."""
    return Panel(
        build_figure,
        Slider("threshold", "threshold on log α", THRESHOLDS, 3.0),
        Choice("network", "network", NETWORKS, NETWORKS[0]),
        size=(9.6, 3.5),
    )


def build_figure(figure: Figure) -> Update:
    """Left: a histogram of the log alphas of all weights, in blue those below the threshold.
    Middle: test accuracy, which stays high, and sparsity, which falls, against the threshold.
    Right: for every hidden unit a picture of the weights that remain, most of them empty.
    """
    stored = arrays.load("pruning_threshold")
    data = digits(seed=0)
    x = data.x_test.numpy()
    y = data.y_test.numpy()
    curves = {name: threshold_curves(stored, name, x, y) for name in NETWORKS}
    left, middle, right = figure.subplots(1, 3, width_ratios=(1, 1, 1.4))
    figure.subplots_adjust(0.065, 0.155, 0.99, 0.9, wspace=0.26)

    kept_bars, cut_bars = (
        left.stairs(0 * BINS[1:], BINS, fill=True, color=color, animated=True, zorder=zorder)
        for color, zorder in ((BLUE, 2), (tint(GREY, 0.5), 1))
    )
    left_line = left.axvline(0, color=RED, ls="--", animated=True)
    left.set(xlim=(BINS[0], BINS[-1]), ylim=(0, 470), ylabel="weights")
    left.set(xlabel=f"log α ({BINS[-1]:g}: {BINS[-1]:g} or more)", title="Kept (blue) and removed")

    (accuracy_line,) = middle.plot([], [], color=INK, ls="-", animated=True)
    (sparsity_line,) = middle.plot([], [], color=BLUE, ls=":", animated=True)
    middle_line = middle.axvline(0, color=RED, ls="--", animated=True)
    middle.set(xlim=(THRESHOLDS[0], THRESHOLDS[-1]), ylim=(0, 1.03), ylabel="fraction")
    middle.set(xlabel="threshold on log α", title="At other thresholds")
    middle.text(THRESHOLDS[-1] - 0.2, 0.92, "test accuracy", ha="right", va="top", color=INK)
    middle.text(THRESHOLDS[-1] - 0.2, 0.36, "sparsity", ha="right", va="top", color=BLUE)

    look = {"cmap": "PuOr", "vmin": -1.2, "vmax": 1.2}
    image = right.imshow(mosaic(np.zeros((WIDTH, 64))), animated=True, **look)
    right.axis("off")
    right.set_title("Weights into each hidden unit")

    def update(threshold: float, network: str) -> str:
        mus, log_alphas, _ = weights(stored, network)
        flat = np.concatenate([values.ravel() for values in log_alphas])
        keep = flat < threshold
        for bars, values in ((cut_bars, flat), (kept_bars, flat[keep])):
            bars.set_data(np.histogram(values.clip(-9.9, 29.9), BINS)[0])
        accuracies, sparsities = curves[network]
        accuracy_line.set_data(THRESHOLDS, accuracies)
        sparsity_line.set_data(THRESHOLDS, sparsities)
        for line in (left_line, middle_line):
            line.set_xdata([threshold, threshold])
        image.set_data(mosaic(mus[0] * (log_alphas[0] < threshold)))
        shares = [100 * (values >= threshold).mean() for values in log_alphas]
        here = THRESHOLDS.index(threshold)
        ratio = f"{keep.size / keep.sum():.1f}x" if keep.any() else "nothing left"
        return (
            f"Kept <b>{keep.sum()}</b> of {keep.size} weights ({ratio}); sparsity "
            f"{shares[0]:.1f} % − {shares[1]:.1f} %; accuracy on 360 true test labels "
            f"<b>{100 * accuracies[here]:.1f} %</b>."
        )

    return update


def weights(stored: dict[str, np.ndarray], network: str) -> list[list[np.ndarray]]:
    """Means, log alphas and biases of the two layers of a stored network."""
    number = NETWORKS.index(network)
    names = ("mu", "log_alpha", "bias")
    return [[stored[f"{name}_{layer}"][number] for layer in (1, 2)] for name in names]


def predict(mus: list[np.ndarray], biases: list[np.ndarray], x: np.ndarray) -> np.ndarray:
    """Classes ``(B,)`` that a network with these weights gives to ``x`` ``(B, 64)``."""
    hidden = np.maximum(x @ mus[0].T + biases[0], 0)
    return (hidden @ mus[1].T + biases[1]).argmax(-1)


def threshold_curves(
    stored: dict[str, np.ndarray], network: str, x: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Accuracy and overall sparsity at each of ``THRESHOLDS``."""
    mus, log_alphas, biases = weights(stored, network)
    rows = []
    for threshold in THRESHOLDS:
        keep = [values < threshold for values in log_alphas]
        cut = [mu * kept for mu, kept in zip(mus, keep, strict=True)]
        n_kept = sum(k.sum() for k in keep)
        n_weights = sum(k.size for k in keep)
        rows.append(((predict(cut, biases, x) == y).mean(), 1 - n_kept / n_weights))
    return tuple(np.transpose(rows))


def mosaic(incoming: np.ndarray) -> np.ndarray:
    """Weights ``(50, 64)`` as 5 rows of 10 small images, with empty lines between."""
    rows, columns = GRID
    canvas = np.full((9 * rows - 1, 9 * columns - 1), np.nan)
    for unit, image in enumerate(incoming.reshape(-1, 8, 8)):
        row = 9 * (unit // columns)
        column = 9 * (unit % columns)
        canvas[row : row + 8, column : column + 8] = image
    return canvas
