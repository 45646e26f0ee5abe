"""Training behind the panels and figures of the lessons.

``python -m reproductions arrays NAME`` writes what the function in ``MAKERS`` returns, a dictionary
of arrays, to ``data/panels/NAME.npz``.
"""

import importlib
from pathlib import Path

import numpy as np

from reproductions.files import replacing
from bdl_lessons.core.validation import one_of
from bdl_lessons.panels.arrays import FOLDER

_SMALL = ("dropout_rate", "many_networks", "mc_dropout_co2", "pruning_threshold", "rotated_digit")
_ALONE = ("dropout_by_width", "in_between_uncertainty", "label_noise", "structure_and_nll")
MAKERS = {name: ("small", f"make_{name}") for name in _SMALL}
MAKERS |= {name: (name, "make_arrays") for name in _ALONE}
MAKERS["in_between_hmc"] = ("in_between_uncertainty", "make_hmc")
"""Name of the arrays -> module and function that make them."""


def make(name: str) -> Path:
    """Compute the arrays called ``name`` and write them, all or nothing; ValueError without any."""
    module, function = MAKERS[one_of("name", name, MAKERS)]
    made = getattr(importlib.import_module(f"{__name__}.{module}"), function)()
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{name}.npz"
    with replacing(path) as file:
        np.savez_compressed(file, **made)
    return path
