"""The instructor's index: tables that follow from the lessons' metadata and exercises alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from bdl_lessons.exercises.grader import of_lesson
from reproductions import markdown
from tools import notebook, timing
from tools import notes as lecturers_notes
from tools.lesson_plans import expected_minutes, plan, two_sessions
from tools.metadata import Lesson, Section, lessons, span


def taught() -> list[Lesson]:
    """The lessons proper: neither the start page nor this index."""
    return [lesson for lesson in lessons() if lesson.number not in {"00", "90"}]


def timetable() -> str:
    """Every section with its minutes, its mode, and the clock at its end, without work alone."""

    def of(lesson: Lesson) -> str:
        rows, clock = [], (0, 0)
        for section in lesson.sections:
            alone = section.mode == "solo" and not section.deeper
            if not alone:
                clock = clock[0] + section.minutes[0], clock[1] + section.minutes[1]
            end = "–" if alone else span(clock)
            rows.append([section.name, span(section.minutes), end, _mode(section)])
        return markdown.table(["section", "minutes", "clock", "mode"], rows)

    return _per_lesson(of)


def lesson_plans() -> str:
    """For each lesson what to teach in 45, 90 and two times 90 minutes, with the clock.

    Every plan holds the opening question, its answer, the idea picture, the main result and the
    panel; question and answer stand there in the words of the lesson. 45 and 90 minutes take from
    the stage, two times 90 the whole page.
    """
    return "\n\n".join([f"Minutes are {timing.RATES}.", *map(_plan_of, taught())])


def _plan_of(lesson: Lesson) -> str:
    first, second = two_sessions(lesson)
    return "\n\n".join(
        [
            f"### {lesson.number} {lesson.title}",
            f"Question: {opening_question(lesson)}",
            _clock("45 minutes", plan(lesson, 45)),
            _clock("90 minutes", plan(lesson, 90)),
            _clock("two times 90 minutes, first", first),
            _clock("two times 90 minutes, second", second),
            f"**Answer, in the lesson's own words.** {answer(lesson)}",
        ]
    )


def _clock(name: str, sections: Iterable[Section]) -> str:
    """A plan as a table: from when to when each section is taught, and what it holds."""
    rows, clock = [], 0.0
    for section in sections:
        begin, clock = clock, clock + expected_minutes(section)
        holds = ", ".join(sorted(section.roles))
        times = f"{int(begin + 0.5)}–{int(clock + 0.5)}"
        rows.append([times, section.name, _mode(section), holds and f"**{holds}**"])
    table = markdown.table(["minutes", "section", "mode", "holds"], rows)
    return f"**{name}**\n\n{table}" if name == "45 minutes" else _fold(name, table)


def opening_question(lesson: Lesson) -> str:
    """The last paragraph of the lesson's first section that asks something in bold.

    Raises:
        ValueError: if no section with the role "question" does.
    """
    return _paragraph(lesson, "question", r"\?", last=True)


def answer(lesson: Lesson) -> str:
    """The recap; before it, if the answer stands elsewhere, the paragraph that states it in bold.

    Links into the lesson get the name of its file.

    Raises:
        ValueError: if neither the recap nor another section gives the answer.
    """
    recap = next(section for section in lesson.sections if section.name == "Recap")
    text = re.sub(r"^(?:## .*|Next: .*|\*\*References.*)$", "", recap.text, flags=re.M).strip()
    if "answer" not in recap.roles:
        text = f"{_paragraph(lesson, 'answer', '[.]')}\n\n{text}"
    return text.replace("](#", f"]({lesson.path.name}#")


def _paragraph(lesson: Lesson, role: str, end: str, last: bool = False) -> str:
    """A paragraph with a sentence in bold that ends with ``end``, in a section with this role."""
    sections = [section for section in lesson.sections if role in section.roles]
    paragraphs = [part for section in sections[::-1] for part in section.text.split("\n\n")]
    found = [part for part in paragraphs if re.search(rf"\*\*[^*]+{end}\*\*", part)]
    if not found:
        raise ValueError(f"lesson {lesson.number}: no paragraph states the {role} in bold")
    return found[-1 if last else 0]


def panels() -> str:
    """Every panel, its lesson, and the section that shows it."""
    rows = [
        [f"[{lesson.number}]({lesson.path.name})", f"`{name}`", cell.section]
        for lesson in lessons()
        for cell in lesson.cells("panel")
        for name in re.findall(r"(\w+)\.panel\(", cell.source)
    ]
    return markdown.table(["lesson", "panel", "section"], rows)


def exercises() -> str:
    """Every exercise, what it asks a reader to do, and how many known errors its check names."""
    rows = [
        [e.number, e.title, e.kind, str(len(e.known_errors))]
        for lesson in taught()
        for e in of_lesson(lesson.number)
    ]
    return markdown.table(["exercise", "task", "kind", "wrong answers it names"], rows)


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
    """What a lecturer says at each slide, for all lessons."""

    def of(lesson: Lesson) -> str:
        slides = lecturers_notes.slides(notebook.read(lesson.path))
        said, parts, heading = lecturers_notes.of_lesson(lesson.path), [], ""
        for number, cells in enumerate(slides, start=1):
            heading = lecturers_notes.heading(cells) or heading
            if cells[0].id in said:
                parts.append(f"**Slide {number}: {heading}** · {said[cells[0].id]}")
        return "\n\n".join(parts)

    return _per_lesson(of)


def _mode(section: Section) -> str:
    return "going deeper" if section.deeper else section.mode


def _per_lesson(text_of: Callable[[Lesson], str]) -> str:
    """A fold for each lesson, so that the page stays short."""
    folds = (_fold(f"<b>{x.number}</b> {x.title}", text_of(x)) for x in taught())
    return "\n\n".join(folds)


def _fold(heading: str, text: str) -> str:
    return f"<details><summary>{heading}</summary>\n\n{text}\n\n</details>"
