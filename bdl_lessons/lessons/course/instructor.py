"""The instructor's index: tables that follow from the lessons' metadata and exercises alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from bdl_lessons.experiments import markdown
from bdl_lessons.lessons.course.lesson_plans import plan, total_minutes, two_sessions
from bdl_lessons.lessons.course.metadata import Lesson, Section, lessons, span
from bdl_lessons.lessons.exercises.grader import of_lesson

_PANEL = re.compile(r"(\w+)\.panel\(")


def taught() -> list[Lesson]:
    """The lessons proper: neither the start page nor this index."""
    return [lesson for lesson in lessons() if lesson.number not in {"00", "90"}]


def timetable() -> str:
    """Every section with its minutes, the clock at its end, and its mode of teaching."""
    return _per_lesson(_timetable_of)


def lesson_plans() -> str:
    """For each lesson what to teach in 45 and in 90 minutes, and where to cut it for two times 90.

    Every plan holds the opening question, its answer, the main result and the panel. Lengths are
    expected minutes, the middle of each section's range.
    """
    rows = []
    for lesson in taught():
        short, long = plan(lesson, 45), plan(lesson, 90)
        first, second = two_sessions(lesson)
        rows.append(
            [
                lesson.number,
                f"{_names(short.taught)} ({short.minutes:.0f})",
                f"all but: {_names(long.at_home) or 'nothing'} ({long.minutes:.0f})",
                f"{first[-1].name} ({total_minutes(first):.0f} + {total_minutes(second):.0f})",
            ]
        )
    head = ["lesson", "45 minutes", "90 minutes", "twice 90 minutes: pause after"]
    return markdown.table(head, rows)


def panels() -> str:
    """Every panel, its lesson, and the cell that shows it."""
    rows = []
    for lesson in lessons():
        for cell in lesson.cells("panel"):
            name = _PANEL.search(cell.source)
            shown = f"`{name[1]}`" if name else "see the cell"
            rows.append([f"[{lesson.number}]({lesson.path.name})", shown, cell.id])
    return markdown.table(["lesson", "panel", "cell"], rows)


def exercises() -> str:
    """Every exercise and how many known errors its check names."""
    rows = [
        [e.number, e.title, str(len(e.hints)), str(len(e.known_errors))]
        for lesson in taught()
        for e in of_lesson(lesson.number)
    ]
    return markdown.table(["exercise", "task", "hints", "wrong answers it names"], rows)


def known_errors() -> str:
    """Wrong answers that readers give, as the checks diagnose them: one list a lesson."""
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


def _timetable_of(lesson: Lesson) -> str:
    rows, low, high = [], 0, 0
    for section in lesson.sections:
        first, last = section.minutes
        low, high = low + first, high + last
        mode = "going deeper" if section.deeper else section.mode
        rows.append([section.name, span(section.minutes), span((low, high)), mode])
    return markdown.table(["section", "minutes", "clock", "mode"], rows)


def _per_lesson(text_of: Callable[[Lesson], str]) -> str:
    """A fold for each lesson, so that the page stays short."""
    return "\n\n".join(_fold(lesson, text_of(lesson)) for lesson in taught())


def _fold(lesson: Lesson, text: str) -> str:
    heading = f"<b>{lesson.number}</b> {lesson.title}"
    return f"<details><summary>{heading}</summary>\n\n{text}\n\n</details>"


def _names(sections: Iterable[Section]) -> str:
    return " · ".join(section.name for section in sections)
