import pytest

from tools.lesson_plans import ROLES, expected_minutes, plan, total_minutes, two_sessions
from tools.metadata import Section, lessons

LESSONS = [lesson for lesson in lessons() if lesson.number not in {"00", "90"}]


class Made:
    """A lesson of four sections: 5, 20, 10 and 5 expected minutes."""

    sections = (
        Section("A question", (4, 6), "lecture", frozenset({"question"})),
        Section("In pairs", (20, 20), "pair"),
        Section("A proof", (10, 10), "lecture"),
        Section("Recap", (4, 6), "lecture", frozenset({"answer"})),
    )


@pytest.mark.parametrize(
    ("minutes", "names"),
    [
        (4, []),
        (10, ["A question", "Recap"]),
        (29, ["A question", "A proof", "Recap"]),
        (40, ["A question", "In pairs", "A proof", "Recap"]),
    ],
)
def test_what_fits_is_taught_in_the_order_of_the_lesson(minutes, names):
    chosen = plan(Made, minutes)
    assert [section.name for section in chosen] == names
    assert total_minutes(chosen) <= minutes


@pytest.mark.parametrize(("minutes", "whole"), [(38, False), (45, True)])
def test_what_stands_behind_the_recap_waits_for_the_whole_lecture(minutes, whole):
    class Longer:
        sections = (*Made.sections, Section("Deeper", (1, 1), "lecture", deeper=True))

    names = [section.name for section in plan(Longer, minutes)]
    assert ("In pairs" in names) == whole
    assert ("Deeper" in names) == whole


def test_the_cut_is_where_the_halves_are_most_equal():
    first, second = two_sessions(Made)
    assert [s.name for s in first] == ["A question", "In pairs"]
    assert [s.name for s in second] == ["A proof", "Recap"]


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.number)
def test_every_lesson_has_its_plans(lesson):
    for minutes in (45, 90):
        chosen = plan(lesson, minutes)
        assert total_minutes(chosen) <= minutes
        assert chosen[0] == lesson.sections[0]
        roles = [role for section in chosen for role in section.roles]
        assert {*roles} - {"idea"} == ROLES
    first, second = two_sessions(lesson)
    assert [s.name for s in (*first, *second)] == [s.name for s in lesson.sections]
    assert max(sum(map(expected_minutes, half)) for half in (first, second)) <= 90
