"""The self-test of a lesson: five questions of its record, with a reason for every option."""

from __future__ import annotations

from collections.abc import Iterator

from bdl_lessons.course.lesson_record import LETTERS, LessonRecord, Option, Question

N_QUESTIONS = 5
OPTION_COUNTS = (3, 4)


def reply(option: Option) -> str:
    """What a reader is told who has chosen the option."""
    return f"{'Right' if option.right else 'Not so'}: {option.reason}"


def problems(record: LessonRecord) -> Iterator[str]:
    """Guard: five questions, one right option each, and a wrong one says what mends it."""
    if len(record.self_test) != N_QUESTIONS:
        yield f"self-test: {len(record.self_test)} questions, {N_QUESTIONS} are wanted"
    for number, question in enumerate(record.self_test, start=1):
        where = f"self-test, question {number}"
        if len(question.options) not in OPTION_COUNTS:
            yield f"{where}: {len(question.options)} options, 3 or 4 are wanted"
        n_right = sum(option.right for option in question.options)
        if n_right != 1:
            yield f"{where}: one option is right, {n_right} are marked"
            return
        for letter, option in zip(LETTERS, question.options, strict=False):
            if not option.right and "](#" not in option.reason:
                yield f"{where}, {letter}: no link to what mends it"
    keys = {question.key for question in record.self_test}
    if len(keys) == 1:
        yield "self-test: the right option stands in the same place everywhere"


def unanswered(number: int, question: Question) -> str:
    """The question as Markdown, without what is said about its options."""
    lettered = zip(LETTERS, question.options, strict=False)
    options = "\n".join(f"- {letter}. {option.text}" for letter, option in lettered)
    return f"**{number}.** {question.text}\n\n{options}"
