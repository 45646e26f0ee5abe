"""The registry of methods: every posterior, how its layers are made, and the tables it stands in.

A new layer enters here, once. The experiments on UCI sets, on images and on speed take the rows
that have their tag, and so do the tests of what all layers have in common.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from bdl_lessons import models
from bdl_lessons.models import LayerFactory, StructuredDropout, VariationalDropout
from bdl_lessons.probability import kingma_kl, loguniform_kl
from reproductions.posteriors.matrix import ELRG, VMG
from reproductions.posteriors.mnf import MNF

TAGS = {
    "layer": "the tests of what all layers have in common run on it",
    "plain": "its layers have no noise",
    "unit": "its noise multiplies units; on images the first layer, on the pixels, has none",
    "log_alpha": "its noise is learned, as a log alpha",
    "shared": "a training step draws the weights once for its minibatch",
    "ensemble": "several networks predict together",
    "uci": "a row of the UCI tables: new trials, which the page counts, so run `report`",
    "images": "a row of the tables on images, with its trials in `images/classification.py`",
    "bench": "timed by `bench`",
    "steps": "timed in `time_per_step`, whose records are then made again",
    "complexity": "measured in `complexity`",
}
"""What a tag says of a method."""


@dataclass(frozen=True)
class Method:
    """One posterior, under a name of its own in the registry."""

    name: str
    factory: Callable[..., LayerFactory]
    """Settings, by keyword and all with a default, to the layers."""
    tags: Mapping[str, str]
    """Each of ``TAGS`` that holds, with the name there, by which records are found."""

    def layers(self, settings: Mapping[str, Any] | None = None) -> LayerFactory:
        """The layers, with those of the ``settings`` of a trial that this method has."""
        settings = dict(settings or {})
        if "p_drop" in settings:
            settings["init_p_drop"] = settings["p_drop"]  # where the noise is learned
        known = inspect.signature(self.factory).parameters
        return self.factory(**{name: settings[name] for name in known if name in settings})


def tagged(tag: str) -> dict[str, Method]:
    """The methods with a tag, by the name that they have there, in the order of the registry."""
    return {method.tags[tag]: method for method in METHODS if tag in method.tags}


def _row(name: str, tags: str, factory: Callable[..., LayerFactory], **names: str) -> Method:
    """``tags`` under which it has its own name, with spaces between; ``names``: tag -> name."""
    return Method(name, factory, dict.fromkeys(tags.split(), name) | names)


def _without_noise(prior_precision: float = 1.0) -> LayerFactory:
    return models.Deterministic(prior_precision**0.5)


_VD = VariationalDropout
_MCD = models.BinaryDropout
_SPARSE = models.SparseVD
_PER_UNIT = partial(_VD, "A", "unit")
_VSD = partial(StructuredDropout, kl_per="weight")
_LOW = partial(_VSD, 2, "fc_lowrank")
_GAMMA = partial(models.HierarchicalDropout, _PER_UNIT(), models.GammaScale())
_IN_PAPER = {T: dict.fromkeys(("images", "steps"), f"VSD T={T}") for T in (1, 2)}
_CHAIN = {"steps": "VSD T=2, fc", "complexity": "VSD"}

METHODS = (
    _row("MAP", "layer plain uci images steps complexity", _without_noise),
    _row("D.E", "plain ensemble uci images", _without_noise),
    _row("SWAG", "plain images", _without_noise),
    _row("SLANG", "plain images", _without_noise),
    _row("MCD", "layer unit images steps", partial(_MCD, p_drop=0.5)),
    _row("MCD, wide prior", "layer unit", partial(_MCD, p_drop=0.3, length_scale=1e-2), uci="MCD"),
    _row("concrete dropout", "layer log_alpha", partial(models.ConcreteDropout, 0.3)),
    _row("Gaussian A", "layer unit bench", partial(models.GaussianDropout, 0.5, "A")),
    _row("Gaussian B", "layer bench", partial(models.GaussianDropout, 0.5, "B")),
    _row("VD A, per layer", "layer log_alpha unit bench", partial(_VD, "A")),
    _row("VD A, per unit", "log_alpha unit bench", _PER_UNIT),
    _row("VD, Kingma's cubic", "layer log_alpha unit", partial(_PER_UNIT, kl=kingma_kl), uci="VD"),
    _row("VD", "layer log_alpha unit images steps complexity", partial(_PER_UNIT, kl_per="weight")),
    _row("VD B, per layer", "layer log_alpha bench", partial(_VD, "B")),
    _row("VD B, per unit", "layer log_alpha", partial(_VD, "B", "unit")),
    _row("VD B, per weight", "layer log_alpha bench", partial(_VD, "B", "weight")),
    _row("BBB", "shared uci images complexity", models.BayesByBackprop),
    _row("BBB-LRT", "layer log_alpha uci images steps complexity bench", models.BayesByBackprop),
    _row("sparse VD", "layer log_alpha bench", _SPARSE),
    _row("sparse VD, exact", "layer log_alpha", partial(_SPARSE, weight_kl=loguniform_kl)),
    _row("sparse VD, threshold", "layer log_alpha", partial(_SPARSE, threshold=3.0)),
    _row("sparse VD, clamp", "layer log_alpha", partial(_SPARSE, log_alpha_clamp=(-8.0, 8.0))),
    _row("ARD", "layer log_alpha bench", models.ARD),
    _row("VMG", "layer uci images complexity", VMG),
    _row("ELRG", "layer uci images complexity", ELRG),
    _row("MNF", "images steps", MNF),
    _row("MNF, narrow flows", "layer", partial(MNF, widths=(20, 40)), uci="MNF"),
    _row("VSD, T = 0", "layer log_alpha unit uci bench", partial(_VSD, 0), images="VSD T=0"),
    _row("VSD, T = 1", "log_alpha unit uci bench", partial(_VSD, 1), **_IN_PAPER[1]),
    _row("VSD, T = 2", "layer log_alpha unit bench", partial(_VSD, 2), uci="VSD", **_IN_PAPER[2]),
    _row("VSD, T = 5", "log_alpha unit bench", partial(_VSD, 5)),
    _row("VSD, T = 1, fc", "", partial(_VSD, 1, "fc", 8), steps="VSD T=1, fc"),
    _row("VSD, T = 2, fc", "layer log_alpha unit bench", partial(_VSD, 2, "fc", 8), **_CHAIN),
    _row("VSD, T = 2, fc_lowrank", "unit bench", partial(_LOW, rank=8), complexity="VSD-low rank"),
    _row("VSD, T = 2, fc_lowrank, rank 2", "layer log_alpha unit", partial(_LOW, rank=2)),
    _row("VSD, free vectors", "complexity", partial(_VSD, n_reflections=2)),
    _row("VSD, log-uniform", "layer log_alpha unit", partial(_VSD, 2, prior="log_uniform")),
    _row("hierarchical VSD", "layer log_alpha unit", partial(models.HierarchicalDropout, _VSD(2))),
    _row("hierarchical VD, Gamma", "layer log_alpha unit", _GAMMA),
)
"""Every posterior. Their order is that of tables in which they stand."""
