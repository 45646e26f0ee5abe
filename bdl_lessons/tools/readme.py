"""The parts of README.md that follow from the lessons: its table and its first picture."""

from __future__ import annotations

import re

from bdl_lessons import course
from bdl_lessons.panels import dropout_rate
from bdl_lessons.tools.notebook import ROOT, write

README = ROOT / "README.md"
PICTURE = ROOT / "data" / "pictures" / "readme.png"
TABLE = re.compile(r"(?<=<!-- lessons -->\n).*?(?=\n<!-- end -->)", re.S)


def text() -> str:
    """README.md with the table of lessons as the notebooks give it."""
    table = course.table(link="notebooks/")
    return TABLE.sub(lambda _: table, README.read_text(encoding="utf-8"))


def update() -> None:
    """Write the table into README.md and draw its picture."""
    write(README, text())
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    PICTURE.write_bytes(dropout_rate.panel().render(p_drop=0.5).png)
