"""Published tables and figures, measured again: a module for each, or for several of a paper."""

import pkgutil

from bdl_lessons.core import validation
from reproductions.experiment import Claim, Experiment, Trial, TrialResult
from reproductions.records import SCALES, records_path

PLACES = {
    "active_learning": "active_learning:EXPERIMENT",
    "cifar_dropout_curves": "cifar_dropout_curves:EXPERIMENT",
    "co2_mc_dropout": "mc_dropout:CO2",
    "complexity": "timing:SIZES",
    "gradient_variance": "local_reparameterization:VARIANCE",
    "image_classification": "images.classification:EXPERIMENT",
    "image_classification_colour": "images.colour:EXPERIMENT",
    "lrt_speed": "local_reparameterization:SPEED",
    "mnist_dropout_curves": "mnist_dropout_curves:EXPERIMENT",
    "referral": "referral:EXPERIMENT",
    "rotated_digit": "mc_dropout:DIGIT",
    "sparse_lenet": "sparse_lenet:EXPERIMENT",
    "time_per_step": "timing:STEPS",
    "uci": "uci.experiment:EXPERIMENT",
    "uci_under_shift": "uci.shift_report:EXPERIMENT",
}
"""Each name has a file of records and the experiment, in a module here, that measures them."""


@validation.typechecked
def load(name: str) -> Experiment:
    """The experiment called ``name``; ValueError if there is none, with those there are."""
    validation.one_of("name", name, PLACES)
    return pkgutil.resolve_name(f"{__name__}.{PLACES[name]}")
