"""Benchmarks of speed that are not recorded: ``python -m reproductions bench``.

Each benchmark measures and returns its table in Markdown.
"""

from __future__ import annotations

import importlib
import itertools
import pkgutil
import time
from collections.abc import Callable

import numpy as np

from bdl_lessons import panels
from bdl_lessons.panels.engine import Panel
from reproductions import markdown
from reproductions.timing import layer_cost

N_MOVES = 50


def move_panels() -> str:
    """From a slider event to the new picture, ``N_MOVES`` times, nothing cached, every panel."""
    modules = [
        importlib.import_module(f"{panels.__name__}.{module.name}")
        for module in pkgutil.iter_modules(panels.__path__)
    ]
    rows = [move(module.panel()) for module in modules if hasattr(module, "panel")]
    columns = {"panel": "{panel}", "median (ms)": "{median:.3g}", "95 % (ms)": "{high:.3g}"}
    return markdown.table_of(rows, columns)


def move(panel: Panel) -> dict:
    """Move the sliders through their grids and time each event until the picture is replaced.

    Returns:
        ``median`` and ``high``, the 95th percentile, in milliseconds.
    """
    _ = panel.widget
    settings = itertools.cycle(
        (name, value) for name, control in panel.controls.items() for value in control.values
    )
    took_ms = []
    while len(took_ms) < N_MOVES:
        name, value = next(settings)
        if panel.values[name] == value:
            continue
        panel.clear_cache()
        began = time.perf_counter()
        panel.set(**{name: value})
        took_ms.append(1e3 * (time.perf_counter() - began))
    middle, high = np.percentile(took_ms, [50, 95])
    return {"panel": panel.name, "median": middle, "high": high}


BENCHMARKS: dict[str, Callable[[], str]] = {"layers": layer_cost.table, "panels": move_panels}
