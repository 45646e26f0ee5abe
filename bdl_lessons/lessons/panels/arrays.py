"""Arrays of the panels: trained once, committed in ``data/panels``, read by a slider.

``bdl_lessons.experiments.panel_arrays`` has a module for each of them, which trains what is stored;
``python -m bdl_lessons panel-data`` writes it.
"""

from __future__ import annotations

import importlib
import pkgutil
import zipfile
import zlib
from pathlib import Path

import numpy as np

from bdl_lessons.core.files import DATA, replacing
from bdl_lessons.experiments import panel_arrays

FOLDER = DATA / "panels"
_DAMAGED = zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, ValueError
"""What NumPy and zipfile raise for a damaged file."""


def load(name: str) -> dict[str, np.ndarray]:
    """The arrays called ``name``.

    Raises:
        FileNotFoundError: if they were never made; the message has the command.
        ValueError: if the file is damaged; the message names it and has the command.
    """
    path = FOLDER / f"{name}.npz"
    remedy = (
        "It belongs to the repository; restore it, "
        f"or make it again: python -m bdl_lessons panel-data {name}"
    )
    if not path.exists():
        raise FileNotFoundError(f"{path.name} is missing from data/panels. {remedy}")
    try:
        with np.load(path, allow_pickle=False) as stored:
            return {key: stored[key] for key in stored.files}
    except _DAMAGED as error:
        raise ValueError(f"{path} is damaged ({error}). {remedy}") from error


def makers() -> list[str]:
    """Names of the arrays that can be made."""
    return [module.name for module in pkgutil.iter_modules(panel_arrays.__path__)]


def make(name: str) -> Path:
    """Compute the arrays called ``name`` and write them, all or nothing.

    Raises:
        ValueError: if there are none of this name.
    """
    if name not in makers():
        raise ValueError(f"no panel {name!r} with arrays; there are {', '.join(makers())}")
    made = importlib.import_module(f"{panel_arrays.__name__}.{name}").make_arrays()
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{name}.npz"
    with replacing(path) as file:
        np.savez_compressed(file, **made)
    return path
