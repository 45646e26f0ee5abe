"""Checks, devices, validation, random draws, autograd helpers and plot style: nothing Bayesian.

Imports: nothing.
"""

from bdl_lessons.core.check import CheckFailed, check, check_between
from bdl_lessons.core.device import clock, device
from bdl_lessons.core.plot_style import (
    BLUE, CYCLE, DASHES, GREEN, GREY, INK, ORANGE, PURPLE, SKY, VERMILLION, YELLOW, tint, use_style,
)
