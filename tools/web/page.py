"""HTML of formulas and recorded panels: for any page, and a page that needs no other file."""

from __future__ import annotations

import base64
import io
import re
from functools import cache
from html import escape
from pathlib import Path

from latex2mathml.converter import convert
from matplotlib import get_data_path
from matplotlib.font_manager import FontProperties, findfont

from tools.web.store import WebPanel

WEIGHTS = ("normal", "bold")
PLACE_OF_PDF = '<span class="on-paper"></span>'
"""Where a page of the site gets the link to its PDF, once that is printed."""
_STATIC = Path(__file__).with_name("static")
_LETTERS = [*range(0x20, 0x7F), *range(0xA0, 0x180), *range(0x370, 0x400), *range(0x1D00, 0x1DC0)]
_SIGNS = [*range(0x2010, 0x2050), *range(0x2070, 0x20A0), *range(0x2190, 0x2300)]


def mathml(tex: str, display: str) -> str:
    """A formula in MathML, which every browser shows; ``display``: ``"inline"`` or ``"block"``."""
    return convert(re.sub(r"\\[lr]Vert", r"\\Vert", tex), display=display)


def script() -> str:
    """The player."""
    return (_STATIC / "player.js").read_text(encoding="utf-8")


def css(address: str = "") -> str:
    """The style of the player and the licence of the fonts of the drawings.

    They are in it, unless ``<address><weight>.woff`` says where: then they load when needed.
    """
    licence = Path(get_data_path(), "fonts/ttf/LICENSE_DEJAVU").read_text(encoding="utf-8")
    faces = ""
    for weight in WEIGHTS:
        data = "data:font/woff;base64," + base64.b64encode(font(weight)).decode()
        source = f"{address}{weight}.woff" if address else data
        faces += f'@font-face{{font-family:"BDL Sans";font-weight:{weight};src:url({source})}}\n'
    notice = f"/* BDL Sans is a part of DejaVu Sans, under this licence:\n{licence}*/\n"
    return notice + faces + (_STATIC / "player.css").read_text(encoding="utf-8")


def figure(panel: WebPanel, picture: str, source: str = "") -> str:
    """The figure that the player brings to life.

    ``picture`` is the address of its picture, which stays where no script runs, and ``source`` that
    of its script, empty if the page has it already.
    """
    name = escape(panel.name)
    alt = escape(panel.alt)
    width, height = (round(100 * length) for length in panel.size)
    data = f' data-src="{escape(source)}"' if source else ""
    return (
        f'<figure class="bdl-panel" data-panel="{name}"{data}>'
        f'<img src="{escape(picture)}" alt="{alt}" width="{width}" height="{height}">'
        '<p class="bdl-still">The sliders need JavaScript; the picture shows where they start.</p>'
        "</figure>"
    )


def page(panel: WebPanel) -> str:
    """A page with one live panel and everything it needs inside: no other file, no network."""
    picture = "data:image/png;base64," + base64.b64encode(panel.png).decode()
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(panel.name)}</title>
<style>body{{margin:0 auto;max-width:1020px;padding:8px}}
{css()}</style>
</head>
<body>
<main>{figure(panel, picture)}</main>
<script>{script()}</script>
<script>{panel.script}</script>
</body>
</html>
"""


@cache
def font(weight: str) -> bytes:
    """DejaVu Sans, the font of the figures, with the letters that panels can use, as WOFF.

    It comes with matplotlib; its licence allows embedding under another name.
    """
    from fontTools import subset, ttLib

    font = ttLib.TTFont(findfont(FontProperties(family="DejaVu Sans", weight=weight)))
    options = subset.Options(drop_tables=["FFTM"], layout_features=["kern"])
    options.hinting, options.notdef_outline = False, True
    cutter = subset.Subsetter(options)
    cutter.populate(unicodes=[*_LETTERS, *_SIGNS])
    cutter.subset(font)
    font.flavor = "woff"
    buffer = io.BytesIO()
    font.save(buffer)
    return buffer.getvalue()
