"""Precomputed arrays of the panels: trained once, committed in ``data/panels``, read by a slider.

A panel module with trained parts has a function ``make_arrays() -> dict[str, ndarray]``;
``python -m bdl_lessons panel-data`` writes what it returns.
"""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

import numpy as np

from bdl_lessons.core.files import DATA

FOLDER = DATA / "panels"


def load(name: str) -> dict[str, np.ndarray]:
    """The arrays of panel module ``name``.

    Raises:
        FileNotFoundError: if they were never made; the message has the command.
    """
    path = FOLDER / f"{name}.npz"
    if not path.exists():
        raise FileNotFoundError(
            f"{path.name} is missing from data/panels. It belongs to the repository; restore it, "
            f"or make it again: python -m bdl_lessons panel-data {name}"
        )
    with np.load(path, allow_pickle=False) as stored:
        return {key: stored[key] for key in stored.files}


def makers() -> list[str]:
    """Names of the panel modules that have arrays to make."""
    package = importlib.import_module(__package__)
    names = [module.name for module in pkgutil.iter_modules(package.__path__)]
    return [name for name in names if hasattr(_module(name), "make_arrays")]


def make(name: str) -> Path:
    """Compute the arrays of one panel and write them, all or nothing.

    Raises:
        ValueError: if no panel of this name has arrays.
    """
    if name not in makers():
        raise ValueError(f"no panel {name!r} with arrays; there are {', '.join(makers())}")
    FOLDER.mkdir(parents=True, exist_ok=True)
    path, unfinished = FOLDER / f"{name}.npz", FOLDER / f"{name}.unfinished"
    with unfinished.open("wb") as file:
        np.savez_compressed(file, **_module(name).make_arrays())
    unfinished.replace(path)
    return path


def _module(name: str):
    return importlib.import_module(f"{__package__}.{name}")
