"""From a slider event to the new picture: 50 moves of every panel, nothing cached."""

from __future__ import annotations

import importlib
import itertools
import pkgutil
import time

import numpy as np

from bdl_lessons.lessons import panels
from bdl_lessons.lessons.panel import Panel

N_MOVES = 50


def run() -> list[dict]:
    """Median and 95th percentile in milliseconds for each panel of the package."""
    return [measure(panel) for panel in every_panel()]


def every_panel() -> list[Panel]:
    """One panel from each panel module that has a function ``panel``."""
    names = [module.name for module in pkgutil.iter_modules(panels.__path__)]
    modules = [importlib.import_module(f"{panels.__name__}.{name}") for name in names]
    return [module.panel() for module in modules if hasattr(module, "panel")]


def measure(panel: Panel) -> dict:
    """Move the sliders through their grids and time each event until the picture is replaced."""
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
    return {
        "panel": panel.name,
        "median (ms)": float(np.median(took_ms)),
        "95th percentile (ms)": float(np.percentile(took_ms, 95)),
    }
