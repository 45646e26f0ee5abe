"""Lesson plans for a lecturer with 45, 90 or two times 90 minutes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tools.metadata import Lesson, Section

_PRIORITY = {"lecture": 0, "pair": 1, "solo": 2}
ROLES = frozenset({"question", "answer", "result", "panel"})
"""What every plan holds; and the idea picture, where a lesson has one."""


def expected_minutes(section: Section) -> float:
    """The middle of a section's range of minutes."""
    return sum(section.minutes) / 2


def total_minutes(sections: Sequence[Section]) -> float:
    """Expected minutes of several sections."""
    return sum(map(expected_minutes, sections))


def plan(lesson: Lesson, minutes: float) -> tuple[Section, ...]:
    """The sections that fit into ``minutes``, in the order of the lesson.

    First come those with a role: the opening question, its answer, the idea picture, the main
    result, the panel. Of the others lectures come before work in pairs, and work in pairs before
    work alone; among equals the lesson's order decides. A section that does not fit is left out,
    and a shorter one after it may still be taken. What stands behind the recap is no part of the
    stage. The exercises can be divided: of them a class does what fits, if that is ten minutes or
    more.
    """
    sections = [section for section in lesson.sections if not section.deeper]
    order = sorted(range(len(sections)), key=lambda i: (*_rank(sections[i]), i))
    chosen: set[int] = set()
    clock = 0.0
    for i in order:
        left = int(minutes - clock)
        if sections[i].name == "Exercises" and 10 <= left < expected_minutes(sections[i]):
            sections[i] = replace(sections[i], minutes=(left, left))
        if clock + expected_minutes(sections[i]) <= minutes:
            chosen.add(i)
            clock += expected_minutes(sections[i])
    return tuple(section for i, section in enumerate(sections) if i in chosen)


def two_sessions(lesson: Lesson) -> tuple[tuple[Section, ...], tuple[Section, ...]]:
    """The whole page, cut between two sections where the sessions are most equally long."""
    sections = tuple(
        replace(section, minutes=(section.alone, section.alone)) if section.alone else section
        for section in lesson.sections
    )
    cuts = range(1, len(sections)) if len(sections) > 1 else [len(sections)]
    cut = min(cuts, key=lambda i: abs(total_minutes(sections[:i]) - total_minutes(sections[i:])))
    return sections[:cut], sections[cut:]


def _rank(section: Section) -> tuple[bool, int]:
    return not section.roles, _PRIORITY[section.mode]
