"""The self-test of a lesson: guarded, and printed without its answers."""

from dataclasses import replace

import pytest

from bdl_lessons.course.lesson_record import LETTERS, LessonRecord, Option, Question
from tools import assignments, render, selftest


def asked(keys="BACBA", n_options=3, reason="see [there](#There)."):
    """A record whose right options are ``keys``, of which each may be several letters."""
    questions = []
    for number, key in enumerate(keys, start=1):
        options = tuple(
            Option(f"As {letter}", "it is." if letter in key else reason, letter in key)
            for letter in LETTERS[:n_options]
        )
        questions.append(Question(f"How large is $\\sigma^{number}$?", options))
    return LessonRecord(
        stem="05_masks",
        title="Masks & more",
        short_title="Masks",
        question="Why?",
        objectives=("mask",),
        self_test=tuple(questions),
    )


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (asked("BACB"), "4 questions, 5 are wanted"),
        (asked(["B", "A", "", "B", "A"]), "one option is right, 0 are marked"),
        (asked(["B", "A", "AC", "B", "A"]), "one option is right, 2 are marked"),
        (asked(reason="see there."), "no link to what mends it"),
        (asked("BABBA", n_options=2), "2 options, 3 or 4 are wanted"),
        (asked("BBBBB"), "same place"),
    ],
)
def test_what_is_wrong_is_named(record, said):
    assert said in " ".join(selftest.problems(record))
    assert list(selftest.problems(asked())) == []


def test_two_right_options_have_no_key():
    with pytest.raises(ValueError, match="2 options are marked `right = true`, mark one"):
        _ = asked(["AC"]).self_test[0].key


def test_the_sheet_shows_formulas_and_keeps_answers_for_its_last_page():
    page = assignments.sheet(asked())
    shown, _, answers = page.partition("<h2>Answers</h2>")
    assert shown.count("<math") == 5
    assert "<title>05 · Masks &amp; more</title>" in shown
    assert "it is" not in shown
    assert "see" not in shown
    assert "<li>C: it is.</li>" in answers


def test_a_reader_finds_every_reason_in_a_fold():
    text = render.self_test(replace(asked(), self_test=asked().self_test[:1]))
    assert text.count("<details>") == 3
    assert "<summary>B. As B</summary>\n\nRight: it is." in text
    assert text.count("Not so: see [there](#There).") == 2
