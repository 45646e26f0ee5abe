"""The playground: a page on which a network trains, in plain JavaScript, beside the lessons.

``playground()`` shows it in a notebook's cell. ``page()`` is the same as one file, for the site: it
needs no network and no other file. ``network.js`` has the mathematics of the package once more, and
``tests/playground`` compares both on equal noise.

Imports: nothing.
"""

import re
from html import escape
from pathlib import Path
from urllib.parse import urlencode

_FOLDER = Path(__file__).parent
_HEIGHT = 820
_COURSE = "Bayesian deep learning through dropout"


def page(home: str | None = None, **settings: str | float) -> str:
    """The playground as one page of HTML, with its style and its scripts inside.

    Args:
        home: the address of the course, for a link above the title; default: no link.
        settings: where it starts, by the names in the address of the page, such as
            ``method="structured"``; what is left out stands as in a new page. The address itself,
            behind its ``#``, goes before them.

    Raises:
        ValueError: if a setting is unknown; the message lists those that exist.

    >>> html = page(method="ensemble", depth=1)
    >>> "<script src" in html, 'data-state="method=ensemble&amp;depth=1"' in html
    (False, True)
    """
    html = _read("page.html")
    known = [*dict.fromkeys(re.findall(r' name="(\w+)"', html)), "points", "seed"]
    for name in settings:
        if name not in known:
            names = ", ".join(sorted({*known} - {"viewport"}))
            raise ValueError(f"the playground has no setting {name!r}; it has {names}")
    html = re.sub(r'<link rel="stylesheet" href="(.+?)">', _style, html)
    html = re.sub(r'<script src="(.+?)"></script>', _script, html)
    start = escape(urlencode(settings))
    if home is not None:
        html = html.replace("<header>", f'<header>\n  <a href="{escape(home)}">{_COURSE}</a>')
    return html.replace("<body>", f'<body data-state="{start}">')


def playground(height: int = _HEIGHT, **settings: str | float) -> "Playground":
    """Show the playground below a notebook's cell; it needs neither a kernel nor a network.

    Args:
        height: of its frame in pixels.
        settings: where it starts, as for :func:`page`: ``playground(method="dropout", depth=1)``.

    Raises:
        ValueError: if a setting is unknown.

    >>> playground(task="classes")
    <playground: run this cell to play>
    """
    return Playground(page(**settings), height)


class Playground:
    """The playground in a frame of its own, so that neither page changes the style of the other.

    >>> Playground("<p>A page</p>", height=300)._repr_html_()[:8]
    '<iframe '
    """

    def __init__(self, html: str, height: int) -> None:
        self.html = html
        self.height = height

    def __repr__(self) -> str:
        return "<playground: run this cell to play>"

    def _repr_html_(self) -> str:
        style = f"width: 100%; height: {self.height}px; border: 0"
        title = "Playground: what does a network not know?"
        return f'<iframe title="{title}" style="{style}" srcdoc="{escape(self.html)}"></iframe>'


def _read(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


def _style(link: re.Match[str]) -> str:
    return f"<style>\n{_read(link[1])}</style>"


def _script(tag: re.Match[str]) -> str:
    return f"<script>\n{_read(tag[1])}</script>"
