"""The rows of the UCI tables. Another posterior is one more entry of ``METHODS``."""

from __future__ import annotations

from functools import partial

from bdl_lessons.models import (
    BayesByBackprop,
    BinaryDropout,
    Deterministic,
    StructuredDropout,
    VariationalDropout,
)
from bdl_lessons.probability import kingma_kl
from reproductions.posteriors.elrg import ELRG
from reproductions.posteriors.mnf import MNF
from reproductions.posteriors.vmg import VMG
from reproductions.uci.baselines import ExactGP, Slang, Swag
from reproductions.uci.networks import Method, Networks

_MC_DROPOUT = tuple({"kl_weight": 1e-2, "p_drop": p} for p in (0.005, 0.01, 0.05, 0.1))

METHODS: dict[str, Method] = {
    "MCD": Networks(
        "published grid of drop rates and length scale 0.01: next to no weight decay",
        _MC_DROPOUT,
        factory=partial(BinaryDropout, length_scale=1e-2),
    ),
    "VD": Networks(
        "one alpha an input unit, at most 1, from p_drop = 0.05; Kingma's cubic, once a unit",
        factory=partial(VariationalDropout, "A", "unit", init_p_drop=0.05, kl=kingma_kl),
    ),
    "VSD": Networks(
        "two reflections, free vectors; alpha between 0.0001 and 1, from p_drop = 0.05; the "
        "empirical-Bayes KL with its factor Q / 2",
        factory=partial(StructuredDropout, 2, init_p_drop=0.05),
    ),
    "BBB": Networks(
        "one draw of the weights for each minibatch; prior N(0, 1)",
        factory=BayesByBackprop,
        sampling="shared",
    ),
    "D.E": Networks(
        "five MAP networks that share a tau; published: each predicts a mean and a variance",
        factory=Deterministic,
        n_networks=5,
    ),
    "VSD, T = 0": Networks(
        "VSD without reflections: the same KL and counting, independent noise",
        factory=partial(StructuredDropout, 0, init_p_drop=0.05),
    ),
    "VSD, T = 1": Networks(
        "VSD with one reflection", factory=partial(StructuredDropout, 1, init_p_drop=0.05)
    ),
    "VMG": Networks(
        "five pseudo-points; fixed prior, no Gamma distributions of precisions", factory=VMG
    ),
    "SWAG": Swag("SGD with momentum 0.9; 20 deviations and a diagonal"),
    "SLANG": Slang(
        "rank 5, two draws in a step; the first half of the steps is Adam's, to the MAP weights"
    ),
    "GP": ExactGP(
        "exact, squared exponential with a length scale for each feature, fitted by evidence",
        ({"kl_weight": 1.0},),
    ),
    "ELRG": Networks("rank 5, fixed diagonal, prior variance 1 / K", factory=ELRG),
    "MAP": Networks("one network; prior N(0, 1)", factory=Deterministic),
    "BBB-LRT": Networks("BBB with the local reparameterization trick", factory=BayesByBackprop),
    "MNF": Networks("two flow steps of width 20 and 40", factory=partial(MNF, widths=(20, 40))),
}
