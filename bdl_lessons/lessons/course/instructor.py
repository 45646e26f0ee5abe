"""The instructor's index: tables that follow from the lessons' metadata and exercises alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from bdl_lessons.lessons.course.lesson_plans import halves, length, route
from bdl_lessons.lessons.course.metadata import Lesson, Section, lessons
from bdl_lessons.lessons.exercises.grader import of_lesson

_PANEL = re.compile(r"(\w+)\.panel\(")


def taught() -> list[Lesson]:
    """The lessons proper: neither the start page nor this index."""
    return [lesson for lesson in lessons() if lesson.number not in {"00", "90"}]


def clock() -> str:
    """Every section with its minutes, the clock at its end, and how it is best taught."""
    return _per_lesson(_clock_of)


def routes() -> str:
    """For each lesson what to teach in 45 and in 90 minutes, and where to cut it for two times 90.

    Lengths are expected minutes, the middle of each section's range.
    """
    rows = [
        "| lesson | 45 minutes | 90 minutes | twice 90 minutes: pause after |",
        "|---|---|---|---|",
    ]
    for lesson in taught():
        short, long = route(lesson, 45), route(lesson, 90)
        first, second = halves(lesson)
        left = _names(long.left) or "nothing"
        rows.append(
            f"| {lesson.number} | {_names(short.taught)} ({short.minutes:.0f}) "
            f"| all but: {left} ({long.minutes:.0f}) "
            f"| {first[-1].name} ({length(first):.0f} + {length(second):.0f}) |"
        )
    return "\n".join(rows)


def panels() -> str:
    """Every panel, its lesson, and the cell that shows it."""
    rows = ["| lesson | panel | cell |", "|---|---|---|"]
    for lesson in lessons():
        for cell in lesson.cells("panel"):
            name = _PANEL.search(cell.source)
            shown = f"`{name[1]}`" if name else "see the cell"
            rows.append(f"| {_link(lesson)} | {shown} | {cell.id} |")
    return "\n".join(rows)


def exercises() -> str:
    """Every exercise and how many wrong answers it recognises."""
    rows = ["| exercise | task | hints | wrong answers it names |", "|---|---|---|---|"]
    for lesson in taught():
        for e in of_lesson(lesson.number):
            rows.append(f"| {e.number} | {e.title} | {len(e.hints)} | {len(e.known_errors)} |")
    return "\n".join(rows)


def wrong_answers() -> str:
    """What readers get wrong, as the checks tell it: one list a lesson."""
    return _per_lesson(
        lambda lesson: "\n".join(
            f"- **{e.number}** {error.diagnosis}"
            for e in of_lesson(lesson.number)
            for error in e.known_errors
        )
    )


def notes() -> str:
    """The lecturer's notes of all lessons."""
    return _per_lesson(
        lambda lesson: "\n\n".join(cell.source for cell in lesson.cells("instructor"))
    )


def _clock_of(lesson: Lesson) -> str:
    rows, low, high = ["| section | minutes | clock | mode |", "|---|---|---|---|"], 0, 0
    for section in lesson.sections:
        low, high = low + section.minutes[0], high + section.minutes[1]
        first, last = section.minutes
        rows.append(f"| {section.name} | {first}–{last} | {low}–{high} | {section.mode} |")
    return "\n".join(rows)


def _per_lesson(text_of: Callable[[Lesson], str]) -> str:
    """A fold for each lesson, so that the page stays short."""
    return "\n\n".join(_fold(lesson, text_of(lesson)) for lesson in taught())


def _fold(lesson: Lesson, text: str) -> str:
    heading = f"<b>{lesson.number}</b> {lesson.title}"
    return f"<details><summary>{heading}</summary>\n\n{text}\n\n</details>"


def _link(lesson: Lesson) -> str:
    return f"[{lesson.number}]({lesson.path.name})"


def _names(sections: Iterable[Section]) -> str:
    return " · ".join(section.name for section in sections)
