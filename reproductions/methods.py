"""The registry of methods: every posterior, how its layers are made, and the tables it stands in.

A new layer enters here, once. The experiments on UCI sets, on images and on speed take the rows
that have their tag, and so do the tests of what all layers have in common.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from bdl_lessons.models import (
    ARD,
    BayesByBackprop,
    BinaryDropout,
    ConcreteDropout,
    Deterministic,
    GammaScale,
    GaussianDropout,
    HierarchicalDropout,
    LayerFactory,
    SparseVD,
    StructuredDropout,
    VariationalDropout,
)
from bdl_lessons.probability import kingma_kl, loguniform_kl
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
    "uci": "a row of the UCI tables",
    "images": "a row of the tables on images",
    "independent": "timed by `bench`, noise without structure",
    "structured": "timed by `bench`, noise with structure and what it is compared with",
    "steps": "timed in `time_per_step`",
    "complexity": "measured in `complexity`",
}
"""What a tag says of a method."""


@dataclass(frozen=True)
class Method:
    """One posterior.

    Args:
        name: a name of its own in the registry.
        factory: settings, by keyword and all with a default, to the layers.
        note: what it is, in a line.
        tags: each of ``TAGS`` that holds, with the name that the method has there. Records are
            found by these names: they do not change.
    """

    name: str
    factory: Callable[..., LayerFactory]
    note: str
    tags: Mapping[str, str]

    def layers(self, settings: Mapping[str, Any] | None = None) -> LayerFactory:
        """The layers, with those of the ``settings`` of a trial that this method has."""
        settings = settings or {}
        known = inspect.signature(self.factory).parameters
        return self.factory(**{name: settings[name] for name in known if name in settings})


def tagged(tag: str) -> dict[str, Method]:
    """The methods with a tag, by the name that they have there, in the order of the registry.

    Raises:
        ValueError: if there is no such tag.
    """
    if tag not in TAGS:
        raise ValueError(f"tag must be one of {', '.join(TAGS)}, got {tag!r}")
    return {method.tags[tag]: method for method in METHODS if tag in method.tags}


def _method(
    name: str, factory: Callable[..., LayerFactory], note: str, tags: str, **names: str
) -> Method:
    """``tags`` under which it has its own name, with spaces between; ``names``: tag -> name."""
    return Method(name, factory, note, dict.fromkeys(tags.split(), name) | names)


def _without_noise(prior_precision: float = 1.0) -> LayerFactory:
    return Deterministic(prior_precision**0.5)


def _vd(p_drop: float = 0.5, **settings: Any) -> LayerFactory:
    return VariationalDropout("A", "unit", init_p_drop=p_drop, **settings)


def _vsd(n_reflections: int, vectors: str = "free") -> Callable[..., LayerFactory]:
    def layers(p_drop: float = 0.2) -> LayerFactory:
        return StructuredDropout(n_reflections, vectors, init_p_drop=p_drop, kl_per="weight")

    return layers


METHODS = (
    _method(
        "MAP",
        _without_noise,
        "one network; prior N(0, 1)",
        "layer plain uci images steps complexity",
    ),
    _method(
        "D.E",
        _without_noise,
        "five MAP networks that share a tau; published: each predicts a mean and a variance",
        "plain ensemble uci images",
    ),
    _method("SWAG", _without_noise, "goes on from MAP by descent with momentum", "plain images"),
    _method("SLANG", _without_noise, "goes on from MAP by natural gradients", "plain images"),
    _method("MCD", partial(BinaryDropout, p_drop=0.5), "masks of zeros", "layer unit images steps"),
    _method(
        "MCD, length scale 0.01",
        partial(BinaryDropout, p_drop=0.3, length_scale=1e-2),
        "published grid of drop rates and length scale 0.01: next to no weight decay",
        "layer unit",
        uci="MCD",
    ),
    _method("concrete dropout", partial(ConcreteDropout, 0.3), "learned rate", "layer log_alpha"),
    _method("Gaussian A", partial(GaussianDropout, 0.5, "A"), "on units", "layer unit independent"),
    _method("Gaussian B", partial(GaussianDropout, 0.5, "B"), "on weights", "layer independent"),
    _method(
        "VD A, per layer",
        partial(VariationalDropout, "A"),
        "log-uniform prior",
        "layer log_alpha unit independent",
    ),
    _method(
        "VD A, per unit", _vd, "log-uniform prior, its KL once a unit", "log_alpha unit structured"
    ),
    _method(
        "VD, Kingma's cubic",
        partial(_vd, kl=kingma_kl),
        "one alpha an input unit, at most 1, from p_drop = 0.05; Kingma's cubic, once a unit",
        "layer log_alpha unit",
        uci="VD",
    ),
    _method(
        "VD",
        partial(_vd, kl_per="weight"),
        "one alpha an input unit; the KL of every weight",
        "layer log_alpha unit images steps complexity",
    ),
    _method(
        "VD B, per layer",
        partial(VariationalDropout, "B"),
        "log-uniform prior",
        "layer log_alpha independent",
    ),
    _method(
        "VD B, per unit",
        partial(VariationalDropout, "B", "unit"),
        "log-uniform prior",
        "layer log_alpha",
    ),
    _method(
        "VD B, per weight",
        partial(VariationalDropout, "B", "weight"),
        "log-uniform prior",
        "layer log_alpha independent",
    ),
    _method(
        "BBB",
        BayesByBackprop,
        "one draw of the weights for each minibatch; prior N(0, 1)",
        "shared uci images complexity",
    ),
    _method(
        "BBB-LRT",
        BayesByBackprop,
        "BBB with the local reparameterization trick",
        "layer log_alpha uci images steps complexity independent",
    ),
    _method(
        "sparse VD",
        SparseVD,
        "log-uniform prior, Molchanov's approximation",
        "layer log_alpha independent",
    ),
    _method(
        "sparse VD, exact",
        partial(SparseVD, weight_kl=loguniform_kl),
        "the exact KL",
        "layer log_alpha",
    ),
    _method(
        "sparse VD, threshold",
        partial(SparseVD, threshold=3.0),
        "pruned as it runs",
        "layer log_alpha",
    ),
    _method(
        "sparse VD, clamp",
        partial(SparseVD, log_alpha_clamp=(-8.0, 8.0)),
        "a bounded log alpha",
        "layer log_alpha",
    ),
    _method("ARD", ARD, "empirical Bayes for each weight", "layer log_alpha independent"),
    _method(
        "VMG",
        VMG,
        "five pseudo-points; fixed prior, no Gamma distributions of precisions",
        "layer uci images complexity",
    ),
    _method("VMG, m = 0", partial(VMG, n_pseudo=0), "the plain matrix Gaussian", "layer"),
    _method(
        "ELRG", ELRG, "rank 5, fixed diagonal, prior variance 1 / K", "layer uci images complexity"
    ),
    _method("MNF", MNF, "two flow steps of width 50 and 100", "images steps"),
    _method(
        "MNF, narrow flows",
        partial(MNF, widths=(20, 40)),
        "two flow steps of width 20 and 40",
        "layer",
        uci="MNF",
    ),
    _method(
        "VSD, T = 0",
        _vsd(0),
        "VSD without reflections: the same KL and counting, independent noise",
        "layer log_alpha unit uci structured",
        images="VSD T=0",
    ),
    _method(
        "VSD, T = 1",
        _vsd(1),
        "VSD with one reflection",
        "log_alpha unit uci structured",
        images="VSD T=1",
        steps="VSD T=1",
    ),
    _method(
        "VSD, T = 2",
        _vsd(2),
        "two reflections, free vectors; alpha between 0.0001 and 1, from p_drop = 0.05; the "
        "empirical-Bayes KL with its factor Q / 2",
        "layer log_alpha unit structured",
        uci="VSD",
        images="VSD T=2",
        steps="VSD T=2",
    ),
    _method("VSD, T = 5", _vsd(5), "five reflections", "log_alpha unit structured"),
    _method("VSD, T = 1, fc", _vsd(1, "fc"), "the published map", "", steps="VSD T=1, fc"),
    _method(
        "VSD, T = 2, fc",
        _vsd(2, "fc"),
        "the published chain of maps",
        "layer log_alpha unit structured",
        steps="VSD T=2, fc",
        complexity="VSD",
    ),
    _method(
        "VSD, T = 2, fc_lowrank",
        partial(StructuredDropout, 2, "fc_lowrank", rank=8, kl_per="weight"),
        "the published chain with maps of low rank",
        "unit structured",
        complexity="VSD-low rank",
    ),
    _method(
        "VSD, T = 2, fc_lowrank, rank 2",
        partial(StructuredDropout, 2, "fc_lowrank", rank=2, kl_per="weight"),
        "the same, of a rank below the widths of small tests",
        "layer log_alpha unit",
    ),
    _method(
        "VSD, free vectors",
        partial(StructuredDropout, n_reflections=2, kl_per="weight"),
        "as many reflections as are asked for",
        "complexity",
    ),
    _method(
        "VSD, log-uniform",
        partial(StructuredDropout, 2, prior="log_uniform", kl_per="weight"),
        "the prior of variational dropout",
        "layer log_alpha unit",
    ),
    _method(
        "hierarchical VSD",
        partial(HierarchicalDropout, StructuredDropout(2, kl_per="weight")),
        "a random scale for each unit",
        "layer log_alpha unit",
    ),
    _method(
        "hierarchical VD, Gamma",
        partial(HierarchicalDropout, VariationalDropout("A", "unit"), GammaScale()),
        "a random scale for each unit, Gamma prior",
        "layer log_alpha unit",
    ),
)
"""Every posterior. Their order is that of tables in which they stand."""
