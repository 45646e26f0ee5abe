"""Bayesian deep learning through dropout: the package behind the lessons."""

from bdl_lessons.check import CheckFailed, check, check_between
from bdl_lessons.device import device

__all__ = ["CheckFailed", "check", "check_between", "device"]
