"""Exercises: stubs that leave the notebook runnable, and checks that say what went wrong.

Imports: reference, inference, evaluation, panels.
"""

from bdl_lessons.exercises.api import autocheck, exercise, hint, score, show_solution

__all__ = ["autocheck", "exercise", "hint", "score", "show_solution"]
