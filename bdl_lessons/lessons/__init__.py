"""What a notebook shows and asks: panels, exercises, and the tools that build the course.

Imports: experiments.
"""

import importlib
import pkgutil

from bdl_lessons.lessons import panels
from bdl_lessons.lessons.course.symbols import all_symbols, new_symbols
from bdl_lessons.lessons.exercises import autocheck, exercise, hint, show_solution
from bdl_lessons.lessons.panel import Choice, Panel, Slider

_PANELS = frozenset(module.name for module in pkgutil.iter_modules(panels.__path__))


def __getattr__(name: str):
    """The module ``panels.<name>``, imported when a lesson names it: only what it needs."""
    if name in _PANELS:
        return importlib.import_module(f"{panels.__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_PANELS})
