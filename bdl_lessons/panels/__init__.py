"""The panels of the lessons, one module each, and ``arrays``, which reads what was trained.

A panel is imported by its name, ``from bdl_lessons.panels import dropout_rate``, and shown by
``dropout_rate.panel()``.

Imports: datasets, reference, inference, evaluation.
"""

from bdl_lessons.panels.engine import Choice, Panel, Slider

__all__ = ["Choice", "Panel", "Slider"]
