"""Routes through the course: they name lessons, count their minutes, and can be shown."""

import json

import matplotlib.pyplot as plt
import pytest

from bdl_lessons.course import routes
from bdl_lessons.course.lesson_record import lesson_records
from tools.figure_rules import problems
from tools.metadata import lessons

NOT_MERGED = {
    "in_between_uncertainty",
    "improper_priors_and_singular_posteriors",
    "what_structure_buys",
}
"""Lessons that may be missing while the old lessons 09 and 13 are being split."""


@pytest.fixture
def complete(monkeypatch):
    """The routes without the lessons that are not there yet."""
    kept = [
        routes.Route(
            name=route.name,
            purpose=route.purpose,
            lessons=tuple(name for name in route.lessons if name in lesson_records()),
            alone=route.alone,
        )
        for route in routes.ROUTES
    ]
    monkeypatch.setattr(routes, "ROUTES", kept)
    return kept


def test_every_lesson_of_a_route_exists_and_is_named_once():
    for route in routes.ROUTES:
        assert {*route.lessons} <= {*lesson_records()} | NOT_MERGED
        assert len({*route.lessons}) == len(route.lessons)


def test_a_lesson_that_is_missing_is_named():
    route = routes.Route(name="short", purpose="", lessons=("no_such_lesson",))
    with pytest.raises(ValueError, match="'short': no lesson 'no_such_lesson'"):
        route.records()
    with pytest.raises(FileNotFoundError, match="run it in the repository"):
        routes.lesson_minutes("99_missing")


def test_minutes_are_those_of_the_plans():
    for lesson in lessons():
        if lesson.is_index:
            continue
        minutes = routes.lesson_minutes(lesson.path.stem)
        low, high = lesson.minutes["lecture"]
        assert low <= minutes["lecture"] <= high
        assert minutes["alone"] == lesson.minutes["alone"][0]


def test_a_route_takes_as_long_as_its_lessons(complete, tmp_path):
    (evening, *_, whole) = complete
    every = [routes.lesson_minutes(record.stem) for record in lesson_records().values()]
    assert routes.route_minutes(whole) == sum(minutes["lecture"] for minutes in every)
    stems = [lesson_records()[name].stem for name in evening.lessons]
    alone = [routes.lesson_minutes(stem)["alone"] for stem in stems]
    assert routes.route_minutes(evening) == sum(alone)
    section = {"bdl": {"minutes": [3, 5], "mode": "pair", "alone": 6}}
    left_out = {"bdl": {"minutes": [9, 9], "mode": "lecture", "alone": 9, "part": "deeper"}}
    cells = [{"metadata": each} for each in (section, left_out, {})]
    (tmp_path / "01_toy.ipynb").write_text(json.dumps({"cells": cells}), encoding="utf-8")
    assert routes.lesson_minutes("01_toy", tmp_path) == {"lecture": 4, "alone": 6}


def test_the_table_links_each_lesson_and_the_picture_can_be_projected(complete):
    table = routes.route_table(link="notebooks/")
    assert len(table.splitlines()) == 2 + len(complete)
    for route, line in zip(complete, table.splitlines()[2:], strict=True):
        assert line.count(".ipynb)") == len(route.records())
    assert "](notebooks/05_monte_carlo_dropout.ipynb)" in table
    figure = routes.route_picture()
    assert problems(figure) == []
    plt.close(figure)


@pytest.mark.parametrize(("minutes", "text"), [(4, "0 min"), (57, "1 h"), (134, "2 h 10 min")])
def test_hours_are_rounded_to_ten_minutes(minutes, text):
    assert routes._hours(minutes) == text
