"""Ways through a lesson for a lecturer with 45, 90 or two times 90 minutes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bdl_lessons.lessons.course.metadata import Lesson, Section

_PRIORITY = {"lecture": 0, "pair": 1, "solo": 2}
_CORE = ("Predict", "Recap")


@dataclass(frozen=True)
class Route:
    """Sections to teach, in the order of the lesson, and those left for reading at home."""

    taught: tuple[Section, ...]
    left: tuple[Section, ...]

    @property
    def minutes(self) -> float:
        """Expected length: the sum of the middles of the sections' ranges."""
        return length(self.taught)


def expected(section: Section) -> float:
    """The middle of a section's range of minutes."""
    return sum(section.minutes) / 2


def length(sections: Sequence[Section]) -> float:
    """Expected minutes of several sections."""
    return sum(map(expected, sections))


def route(lesson: Lesson, minutes: float) -> Route:
    """What fits into ``minutes``: first the opening, the slider and the recap, then the rest.

    What is for the whole room goes before work in pairs, work in pairs before work alone; among
    equals the lesson's order decides. A section that no longer fits is left, a shorter one after it
    may still come.

    Raises:
        ValueError: if ``minutes`` is not positive.
    """
    if not minutes > 0:
        raise ValueError(f"minutes must be > 0, got {minutes}")
    sections = lesson.sections
    order = sorted(range(len(sections)), key=lambda i: (*_rank(sections[i], i), i))
    chosen: set[int] = set()
    clock = 0.0
    for i in order:
        if clock + expected(sections[i]) <= minutes:
            chosen.add(i)
            clock += expected(sections[i])
    taught = tuple(section for i, section in enumerate(sections) if i in chosen)
    return Route(taught, tuple(s for i, s in enumerate(sections) if i not in chosen))


def halves(lesson: Lesson) -> tuple[tuple[Section, ...], tuple[Section, ...]]:
    """The whole lesson in two sessions, cut between sections where they are most equally long."""
    sections = tuple(lesson.sections)
    cuts = range(1, len(sections)) if len(sections) > 1 else [len(sections)]
    cut = min(cuts, key=lambda i: abs(length(sections[:i]) - length(sections[i:])))
    return sections[:cut], sections[cut:]


def _rank(section: Section, position: int) -> tuple[bool, int]:
    core = position == 0 or section.name.startswith(_CORE)
    return not core, _PRIORITY[section.mode]
