"""Published tables and figures, measured again: one module per experiment.

A module of this package that defines ``EXPERIMENT`` is an experiment of that module's name.
"""

from __future__ import annotations

import importlib
import pkgutil

from bdl_lessons.experiments.experiment import SCALES, Experiment, Measured, Unit

__all__ = ["SCALES", "Experiment", "Measured", "Unit", "load", "names"]


def names() -> list[str]:
    """Every experiment there is."""
    found = (module.name for module in pkgutil.iter_modules(__path__))
    return sorted(name for name in found if hasattr(_module(name), "EXPERIMENT"))


def load(name: str) -> Experiment:
    """The experiment called ``name``.

    Raises:
        ValueError: if there is none; the message lists those there are.
    """
    if name not in names():
        raise ValueError(f"no experiment {name!r}; there are {', '.join(names())}")
    return _module(name).EXPERIMENT


def _module(name: str):
    return importlib.import_module(f"{__name__}.{name}")
