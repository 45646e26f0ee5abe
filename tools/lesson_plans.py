"""Lesson plans for a lecturer with 45, 90 or two times 90 minutes."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from tools.metadata import Lesson, Section

_PRIORITY = ("lecture", "pair", "solo")
ROLES = frozenset({"question", "answer", "result", "panel", "sentence", "recap"})
"""What every plan holds; and the idea picture, where a lesson has one."""


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
    if (least := expected_minutes(*(s for s in sections if s.roles))) > minutes:
        raise ValueError(f"a plan of lesson {lesson.number} takes at least {ceil(least)} minutes")
    ranks = [(not section.roles, _PRIORITY.index(section.mode)) for section in sections]
    chosen: set[int] = set()
    for i in sorted(range(len(ranks)), key=ranks.__getitem__):
        left = int(minutes)
        if sections[i].name == "Exercises" and 10 <= left < expected_minutes(sections[i]):
            sections[i] = replace(sections[i], minutes=(left, left))
        if (taken := expected_minutes(sections[i])) <= minutes:
            chosen.add(i)
            minutes -= taken
    return tuple(sections[i] for i in sorted(chosen))


def two_sessions(lesson: Lesson) -> tuple[tuple[Section, ...], tuple[Section, ...]]:
    """The whole page, cut between two sections where the sessions are most equally long."""
    sections = tuple(replace(s, minutes=(s.alone,) * 2) if s.alone else s for s in lesson.sections)

    def unequal(cut: int) -> float:
        return abs(expected_minutes(*sections[:cut]) - expected_minutes(*sections[cut:]))

    cut = min(range(1, len(sections)), key=unequal)
    return sections[:cut], sections[cut:]
