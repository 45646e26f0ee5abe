"""A training step under structured dropout, against a plain network."""

from __future__ import annotations

from bdl_lessons.experiments.timing import step_time


def run() -> list[dict]:
    """Rows of :func:`bdl_lessons.experiments.timing.step_time.compare`."""
    return step_time.compare(step_time.STRUCTURED)
