"""One look for every figure: a palette that everybody can tell apart, and a plain style.

The colours have the hues of Okabe and Ito, darkened until each stands out from white by a contrast
of 3 (WCAG 2.2, 1.4.11) and no two look alike with a common colour-vision deficiency. Lines differ
in dash too, so a grey print still reads.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import matplotlib as mpl
from cycler import cycler
from matplotlib.figure import Figure

BLUE, RED, GREEN, ORANGE = "#08529A", "#B23300", "#0F8346", "#CC7E00"
PURPLE, SKY, GREY, INK = "#B981B5", "#2597E1", "#666C75", "#22262B"
CYCLE = (BLUE, RED, GREEN, ORANGE, PURPLE, SKY)
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (1, 1)))

STYLE = {
    "figure.dpi": 100,
    "savefig.dpi": 100,
    "figure.figsize": (7.2, 3.2),
    "font.size": 10,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 10,
    "axes.edgecolor": GREY,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.prop_cycle": cycler(color=CYCLE) + cycler(linestyle=DASHES),
    "axes.axisbelow": True,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "legend.fontsize": 10,
    "lines.linewidth": 1.8,
    "image.cmap": "viridis",
}


def use_style() -> None:
    """Give all pyplot figures of this process the look of the lessons.

    What the lessons do not set is matplotlib's own default, and not what the reader's matplotlibrc
    says: TeX for every text, a dark background or a font that is not installed would break them.

    >>> use_style()
    """
    mpl.rcdefaults()
    mpl.rcParams.update(STYLE)


def show(figure: Figure) -> None:
    """Fit the layout of a pyplot figure and show it.

    Raises ValueError if the figure breaks a rule of the module that ``BDL_CHECK_FIGURES`` names; it
    is ``tools.figure_rules`` when lessons are rebuilt or compared, and not set for readers.

    >>> show(new_figure(6, 3))
    """
    from matplotlib import pyplot

    if figure.get_layout_engine() is None:
        figure.tight_layout()
    rules = os.environ.get("BDL_CHECK_FIGURES")
    if rules and (problems := import_module(rules).problems(figure)):
        raise ValueError("; ".join(problems))
    pyplot.show()


@contextmanager
def style() -> Iterator[None]:
    """The same look for the length of a ``with`` block."""
    with mpl.rc_context():
        use_style()
        yield


def new_figure(width: float, height: float, **kwargs: Any) -> Figure:
    """A figure in the style of the lessons, outside pyplot: nothing global, nothing to close.

    ``width`` and ``height`` are inches of 100 pixels, ``kwargs`` those of matplotlib's ``Figure``.
    """
    with style():
        return Figure(figsize=(width, height), dpi=STYLE["figure.dpi"], **kwargs)


def tint(colour: str, strength: float) -> tuple[float, float, float]:
    """The colour mixed with white: strength 1 leaves it, strength 0 gives white.

    >>> tint("#000000", 0.25)
    (0.75, 0.75, 0.75)
    """
    return tuple(1 - strength * (1 - channel) for channel in mpl.colors.to_rgb(colour))
