"""Arrays of the panels: trained once, committed in ``data/panels``, read by a slider.

``python -m reproductions arrays`` trains and writes them.
"""

from __future__ import annotations

import zipfile
import zlib

import numpy as np

from bdl_lessons.core.files import DATA

FOLDER = DATA / "panels"
_DAMAGED = zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, ValueError
"""What NumPy and zipfile raise for a damaged file."""


def load(name: str) -> dict[str, np.ndarray]:
    """The arrays called ``name``.

    Raises FileNotFoundError if they were never made; the message has the command; ValueError if the
    file is damaged; the message names it and has the command.
    """
    path = FOLDER / f"{name}.npz"
    remedy = (
        "It belongs to the repository; restore it, "
        f"or make it again: python -m reproductions arrays {name}"
    )
    if not path.exists():
        raise FileNotFoundError(f"{path.name} is missing from data/panels. {remedy}")
    try:
        with np.load(path, allow_pickle=False) as stored:
            return {key: stored[key] for key in stored.files}
    except _DAMAGED as error:
        raise ValueError(f"{path} is damaged ({error}). {remedy}") from error
