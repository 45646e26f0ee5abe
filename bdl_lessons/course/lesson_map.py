"""The map of the course: one picture of what each lesson asks and of what it builds on."""

import math

from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from bdl_lessons.core import BLUE, GREEN, GREY, INK, PURPLE, RED, tint

LESSONS = {
    "01": ("Dropout as an ensemble", "What does dropout\naverage over?"),
    "02": ("Variational inference", "How do you fit a posterior\nthat has no formula?"),
    "03": ("Gaussian processes", "What does a wide network\nbecome?"),
    "04": ("Dropout as inference", "When is weight decay\na KL term?"),
    "05": ("Monte Carlo dropout", "Can many masks tell us\nwhat is uncertain?"),
    "09": ("When is it Bayesian?", "Which conditions can fail,\nand do they?"),
    "06": ("Local reparameterization", "Can the same gradient\nhave less noise?"),
    "07": ("Variational dropout", "Can the dropout rate\nbe learned?"),
    "08": ("Sparsity and ARD", "Which weights can be\nremoved?"),
    "10": ("Structured dropout", "What if the noise of units\nis correlated?"),
    "11": ("Induced regularization", "What does the noise\nregularise?"),
    "12": ("Comparing posteriors", "Which posterior is worth\nits computing time?"),
}
ROWS = tuple(
    (colour, theme, {number: LESSONS[number] for number in numbers.split()})
    for colour, theme, numbers in (
        (BLUE, "Foundations", "01 02 03"),
        (GREEN, "Dropout as\nBayesian inference", "04 05 09"),
        (RED, "Learning the noise", "06 07 08"),
        (PURPLE, "Giving the noise\nstructure", "10 11 12"),
    )
)
"""Four rows from the foundations up: colour, what unites the row, and its lessons."""
# From lesson to lesson: what has to be read before.
ARROWS = (
    ("01", "04"), ("02", "03"), ("02", "04"), ("03", "05"), ("04", "05"),
    ("05", "09"), ("07", "09"), ("04", "06"), ("06", "07"), ("07", "08"),
    ("08", "10"), ("10", "11"), ("11", "12"),
)  # fmt: skip
WIDTH, HEIGHT = 2.4, 0.92  # of a box, in inches


def course_map() -> Figure:
    """A figure of boxes and arrows, 9.5 inches wide; a pyplot figure, for ``show``."""
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(9.6, 5.3))
    axis.set(xlim=(0, 9.5), ylim=(0, 5.2))
    axis.axis("off")
    places = {}
    for row, (colour, theme, lessons) in enumerate(ROWS):
        y = 4.55 - 1.3 * row
        axis.text(0.08, y, theme, color=INK, weight="bold", va="center", fontsize=10.5)
        for column, (number, (title, question)) in enumerate(lessons.items()):
            x = 2.97 + 2.62 * column
            places[number] = x, y
            corner = (x - WIDTH / 2, y - HEIGHT / 2)
            style = "round,pad=0,rounding_size=0.08"
            look = {"facecolor": tint(colour, 0.12), "edgecolor": colour, "zorder": 2}
            axis.add_patch(FancyBboxPatch(corner, WIDTH, HEIGHT, style, **look))
            axis.text(x, y + 0.26, f"{number} {title}", weight="bold", ha="center", va="center")
            axis.text(x, y - 0.16, question, color=INK, ha="center", va="center")
    for start, end in ARROWS:
        (x0, y0) = places[start]
        (x1, y1) = places[end]
        side = (WIDTH / 2, 0) if y0 == y1 else (0, math.copysign(HEIGHT / 2, y1 - y0))
        arrow = {"arrowstyle": "-|>", "color": GREY, "lw": 1.4, "shrinkA": 0, "shrinkB": 1}
        ends = (x1 - side[0], y1 - side[1]), (x0 + side[0], y0 + side[1])
        axis.annotate("", *ends, arrowprops=arrow, zorder=1)
    return figure
