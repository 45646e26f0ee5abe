"""The rows of the UCI tables. Another posterior is one more entry of ``METHODS``."""

from __future__ import annotations

from functools import partial

from bdl_lessons.experiments.posteriors.elrg import ELRG
from bdl_lessons.experiments.posteriors.mnf import MNF
from bdl_lessons.experiments.posteriors.vmg import VMG
from bdl_lessons.experiments.uci.baselines import ExactGP, Slang, Swag
from bdl_lessons.experiments.uci.networks import Networks, Point
from bdl_lessons.models import (
    BayesByBackprop,
    BinaryDropout,
    Deterministic,
    StructuredDropout,
    VariationalDropout,
)
from bdl_lessons.probability import kingma_kl

KL_WEIGHTS = (1.0, 0.1, 0.01, 1e-3, 1e-4)
"""Factors on the KL where the data term is half the squared error of standardised targets."""


def _any_weight() -> tuple[Point, ...]:
    return tuple({"kl_weight": weight} for weight in KL_WEIGHTS)


def _plain() -> BinaryDropout:
    return Deterministic()


def _mc_dropout(p_drop: float) -> BinaryDropout:
    return BinaryDropout(p_drop, length_scale=1e-2)


def _variational_dropout() -> VariationalDropout:
    return VariationalDropout("A", alpha_per="unit", init_p_drop=0.05, kl=kingma_kl)


def _structured_dropout(n_reflections: int) -> StructuredDropout:
    return StructuredDropout(n_reflections, "free", init_p_drop=0.05)


def _flows() -> MNF:
    return MNF(widths=(20, 40))


METHODS = {
    "MCD": Networks(
        "MCD",
        _mc_dropout,
        tuple({"kl_weight": 1e-2, "p_drop": p} for p in (0.005, 0.01, 0.05, 0.1)),
        "published grid of drop rates and length scale 0.01: next to no weight decay",
    ),
    "VD": Networks(
        "VD",
        _variational_dropout,
        _any_weight(),
        "one alpha an input unit, at most 1, from p_drop = 0.05; Kingma's cubic, once a unit",
    ),
    "VSD": Networks(
        "VSD",
        partial(_structured_dropout, 2),
        _any_weight(),
        "two reflections, free vectors; alpha between 0.0001 and 1, from p_drop = 0.05; the "
        "empirical-Bayes KL with its factor Q / 2",
    ),
    "BBB": Networks(
        "BBB",
        BayesByBackprop,
        _any_weight(),
        "one draw of the weights for each minibatch; prior N(0, 1)",
        sampling="shared",
    ),
    "D.E": Networks(
        "D.E",
        _plain,
        _any_weight(),
        "five MAP networks that share a tau; published: each predicts a mean and a variance",
        n_networks=5,
    ),
    "VSD, T = 1": Networks(
        None, partial(_structured_dropout, 1), _any_weight(), "VSD with one reflection"
    ),
    "VMG": Networks(
        "VMG", VMG, _any_weight(), "five pseudo-points; fixed prior, no Gamma laws of precisions"
    ),
    "SWAG": Swag(None, _any_weight(), "SGD with momentum 0.9; 20 deviations and a diagonal"),
    "SLANG": Slang(
        "SLANG",
        _any_weight(),
        "rank 5, two draws in a step; the first half of the steps is Adam's, to the MAP weights",
    ),
    "GP": ExactGP(
        None,
        ({"kl_weight": 1.0},),
        "exact, squared exponential with a length scale for each feature, fitted by evidence",
    ),
    "ELRG": Networks(None, ELRG, _any_weight(), "rank 5, fixed diagonal, prior variance 1 / K"),
    "MAP": Networks(None, _plain, _any_weight(), "one network; prior N(0, 1)"),
    "BBB-LRT": Networks(
        None, BayesByBackprop, _any_weight(), "BBB with the local reparameterization trick"
    ),
    "MNF": Networks("MNF", _flows, _any_weight(), "two flow steps of width 20 and 40"),
}
