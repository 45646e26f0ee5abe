"""Training behind the panels and figures of the lessons.

``python -m reproductions arrays NAME`` writes what the function in ``MAKERS`` returns to
``data/panels/NAME.npz``.
"""

from pathlib import Path

import numpy as np

from bdl_lessons.core.validation import one_of
from bdl_lessons.panels.arrays import FOLDER
from reproductions.files import replacing
from reproductions.panel_arrays import (
    asking_for_labels,
    dropout_on_mnist,
    label_noise,
    mc_dropout_co2,
    noise_away,
    paired_starts,
    size_and_error,
    small,
    structure_and_nll,
    structure_by_direction,
)
from reproductions.panel_arrays import in_between_uncertainty as in_between

MAKERS = {
    "asking_for_labels": asking_for_labels.make_arrays,
    "dropout_on_mnist": dropout_on_mnist.make_arrays,
    "dropout_by_width": small.make_dropout_by_width,
    "dropout_rate": small.make_dropout_rate,
    "in_between_hmc": in_between.make_hmc,
    "in_between_uncertainty": in_between.make_arrays,
    "label_noise": label_noise.make_arrays,
    "many_networks": small.make_many_networks,
    "mc_dropout_co2": mc_dropout_co2.make_arrays,
    "noise_away": noise_away.make_arrays,
    "paired_starts": paired_starts.make_arrays,
    "pruning_threshold": small.make_pruning_threshold,
    "rotated_digit": small.make_rotated_digit,
    "size_and_error": size_and_error.make_arrays,
    "structure_and_nll": structure_and_nll.make_arrays,
    "structure_by_direction": structure_by_direction.make_arrays,
    "width_and_labels": small.make_width_and_labels,
}


def make(name: str) -> Path:
    """Compute the arrays called ``name`` and write them, all or nothing; ValueError without any."""
    one_of("name", name, MAKERS)
    arrays = MAKERS[name]()
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{name}.npz"
    with replacing(path) as file:
        np.savez_compressed(file, **arrays)
    return path
