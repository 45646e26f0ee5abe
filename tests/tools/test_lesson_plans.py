import pytest

from tools.lesson_plans import expected_minutes, plan, two_sessions
from tools.metadata import Section


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
        (10, ["A question", "Recap"]),
        (29, ["A question", "A proof", "Recap"]),
        (40, ["A question", "In pairs", "A proof", "Recap"]),
    ],
)
def test_what_fits_is_taught_in_the_order_of_the_lesson(minutes, names):
    chosen = plan(Made, minutes)
    assert [section.name for section in chosen] == names
    assert expected_minutes(*chosen) <= minutes


class Longer:
    sections = (*Made.sections, Section("Exercises", (20, 40), "solo"))
    sections += (Section("Deeper", (1, 1), "lecture", deeper=True),)


@pytest.mark.parametrize(("minutes", "taught"), [(49, 0), (50, 10), (60, 20), (90, 30)])
def test_of_the_exercises_a_class_does_what_fits_and_nothing_from_behind_the_recap(minutes, taught):
    assert expected_minutes(*plan(Longer, minutes)) == 40 + taught


def test_the_cut_is_where_the_halves_are_most_equal():
    first, second = two_sessions(Made)
    assert [s.name for s in first] == ["A question", "In pairs"]
    assert [s.name for s in second] == ["A proof", "Recap"]
