"""The cells of a notebook that are rendered: from the lesson's record, or from all lessons.

The record stands in ``notebooks/lessons``: ``bdl_lessons.course.lesson_record`` has its fields. Of
a lesson the first cell and the cells tagged ``question``, ``self-test``, ``open-question`` and
``references`` are rendered; of the instructor's index those that ``tools.instructor`` names.
``rebuild`` and ``render`` write them, and a guard compares.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from nbformat import NotebookNode

from bdl_lessons.course.lesson_record import LETTERS, LessonRecord, Need, lesson_records
from tools import address, instructor, metadata, notebook, references, selftest, timing
from tools.timing import RATES


def generated(lesson_notebook: NotebookNode, path: Path) -> Iterator[tuple[NotebookNode, str]]:
    """The rendered cells of a notebook, and the text that each should hold."""
    yield from instructor.generated(lesson_notebook)
    lesson = metadata.Lesson(path)
    if lesson.is_index:
        return
    record = lesson.record
    yield lesson_notebook.cells[0], title(record, lesson_notebook)
    texts = {
        "question": question,
        "self-test": self_test,
        "open-question": open_question,
        "references": references.cell,
    }
    for cell in lesson_notebook.cells:
        for tag in notebook.tags_of(cell) & texts.keys():
            yield cell, texts[tag](record)


def fill(lesson_notebook: NotebookNode, path: Path) -> None:
    """Write the minutes of the sections and then the rendered cells, in place."""
    if not metadata.Lesson(path).is_index:
        timing.fill(lesson_notebook, metadata.notes(path))
    for cell, text in generated(lesson_notebook, path):
        cell.source = text


def title(record: LessonRecord, lesson_notebook: NotebookNode) -> str:
    """The first cell: title, objectives, needs, and how long the lesson takes."""
    minutes = metadata.summary(metadata.sections_of(lesson_notebook.cells))
    rows = {
        "You will be able to": "; ".join(record.objectives),
        "Needs": needs(record),
        "Minutes": f"{minutes}<br><small>{RATES}</small>",
        "Elsewhere": address.markdown_links(address.address(), record.stem),
        "Runs in": record.runs_in,
    }
    lines = [f"| **{name}** | {text} |" for name, text in rows.items() if text]
    table = "\n".join(["| | |", "|---|---|", *lines])
    return f"# {record.number} · {record.title}\n\n{table}"


def needs(record: LessonRecord) -> str:
    """What a lesson builds on, in one line with links."""
    required = [_link(need) for need in record.needs if need.required]
    useful = [_link(need) for need in record.needs if not need.required]
    parts = [record.background, ", ".join(required)]
    if useful:
        verb = "is" if len(useful) == 1 else "are"
        parts.append(f"{' and '.join(useful)} {verb} useful, not required")
    return "; ".join(part for part in parts if part)


def _link(need: Need) -> str:
    records = lesson_records()
    if need.lesson not in records:
        raise ValueError(f"needs: no lesson {need.lesson!r}; there are {', '.join(records)}")
    other = records[need.lesson]
    link = f"[{other.number} {other.short_title}]({other.stem}.ipynb)"
    return f"{link} ({need.takes})" if need.takes else link


def question(record: LessonRecord) -> str:
    """The opening question."""
    return f"**{record.question}**"


def self_test(record: LessonRecord) -> str:
    """The self-test as a reader meets it: every option is a fold with what is said about it."""
    parts = ["## Self-test", "Choose an answer to each question before you open it."]
    for number, asked in enumerate(record.self_test, start=1):
        if number > 1:
            parts.append("---")  # so that a question stands with its own answers
        parts.append(f"**{number}.** {asked.text}")
        folds = [
            f"<details><summary>{letter}. {option.text}</summary>\n\n"
            f"{selftest.reply(option)}\n\n</details>"
            for letter, option in zip(LETTERS, asked.options, strict=False)
        ]
        parts.append("\n".join(folds))
    return "\n\n".join(parts)


def open_question(record: LessonRecord) -> str:
    """The last task, and the fold with its model answer."""
    asked = record.open_question
    return (
        f"{open_question_text(record)}\n\n"
        "<details><summary><b>What a good answer has</b></summary>\n\n"
        f"{asked.model_answer}\n\n</details>"
    )


def open_question_text(record: LessonRecord) -> str:
    """The last task, without its model answer."""
    asked = record.open_question
    number = f"{record.number}.{len(record.exercise_minutes) + 1}"
    return f"**{number}, an open question{asked.detail}.** {asked.text}"
