"""Lesson 15: which labels a rule asks for, in a pool with ambiguous inputs, and what it gains.

The networks were trained before, by ``reproductions.panel_arrays.asking_for_labels``.
"""

import numpy as np
from matplotlib.figure import Figure

from bdl_lessons.core import BLUE, GREY, INK, RED
from bdl_lessons.panels import arrays
from bdl_lessons.panels.engine import Choice, Panel, Slider, Update

SHARES = (0.0, 0.2, 0.4)
"""Of the pool, how many inputs are averages of two digits, with the label of one of the two."""
N_START, BATCH, N_ROUNDS = 20, 10, 8
N_LABELS = tuple(N_START + BATCH * number for number in range(N_ROUNDS + 1))
RANDOM_OF = {
    "random": "random",
    "entropy": "random",
    "mutual information": "random",
    "variation ratios": "random",
    "entropy, masks off": "random",
    "plain network, random": "plain network, random",
    "plain network, entropy": "plain network, random",
    "five networks, random": "five networks, random",
    "five networks, mutual information": "five networks, random",
}
"""A rule -> random labels for the same kind of network, with which it is compared."""


def panel() -> Panel:
    """The panel of lesson 15: the rule, the share of ambiguous inputs, the labels so far."""
    return Panel(
        build_figure,
        Choice(
            name="rule",
            label="ask by",
            values=tuple(rule for rule, random in RANDOM_OF.items() if rule != random),
            value="entropy",
        ),
        Slider(
            name="share",
            label="share of ambiguous inputs in the pool",
            values=SHARES,
            value=0.0,
        ),
        Slider(
            name="n_labels",
            label="labels so far",
            values=N_LABELS[:-1],
            value=40,
            web=N_LABELS[:-1:2],
        ),
        size=(9.6, 3.7),
    )


def build_figure(figure: Figure) -> Update:
    """Left: test accuracy against the number of labels, by the rule and by random labels, with
    bands of two standard errors. Right: the ten inputs of one pool for which the rule asks next;
    ambiguous ones have a red frame.
    """
    stored = arrays.load("asking_for_labels")
    rules = stored["rules"].tolist()

    left, *tiles = figure.subplot_mosaic(
        [["curve", *"abcde"], ["curve", *"fghij"]],
        width_ratios=(5.2, 1, 1, 1, 1, 1),
    ).values()
    figure.subplots_adjust(left=0.075, bottom=0.16, right=0.99, top=0.9, wspace=0.12, hspace=0.05)
    left.set(xlabel="number of labels", ylabel="test accuracy (%)", xlim=(18, 102), ylim=(64, 96))
    lines = {}
    for name, colour, dash in (("random", GREY, "--"), ("this rule", BLUE, "-")):
        (line,) = left.plot([], [], color=colour, ls=dash, label=name, animated=True)
        band = left.fill_between(N_LABELS, 0, 1, color=colour, alpha=0.18, lw=0, animated=True)
        lines[name] = line, band
    left.legend(loc="lower right")
    marker = left.axvline(0, color=INK, lw=0.9, ls=":", animated=True)
    heading = tiles[2].set_title("", fontsize=13)
    heading.set_animated(True)
    images = []
    for tile in tiles:
        tile.set(xticks=[], yticks=[], label="<tile>")
        images.append(tile.imshow(np.zeros((8, 8)), cmap="Greys", vmin=0, vmax=1, animated=True))
        for spine in tile.spines.values():
            spine.set(visible=True, lw=3, animated=True)

    def update(rule: str, share: float, n_labels: int) -> str:
        column = SHARES.index(share)
        now = N_LABELS.index(n_labels)
        accuracy = {
            "this rule": stored["accuracy"][rules.index(rule), column],
            "random": stored["accuracy"][rules.index(RANDOM_OF[rule]), column],
        }
        for name, (line, band) in lines.items():
            mean, error = mean_and_error(accuracy[name])
            line.set_data(N_LABELS, mean)
            band.set_data(N_LABELS, mean - 2 * error, mean + 2 * error)
        marker.set_xdata([n_labels, n_labels])
        asked = stored["images"][rules.index(rule), column, now] / 32
        is_ambiguous = stored["is_ambiguous"][rules.index(rule), column, 0, now]
        heading.set_text("the next ten inputs")
        for tile, image, pixels, ambiguous in zip(tiles, images, asked, is_ambiguous, strict=True):
            image.set_data(pixels.reshape(8, 8))
            for spine in tile.spines.values():
                spine.set_edgecolor(RED if ambiguous else "white")
        gap, gap_error = mean_and_error(accuracy["this rule"] - accuracy["random"])
        bad = stored["is_ambiguous"][rules.index(rule), column].mean()
        return (
            f"At 100 labels <b>{rule}</b> is <b>{gap[-1]:+.1f}</b> ± {gap_error[-1]:.1f} points "
            f"from random labels, over {len(accuracy['random'])} pools. Of the labels that it "
            f"asked for, <b>{100 * bad:.0f}</b> % were for ambiguous inputs; in the pool "
            f"{100 * share:.0f} % are."
        )

    return update


def mean_and_error(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean over the seeds, the first axis, and its standard error."""
    return values.mean(0), values.std(0, ddof=1) / len(values) ** 0.5
