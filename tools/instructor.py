"""The instructor's index: plans and tables that follow from the lessons and exercises alone.

A markdown cell with the tag ``generated-NAME`` holds what the function called NAME returns.
``rebuild`` writes it, and a guard compares.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from math import ceil

from nbformat import NotebookNode

from bdl_lessons.course import route_table
from bdl_lessons.exercises.grader import of_lesson
from reproductions import markdown
from tools import metadata, notebook, timing
from tools.metadata import Lesson, Section, lessons, span

SESSION_MINUTES = 90
_PRIORITY = ("lecture", "pair", "solo")
ROLES = frozenset({"question", "answer", "result", "panel", "sentence", "recap"})
"""What every plan holds; and the idea picture, where a lesson has one."""


def taught() -> list[Lesson]:
    """The lessons proper, without this index."""
    return [lesson for lesson in lessons() if not lesson.is_index]


def lesson_plans() -> str:
    """For each lesson but 00 its plans, and what their minutes count."""
    rates = (
        f"Minutes are {timing.RATES}, plus the estimated minutes of work in pairs. "
        "What else you add from the notes is not counted."
    )
    plans = _per_lesson(plans_of, taught()[1:])
    return f"{rates}\n\n{plans}"


def plans_of(lesson: Lesson, minutes: int = 0) -> str:
    """The plan for so many minutes; for 0 those for 45, 90 and two times 90, with the clock.

    Every plan holds what has a role; question and answer stand there in the words of the lesson.
    Two times 90 minutes take from the whole page, the others from the stage.
    """
    if minutes:
        return _clock(plan(lesson, minutes))
    lecture = plan(lesson, 45)
    shorter = plan(lesson, 35)
    longer = plan(lesson, 50)
    first, second = two_sessions(lesson)
    at_home = lesson.sections[len(first) + len(second) :]
    second_session = f"**The second session**\n\n{_clock(second)}"
    if at_home:
        second_session += f"\n\nAt home: {_names(at_home, without=())}."
    return "\n\n".join(
        [
            f"**{lesson.title}.** Question: {opening_question(lesson)}",
            f"**45 minutes**\n\n{_clock(lecture)}",
            f"Ten minutes less: leave out {_names(lecture, without=shorter)}.",
            f"Five minutes more: add {_names(longer, without=lecture)}.",
            f"**90 minutes**\n\n{_clock(plan(lesson, 90))}",
            f"**Two times 90 minutes**\n\n{_clock(first)}",
            "Close the first session with the sentence: read it again.",
            second_session,
            f"**Answer, in the lesson's own words.** {answer(lesson)}",
        ]
    )


def _names(sections: Iterable[Section], without: Iterable[Section]) -> str:
    """The names of the sections that are not in ``without``, or ``"nothing"``."""
    names = [f"*{section.name}*" for section in sections if section not in without]
    return ", ".join(names) or "nothing"


def _clock(sections: Iterable[Section]) -> str:
    """A plan as a table: when each section is taught, on which slides, and what it holds."""
    rows = []
    end = 0.0
    for section in sections:
        begin = end
        end = begin + expected_minutes(section)
        times = f"{int(begin + 0.5)}–{int(end + 0.5)}"
        slides = "page"
        if section.slides:
            slides = span((section.slides[0], section.slides[-1]))
        roles = ", ".join(sorted(section.roles))
        if roles:
            roles = f"**{roles}**"
        rows.append([times, section.name, slides, section.mode, roles])
    return markdown.table(["minutes", "section", "slides", "mode", "holds"], rows)


def opening_question(lesson: Lesson) -> str:
    """The question that the lesson's record has, in bold."""
    return f"**{lesson.record.question}**"


def answer(lesson: Lesson) -> str:
    """The cells tagged ``answer``, if the answer stands outside the recap, and the recap.

    Links into the lesson get the name of its file.

    Raises:
        ValueError: if neither the recap nor a cell with the tag gives the answer.
    """
    recap = next(section for section in lesson.sections if "recap" in section.roles)
    _, _, summed_up = recap.text.partition("\n")
    stated = [cell.source for cell in lesson.cells("answer")]
    if not stated and "answer" not in recap.roles:
        raise ValueError(
            f"lesson {lesson.number} has no answer: give a cell the tag 'answer', or the recap "
            "the role"
        )
    text = "\n\n".join([*stated, summed_up.strip()])
    return text.replace("](#", f"]({lesson.path.name}#")


def panels() -> str:
    """Every panel, its lesson, what ``panel.set`` moves, and the section that shows it."""

    rows = []
    for lesson in lessons():
        link = f"[{lesson.number}]({lesson.path.name})"
        for cell in lesson.cells("panel"):
            for name in re.findall(r"(\w+)\.panel\(", cell.source):
                panel = importlib.import_module(f"bdl_lessons.panels.{name}").panel()
                controls = ", ".join(f"`{control}`" for control in panel.controls)
                rows.append([link, f"`{name}`", controls, cell.section])
    return markdown.table(["lesson", "panel", "controls", "section"], rows)


def exercises() -> str:
    """Every exercise: what it asks a reader to do, its minutes, and how many errors it names."""
    rows = []
    for lesson in taught():
        stated = [str(minutes) for minutes in lesson.record.exercise_minutes]
        for place, exercise in enumerate(of_lesson(lesson.number)):
            minutes = stated[place] if stated else "–"
            n_errors = str(len(exercise.known_errors))
            rows.append([exercise.number, exercise.title, exercise.kind, minutes, n_errors])
    return markdown.table(["exercise", "task", "kind", "minutes", "wrong answers it names"], rows)


def known_errors() -> str:
    """Wrong answers that readers give, as the checks diagnose them: one list a lesson."""

    def errors_of(lesson: Lesson) -> str:
        lines = []
        for exercise in of_lesson(lesson.number):
            for error in exercise.known_errors:
                lines.append(f"- **{exercise.number}** {error.diagnosis}")
        return "\n".join(lines)

    return _per_lesson(errors_of, taught())


def notes() -> str:
    """What a lecturer says at each slide, for all lessons."""

    def notes_of(lesson: Lesson) -> str:
        by_cell = metadata.notes(lesson.path)
        slides = metadata.slides(notebook.read(lesson.path))
        parts = []
        heading = ""
        for number, cells in enumerate(slides, start=1):
            heading = metadata.slide_heading(cells) or heading
            note = by_cell.get(cells[0].id)
            if note is not None:
                parts.append(f"**Slide {number}: {heading}** · {note}")
        return "\n\n".join(parts)

    return _per_lesson(notes_of, taught())


def _per_lesson(text_of: Callable[[Lesson], str], chosen: Iterable[Lesson]) -> str:
    """A fold for each lesson, so that the page stays short."""
    folds = []
    for lesson in chosen:
        title = lesson.title.replace("$2^K$", "2ᴷ")
        folds.append(
            f"<details><summary><b>{lesson.number}</b> {title}</summary>\n\n"
            f"{text_of(lesson)}\n\n</details>"
        )
    return "\n\n".join(folds)


def expected_minutes(*sections: Section) -> float:
    """The middle of the range of minutes of one section, or the sum of several."""
    return sum(sum(section.minutes) / 2 for section in sections)


def plan(lesson: Lesson, minutes: float) -> tuple[Section, ...]:
    """The sections that fit into ``minutes``, in the order of the lesson.

    First come those with a role. Of the others lectures come before work in pairs, and work in
    pairs before work alone; among equals the lesson's order decides. A section that does not fit is
    left out, and a shorter one after it may still be taken. What stands behind the recap is no part
    of the stage. The exercises can be divided: of them a class does what fits, if that is ten
    minutes or more.

    Raises:
        ValueError: if the sections with a role do not fit.
    """
    sections = [section for section in lesson.sections if not section.deeper]
    least = sum(expected_minutes(section) for section in sections if section.roles)
    if least > minutes:
        raise ValueError(f"a plan of lesson {lesson.number} takes at least {ceil(least)} minutes")

    def rank(place: int) -> tuple[bool, int]:
        section = sections[place]
        return not section.roles, _PRIORITY.index(section.mode)

    chosen: set[int] = set()
    for place in sorted(range(len(sections)), key=rank):
        section = sections[place]
        whole_minutes = int(minutes)
        if section.part == "exercises" and 10 <= whole_minutes < expected_minutes(section):
            section = replace(section, minutes=(whole_minutes, whole_minutes))
            sections[place] = section
        if expected_minutes(section) <= minutes:
            chosen.add(place)
            minutes -= expected_minutes(section)
    return tuple(sections[place] for place in sorted(chosen))


def two_sessions(lesson: Lesson) -> tuple[tuple[Section, ...], tuple[Section, ...]]:
    """The whole page, cut between two sections where the sessions are most equally long.

    The first one fits even if its work takes as long as it may. What goes deeper and does not fit
    into the second session is left out of it, the last first.
    """
    timed = []
    for section in lesson.sections:
        if section.alone:
            section = replace(section, minutes=(section.alone, section.alone))
        timed.append(section)
    sections = tuple(timed)

    def unequal(cut: int) -> float:
        return abs(expected_minutes(*sections[:cut]) - expected_minutes(*sections[cut:]))

    def fits(cut: int) -> bool:
        return sum(section.minutes[1] for section in sections[:cut]) <= SESSION_MINUTES

    cut = min(filter(fits, range(1, len(sections))), key=unequal)
    second = sections[cut:]
    while expected_minutes(*second) > SESSION_MINUTES and second[-1].deeper:
        second = second[:-1]
    return sections[:cut], second


TEXTS: dict[str, Callable[[], str]] = {
    "lesson-table": metadata.lesson_table,
    "routes": route_table,
    "lesson-plans": lesson_plans,
    "panels": panels,
    "exercises": exercises,
    "known-errors": known_errors,
    "notes": notes,
}
GENERATED = {f"generated-{name}" for name in TEXTS}


def generated(index: NotebookNode) -> Iterator[tuple[NotebookNode, str]]:
    """The generated cells of a notebook, and the text that each should hold."""
    for cell in index.cells:
        for tag in notebook.tags_of(cell) & GENERATED:
            text_of = TEXTS[tag.removeprefix("generated-")]
            yield cell, text_of()
