"""Exercises: stubs that leave the notebook runnable, and checks that say what went wrong."""

from bdl_lessons.lessons.exercises.api import autocheck, exercise, hint, show_solution
