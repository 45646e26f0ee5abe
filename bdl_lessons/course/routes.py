"""Routes through the course: which lessons, in which order, for how much time.

The list stands here alone; lesson 00, the site and the instructor's index show it. Minutes are
those that the notebooks store for their sections.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from matplotlib.figure import Figure

from bdl_lessons.core import BLUE, GREY, INK, tint
from bdl_lessons.core.files import NOTEBOOKS
from bdl_lessons.course.lesson_record import LessonRecord, lesson_records


@dataclass(frozen=True)
class Route:
    """A way through the course.

    Attributes:
        name: a few words.
        purpose: for whom it is.
        lessons: their names without numbers, in order; empty for all lessons.
        alone: whether its minutes are those of a reader alone; else those of a lecture.
    """

    name: str
    purpose: str
    lessons: tuple[str, ...]
    alone: bool = False

    def records(self) -> list[LessonRecord]:
        """The records of its lessons.

        ValueError if a lesson has no record.
        """
        every = lesson_records()
        if unknown := [name for name in self.lessons if name not in every]:
            raise ValueError(f"route {self.name!r}: no lesson {unknown[0]!r}; known: {[*every]}")
        return [every[name] for name in self.lessons or every]


ROUTES = (
    Route(
        name="one evening",
        purpose="what dropout can say about its own doubt, and what to do with it",
        lessons=("start_here", "monte_carlo_dropout", "answer_abstain_or_ask"),
        alone=True,
    ),
    Route(
        name="three lectures",
        purpose="the idea, the uncertainty, the decision",
        lessons=("dropout_is_an_ensemble", "monte_carlo_dropout", "answer_abstain_or_ask"),
    ),
    Route(
        name="theory half",
        purpose="what is inferred, and where the inference is none",
        lessons=(
            "evidence_lower_bound",
            "wide_networks_are_gaussian_processes",
            "dropout_is_variational_inference",
            "in_between_uncertainty",
            "improper_priors_and_singular_posteriors",
        ),
    ),
    Route(
        name="methods half",
        purpose="noise that is learned, and what it buys",
        lessons=(
            "local_reparameterization",
            "gaussian_and_variational_dropout",
            "sparse_variational_dropout_and_ard",
            "variational_structured_dropout",
            "what_structure_buys",
        ),
    ),
    Route(name="the whole course", purpose="every lesson in its order", lessons=()),
)


@cache
def lesson_minutes(stem: str, folder: Path = NOTEBOOKS) -> Mapping[str, int]:
    """Minutes of a lesson up to its recap: ``"lecture"`` and ``"alone"``, without exercises.

    FileNotFoundError where there are no notebooks, as in an installed package.
    """
    path = folder / f"{stem}.ipynb"
    if not path.exists():
        raise FileNotFoundError(f"{path.name} is not in {folder.name}: run it in the repository")
    totals = {"lecture": 0, "alone": 0}
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        timing = cell["metadata"].get("bdl")
        if timing and timing["mode"] != "solo" and not timing.get("part"):
            totals["lecture"] += round(sum(timing["minutes"]) / 2)
            totals["alone"] += timing.get("alone", 0)
    return totals


def route_minutes(route: Route) -> int:
    """The minutes of all its lessons together."""
    kind = "alone" if route.alone else "lecture"
    return sum(lesson_minutes(record.stem)[kind] for record in route.records())


def route_table(link: str = "") -> str:
    """The routes as a Markdown table; ``link`` is put before each file name."""
    lines = ["| route | lessons | time |", "| --- | --- | --- |"]
    for route in ROUTES:
        names = " · ".join(
            f"[{record.number}]({link}{record.stem}.ipynb)" for record in route.records()
        )
        kind = "alone" if route.alone else "of lectures"
        time = f"{_hours(route_minutes(route))} {kind}"
        lines.append(f"| **{route.name}**: {route.purpose} | {names} | {time} |")
    return "\n".join(lines)


def route_picture() -> Figure:
    """A figure with a line for each route and a dot for each of its lessons; for ``show``."""
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(9.6, 3.2))
    numbers = [int(record.number) for record in lesson_records().values()]
    for row, route in enumerate(ROUTES):
        places = [int(record.number) for record in route.records()]
        axis.plot(places, [row] * len(places), "-", color=tint(BLUE, 0.4), lw=3)
        axis.plot(places, [row] * len(places), "o", color=BLUE, ms=17)
        for place in places:
            axis.text(
                place, row, f"{place:02}", color="white", fontsize=10.5, ha="center", va="center"
            )
        kind = "alone" if route.alone else "lectures"
        axis.text(-1.2, row, route.name, color=INK, fontsize=12.5, ha="right", va="center")
        minutes = f"{_hours(route_minutes(route))} {kind}"
        axis.text(max(numbers) + 1, row, minutes, color=GREY, fontsize=11.5, va="center")
    axis.set(xlim=(-5.4, max(numbers) + 5), ylim=(len(ROUTES) - 0.4, -0.6))
    axis.axis("off")
    return figure


def _hours(minutes: int) -> str:
    """``1 h 50 min``, rounded to ten minutes."""
    hours, rest = divmod(10 * round(minutes / 10), 60)
    parts = []
    if hours:
        parts.append(f"{hours} h")
    if rest or not hours:
        parts.append(f"{rest} min")
    return " ".join(parts)
