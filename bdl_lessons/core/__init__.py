"""Checks, devices, validation, random draws, autograd helpers and plot style: nothing Bayesian.

Imports: nothing.
"""

from bdl_lessons.core.claims import CheckFailed, ResultsTable, check, check_between, check_table
from bdl_lessons.core.devices import clock, cpu_threads, device, seeded
from bdl_lessons.core.plot_style import (
    BLUE,
    CYCLE,
    DASHES,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PURPLE,
    RED,
    SKY,
    show,
    tint,
    use_style,
)
from bdl_lessons.core.progress import progress

__all__ = [
    "BLUE",
    "CYCLE",
    "DASHES",
    "GREEN",
    "GREY",
    "INK",
    "ORANGE",
    "PURPLE",
    "RED",
    "SKY",
    "CheckFailed",
    "ResultsTable",
    "check",
    "check_between",
    "check_table",
    "clock",
    "cpu_threads",
    "device",
    "progress",
    "seeded",
    "show",
    "tint",
    "use_style",
]
