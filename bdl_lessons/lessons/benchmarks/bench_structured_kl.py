"""The KL of structured dropout over the number of units: time and memory."""

from __future__ import annotations

from bdl_lessons.experiments.timing import structured_kl_growth


def run() -> list[dict]:
    """Rows of :func:`bdl_lessons.experiments.timing.structured_kl_growth.measure`."""
    return structured_kl_growth.measure()
