"""Checks, devices, validation, random draws, autograd helpers and plot style: nothing Bayesian.

Imports: nothing.
"""

from bdl_lessons.core.claims import CheckFailed, ResultsTable, check, check_between, checks
from bdl_lessons.core.devices import clock, device, seeded
from bdl_lessons.core.plot_style import (
    BLUE, CYCLE, DASHES, GREEN, GREY, INK, ORANGE, PURPLE, RED, SKY, show, tint, use_style,
)
