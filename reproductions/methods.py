"""The registry of methods: every posterior, how its layers are made, and the tables it stands in.

A new layer enters here, once. The experiments on UCI sets, on images and on speed take the rows
that have their tag, and so do the tests of what all layers have in common.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import nn

from bdl_lessons import models
from bdl_lessons.models import (
    BayesByBackprop,
    BinaryDropout,
    GaussianDropout,
    GaussianDropoutB,
    HierarchicalDropout,
    SparseVD,
    StochasticLayer,
    StructuredDropout,
    VariationalDropout,
    VariationalDropoutB,
    gamma_scale_kl,
)
from bdl_lessons.probability import kingma_kl, loguniform_kl
from reproductions.posteriors.chained_vectors import ChainedVectors
from reproductions.posteriors.elrg import ELRG
from reproductions.posteriors.mnf import MNF
from reproductions.posteriors.vmg import VMG

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
    layer: Callable[..., StochasticLayer]
    """``layer(inner)`` with settings by keyword, all of which have a default."""
    tags: Mapping[str, str]
    """Each of ``TAGS`` that holds, with the name there, by which records are found."""
    settings: tuple[str, ...] = ()
    """Arguments of ``layer`` that a trial may set."""

    def configured(self, config: Mapping[str, Any]) -> models.Method:
        """What makes layers with those of the entries of ``config`` that are settings.

        ``init_p_drop`` is called ``p_drop`` there, as where the noise is not learned.
        """
        options = {}
        for setting in self.settings:
            entry = "p_drop" if setting == "init_p_drop" else setting
            if entry in config:
                options[setting] = config[entry]
        return partial(self.layer, **options)


def tagged(tag: str) -> dict[str, Method]:
    """The methods with a tag, by the name that they have there, in the order of the registry."""
    return {method.tags[tag]: method for method in METHODS if tag in method.tags}


def _row(
    name: str,
    tags: str,
    layer: Callable[..., StochasticLayer],
    settings: tuple[str, ...] = (),
    **names: str,
) -> Method:
    """``tags`` under which it has its own name, with spaces between; ``names``: tag -> name."""
    return Method(name, layer, dict.fromkeys(tags.split(), name) | names, settings)


def without_noise(inner: nn.Module, prior_precision: float = 1.0) -> models.Deterministic:
    """A layer under the Gaussian prior of this precision."""
    return models.Deterministic(inner, length_scale=prior_precision**0.5)


_PRIOR = ("prior_precision",)
_MASKS = ("p_drop", "length_scale")
_NOISE = ("init_p_drop",)
_GAUSSIAN = ("prior_var", "init_log_sigma2")
_FLOWS = ("n_flows", "z_mean")
_BOUNDED = ("init_p_drop", "min_alpha")
_PER_UNIT = partial(VariationalDropout, alpha_per="unit")
_VSD = partial(StructuredDropout, kl_per="weight")
_CHAIN = partial(ChainedVectors, kl_per="weight")

METHODS = (
    _row("MAP", "layer plain uci images steps complexity", without_noise, _PRIOR),
    _row("D.E", "plain ensemble uci images", without_noise, _PRIOR),
    _row("SWAG", "plain images", without_noise, _PRIOR),
    _row("SLANG", "plain images", without_noise, _PRIOR),
    _row("MCD", "layer unit images steps", partial(BinaryDropout, p_drop=0.5), _MASKS),
    _row(
        "MCD, wide prior",
        "layer unit",
        partial(BinaryDropout, p_drop=0.3, length_scale=1e-2),
        _MASKS,
        uci="MCD",
    ),
    _row("concrete dropout", "layer log_alpha", partial(models.ConcreteDropout, init_p_drop=0.3)),
    _row("Gaussian A", "layer unit bench", partial(GaussianDropout, p_drop=0.5)),
    _row("Gaussian B", "layer bench", partial(GaussianDropoutB, p_drop=0.5)),
    _row("VD A, per layer", "layer log_alpha unit bench", VariationalDropout),
    _row("VD A, per unit", "log_alpha unit bench", _PER_UNIT),
    _row(
        "VD, Kingma's cubic",
        "layer log_alpha unit",
        partial(_PER_UNIT, kl=kingma_kl),
        _NOISE,
        uci="VD",
    ),
    _row(
        "VD",
        "layer log_alpha unit images steps complexity",
        partial(_PER_UNIT, kl_per="weight"),
        _NOISE,
    ),
    _row("VD B, per layer", "layer log_alpha bench", VariationalDropoutB),
    _row("VD B, per unit", "layer log_alpha", partial(VariationalDropoutB, alpha_per="unit")),
    _row(
        "VD B, per weight",
        "layer log_alpha bench",
        partial(VariationalDropoutB, alpha_per="weight"),
    ),
    _row("BBB", "shared uci images complexity", BayesByBackprop, _GAUSSIAN),
    _row(
        "BBB-LRT",
        "layer log_alpha uci images steps complexity bench",
        BayesByBackprop,
        _GAUSSIAN,
    ),
    _row("sparse VD", "layer log_alpha bench", SparseVD),
    _row("sparse VD, exact", "layer log_alpha", partial(SparseVD, weight_kl=loguniform_kl)),
    _row("sparse VD, threshold", "layer log_alpha", partial(SparseVD, threshold=3.0)),
    _row("sparse VD, clamp", "layer log_alpha", partial(SparseVD, log_alpha_clamp=(-8.0, 8.0))),
    _row("ARD", "layer log_alpha bench", models.ARD),
    _row("VMG", "layer uci images complexity", VMG, ("n_pseudo",)),
    _row("ELRG", "layer uci images complexity", ELRG, ("rank",)),
    _row("MNF", "images steps", MNF, _FLOWS),
    _row("MNF, narrow flows", "layer", partial(MNF, widths=(20, 40)), _FLOWS, uci="MNF"),
    _row(
        "VSD, T = 0",
        "layer log_alpha unit uci bench",
        partial(_VSD, n_reflections=0),
        _BOUNDED,
        images="VSD T=0",
    ),
    _row(
        "VSD, T = 1",
        "log_alpha unit uci bench",
        partial(_VSD, n_reflections=1),
        _BOUNDED,
        images="VSD T=1",
        steps="VSD T=1",
    ),
    _row(
        "VSD, T = 2",
        "layer log_alpha unit bench",
        partial(_VSD, n_reflections=2),
        _BOUNDED,
        uci="VSD",
        images="VSD T=2",
        steps="VSD T=2",
    ),
    _row("VSD, T = 5", "log_alpha unit bench", partial(_VSD, n_reflections=5)),
    _row("VSD, T = 1, fc", "", partial(_CHAIN, n_reflections=1), steps="VSD T=1, fc"),
    _row(
        "VSD, T = 2, fc",
        "layer log_alpha unit bench",
        partial(_CHAIN, n_reflections=2),
        steps="VSD T=2, fc",
        complexity="VSD",
    ),
    _row(
        "VSD, T = 2, fc_lowrank",
        "unit bench",
        partial(_CHAIN, n_reflections=2, rank=8),
        ("rank",),
        complexity="VSD-low rank",
    ),
    _row(
        "VSD, T = 2, fc_lowrank, rank 2",
        "layer log_alpha unit",
        partial(_CHAIN, n_reflections=2, rank=2),
    ),
    _row("VSD, free vectors", "complexity", _VSD, ("n_reflections",)),
    _row("VSD, log-uniform", "layer log_alpha unit", partial(_VSD, prior="log_uniform")),
    _row("hierarchical VSD", "layer log_alpha unit", partial(HierarchicalDropout, kl_per="weight")),
    _row(
        "hierarchical VD, Gamma",
        "layer log_alpha unit",
        partial(
            HierarchicalDropout,
            scale_kl=gamma_scale_kl,
            n_reflections=0,
            init_p_drop=0.5,
            alpha_spread=0.0,
            prior="log_uniform",
        ),
    ),
)
"""Every posterior. Their order is that of tables in which they stand."""
