"""The map of the course: one picture of what each lesson asks and of what it builds on."""

import math
from collections.abc import Iterable
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from bdl_lessons.core import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, RED, tint
from bdl_lessons.course.lesson_record import LessonRecord, lesson_records

THEMES = {
    "foundations": (BLUE, "Foundations"),
    "inference": (GREEN, "Dropout as\nBayesian inference"),
    "noise": (RED, "Learning the noise"),
    "structure": (PURPLE, "Limits, and noise\nwith structure"),
    "use": (ORANGE, "Comparing\nand deciding"),
}
"""The rows of the map from the foundations up: colour, and what unites a row."""


class Row(NamedTuple):
    """A row of the map: its colour, its theme, and the lessons in it."""

    colour: str
    theme: str
    lessons: list[LessonRecord]


def map_rows(records: Iterable[LessonRecord]) -> list[Row]:
    """The rows of the map with these lessons; those that have no box are left out."""
    boxed = [record for record in records if record.map]
    return [
        Row(colour, theme, [record for record in boxed if record.map.row == key])
        for key, (colour, theme) in THEMES.items()
    ]


WIDTH, HEIGHT = 2.4, 0.92  # of a box, in inches
PER_LINE = 3  # boxes; a row with more has further lines
LINE_HEIGHT = 1.3


def course_map() -> Figure:
    """A figure of boxes and arrows, 9.5 inches wide; a pyplot figure, for ``show``."""
    from matplotlib import pyplot

    records = lesson_records()
    rows = map_rows(records.values())
    n_lines = sum(math.ceil(len(row.lessons) / PER_LINE) for row in rows)
    height = LINE_HEIGHT * n_lines
    figure, axis = pyplot.subplots(figsize=(9.6, height + 0.1))
    axis.set(xlim=(0, 9.5), ylim=(0, height))
    axis.axis("off")
    places = {}
    top = height - LINE_HEIGHT / 2
    for row in rows:
        axis.text(0.08, top, row.theme, color=INK, weight="bold", va="center", fontsize=10.5)
        for index, record in enumerate(row.lessons):
            line, column = divmod(index, PER_LINE)
            x = 2.97 + 2.62 * column
            y = top - LINE_HEIGHT * line
            places[record.name] = (x, y)
            corner = (x - WIDTH / 2, y - HEIGHT / 2)
            style = "round,pad=0,rounding_size=0.08"
            box = FancyBboxPatch(
                corner,
                WIDTH,
                HEIGHT,
                style,
                facecolor=tint(row.colour, 0.12),
                edgecolor=row.colour,
                zorder=2,
            )
            axis.add_patch(box)
            name = f"{record.number} {record.short_title}"
            axis.text(x, y + 0.26, name, weight="bold", ha="center", va="center")
            axis.text(x, y - 0.16, record.map.question, color=INK, ha="center", va="center")
        top -= LINE_HEIGHT * math.ceil(len(row.lessons) / PER_LINE)
    for end, place in places.items():
        for start in records[end].map.arrows_from:
            _draw_arrow(axis, places[start], place)
    return figure


def _draw_arrow(axis: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    """An arrow from the edge of the box at ``start`` to that of the box at ``end``."""
    (x0, y0) = start
    (x1, y1) = end
    if y0 == y1:
        dx = WIDTH / 2
        dy = 0.0
    else:
        dx = 0.0
        dy = math.copysign(HEIGHT / 2, y1 - y0)
    axis.annotate(
        "",
        xy=(x1 - dx, y1 - dy),
        xytext=(x0 + dx, y0 + dy),
        arrowprops={"arrowstyle": "-|>", "color": GREY, "lw": 1.4, "shrinkA": 0, "shrinkB": 1},
        zorder=1,
    )
