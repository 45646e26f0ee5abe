"""Published tables and figures, measured again: one module for each."""

import importlib

from bdl_lessons.core import validation
from reproductions.experiment import Claim, Experiment, Trial, TrialResult
from reproductions.records import SCALES, records_path

_MODULES = {
    "cifar_dropout_curves": "cifar_dropout_curves",
    "co2_mc_dropout": "co2_mc_dropout",
    "complexity": "timing.complexity",
    "gradient_variance": "gradient_variance",
    "image_classification": "images.classification",
    "image_classification_colour": "images.colour",
    "lrt_speed": "timing.lrt_speed",
    "mnist_dropout_curves": "mnist_dropout_curves",
    "rotated_digit": "rotated_digit",
    "sparse_lenet": "sparse_lenet",
    "time_per_step": "timing.time_per_step",
    "uci": "uci.experiment",
}
"""Each name has a file of records and the module here that measures them again."""


def names() -> list[str]:
    """Every experiment there is."""
    return sorted(_MODULES)


@validation.typechecked
def load(name: str) -> Experiment:
    """The experiment called ``name``; ValueError if there is none, with those there are."""
    validation.one_of("name", name, _MODULES)
    return importlib.import_module(f"{__name__}.{_MODULES[name]}").EXPERIMENT
