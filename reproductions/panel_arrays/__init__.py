"""Training behind the panels and figures of the lessons, one module for each file of arrays.

A module has ``make_arrays() -> dict[str, ndarray]``; ``python -m reproductions arrays NAME``
writes what it returns to ``data/panels/NAME.npz``.
"""

import importlib
import pkgutil
from pathlib import Path

import numpy as np

from reproductions.files import replacing
from bdl_lessons.panels.arrays import FOLDER


def makers() -> list[str]:
    """Names of the arrays that can be made."""
    return [module.name for module in pkgutil.iter_modules(__path__)]


def make(name: str) -> Path:
    """Compute the arrays called ``name`` and write them, all or nothing; ValueError without any."""
    if name not in makers():
        raise ValueError(f"no arrays {name!r}; there are {', '.join(makers())}")
    made = importlib.import_module(f"{__name__}.{name}").make_arrays()
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{name}.npz"
    with replacing(path) as file:
        np.savez_compressed(file, **made)
    return path
