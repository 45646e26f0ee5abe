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
BINS = np.linspace(-10, 30, 81)  # what lies outside is counted in the last one on its side
GRID = (5, 10)  # rows and columns of the small images


def panel() -> Panel:
    """The panel of lesson 08: the threshold, and which network."""
    return Panel(
        build_figure,
        Slider(
            name="threshold",
            label="threshold on log α",
            values=THRESHOLDS,
            value=3.0,
        ),
        Choice(
            name="network",
            label="network",
            values=NETWORKS,
            value="sparse VD",
        ),
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
    figure.subplots_adjust(left=0.065, bottom=0.155, right=0.99, top=0.9, wspace=0.26)

    left.set_title("Kept (blue) and removed")
    left.set(xlim=(BINS[0], BINS[-1]), xlabel=f"log α ({BINS[-1]:g}: {BINS[-1]:g} or more)")
    left.set(ylim=(0, 470), ylabel="weights")
    no_counts = np.zeros(len(BINS) - 1)
    kept_bars = left.stairs(no_counts, BINS, fill=True, color=BLUE, zorder=2, animated=True)
    all_bars = left.stairs(
        no_counts, BINS, fill=True, color=tint(GREY, 0.5), zorder=1, animated=True
    )
    left_threshold = left.axvline(0, color=RED, ls="--", animated=True)

    middle.set_title("At other thresholds")
    middle.set(xlim=(THRESHOLDS[0], THRESHOLDS[-1]), xlabel="threshold on log α")
    middle.set(ylim=(0, 1.03), ylabel="fraction")
    (accuracy_line,) = middle.plot([], [], color=INK, ls="-", animated=True)
    (sparsity_line,) = middle.plot([], [], color=BLUE, ls=":", animated=True)
    middle_threshold = middle.axvline(0, color=RED, ls="--", clip_on=False, animated=True)
    middle.legend(
        [accuracy_line, sparsity_line],
        ["test accuracy", "sparsity"],
        loc="lower right",
        bbox_to_anchor=(1.0, 0.11),  # above the accuracy by chance, below the least sparsity
        handlelength=1.4,
    )

    right.set_title("Weights into each hidden unit")
    right.axis("off")
    no_weights = np.zeros((WIDTH, 64))
    image = right.imshow(mosaic(no_weights), cmap="PuOr", vmin=-1.2, vmax=1.2, animated=True)

    def update(threshold: float, network: str) -> str:
        mus, log_alphas, _ = weights(stored, network)
        every_log_alpha = np.concatenate([values.ravel() for values in log_alphas])
        is_kept = every_log_alpha < threshold
        all_bars.set_data(_histogram(every_log_alpha))
        kept_bars.set_data(_histogram(every_log_alpha[is_kept]))
        left_threshold.set_xdata([threshold, threshold])

        accuracies, sparsities = curves[network]
        accuracy_line.set_data(THRESHOLDS, accuracies)
        sparsity_line.set_data(THRESHOLDS, sparsities)
        middle_threshold.set_xdata([threshold, threshold])

        image.set_data(mosaic(mus[0] * (log_alphas[0] < threshold)))

        sparsity_1, sparsity_2 = ((values >= threshold).mean() for values in log_alphas)
        accuracy = accuracies[THRESHOLDS.index(threshold)]
        n_weights = is_kept.size
        n_kept = is_kept.sum()
        compression = f"{n_weights / n_kept:.1f}x" if n_kept else "nothing left"
        return (
            f"Kept <b>{n_kept}</b> of {n_weights} weights ({compression}); sparsity "
            f"{100 * sparsity_1:.1f} % − {100 * sparsity_2:.1f} %; accuracy on {len(y)} true test "
            f"labels <b>{100 * accuracy:.1f} %</b>."
        )

    return update


def weights(stored: dict[str, np.ndarray], network: str) -> list[list[np.ndarray]]:
    """Means, log alphas and biases of the two layers of a stored network."""
    number = NETWORKS.index(network)
    mus = [stored["mu_1"][number], stored["mu_2"][number]]
    log_alphas = [stored["log_alpha_1"][number], stored["log_alpha_2"][number]]
    biases = [stored["bias_1"][number], stored["bias_2"][number]]
    return [mus, log_alphas, biases]


def predict(mus: list[np.ndarray], biases: list[np.ndarray], x: np.ndarray) -> np.ndarray:
    """Classes ``(B,)`` that a network with these weights gives to ``x`` ``(B, 64)``."""
    hidden = np.maximum(x @ mus[0].T + biases[0], 0)
    logits = hidden @ mus[1].T + biases[1]
    return logits.argmax(-1)


def threshold_curves(
    stored: dict[str, np.ndarray], network: str, x: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Accuracy and overall sparsity at each of ``THRESHOLDS``.

    Args:
        stored: the arrays of this panel.
        network: one of ``NETWORKS``.
        x: images ``(B, 64)``, on which the accuracy is measured.
        y: their classes, ``(B,)``.
    """
    mus, log_alphas, biases = weights(stored, network)
    n_weights = sum(values.size for values in log_alphas)
    accuracies = []
    sparsities = []
    for threshold in THRESHOLDS:
        is_kept = [values < threshold for values in log_alphas]
        pruned = [mu * kept for mu, kept in zip(mus, is_kept, strict=True)]
        accuracies.append((predict(pruned, biases, x) == y).mean())
        n_kept = sum(kept.sum() for kept in is_kept)
        sparsities.append(1 - n_kept / n_weights)
    return np.array(accuracies), np.array(sparsities)


def mosaic(incoming: np.ndarray) -> np.ndarray:
    """Weights ``(50, 64)`` as 5 rows of 10 small images, with empty lines between."""
    n_rows, n_columns = GRID
    canvas = np.full((9 * n_rows - 1, 9 * n_columns - 1), np.nan)
    for unit, image in enumerate(incoming.reshape(-1, 8, 8)):
        row, column = divmod(unit, n_columns)
        canvas[9 * row : 9 * row + 8, 9 * column : 9 * column + 8] = image
    return canvas


def _histogram(log_alphas: np.ndarray) -> np.ndarray:
    """Counts in ``BINS``."""
    inside = log_alphas.clip(BINS[0] + 0.1, BINS[-1] - 0.1)
    counts, _ = np.histogram(inside, BINS)
    return counts
