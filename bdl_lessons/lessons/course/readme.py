"""The parts of README.md that follow from the lessons: its table and its first picture."""

from __future__ import annotations

import re

from bdl_lessons.lessons.course import metadata
from bdl_lessons.lessons.course.notebook import ROOT, write
from bdl_lessons.lessons.panels import dropout_rate

README = ROOT / "README.md"
PICTURE = ROOT / "data" / "pictures" / "readme.png"
TABLE = re.compile(r"(?<=<!-- lessons -->\n).*?(?=\n<!-- end -->)", re.S)


def text() -> str:
    """README.md with the table of lessons as the notebooks give it."""
    table = metadata.table(link="notebooks/")
    return TABLE.sub(lambda _: table, README.read_text(encoding="utf-8"))


def update() -> None:
    """Write the table into README.md and draw its picture."""
    write(README, text())
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    PICTURE.write_bytes(dropout_rate.panel().render(p_drop=0.5).png)
