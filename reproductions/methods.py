"""The registry of methods: every posterior, how its layers are made, and the tables it stands in.

A new layer enters here, once. The experiments on UCI sets, on images and on speed take the rows
that have a name in their table, and the tests of what all layers have in common those that ask for
them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from bdl_lessons import models
from bdl_lessons.models import (
    BayesByBackprop,
    BinaryDropout,
    Deterministic,
    GaussianDropout,
    GaussianDropoutB,
    HierarchicalDropout,
    Sampling,
    SparseVD,
    StochasticLayer,
    StructuredDropout,
    UnitNoise,
    VariationalDropout,
    VariationalDropoutB,
    gamma_scale_kl,
)
from bdl_lessons.probability import kingma_kl, loguniform_kl
from reproductions.posteriors.chained_vectors import ChainedVectors
from reproductions.posteriors.elrg import ELRG
from reproductions.posteriors.full_covariance import FullCovarianceDropout
from reproductions.posteriors.mnf import MNF
from reproductions.posteriors.vector_starts import FrozenVectors, NearIdentity
from reproductions.posteriors.vmg import VMG
from reproductions.uci.training import (
    Point,
    Predict,
    Task,
    exact_gp,
    networks,
    slang,
    swag,
)

KL_WEIGHTS = (100.0, 10.0, 1.0, 0.1, 0.01, 1e-3, 1e-4, 1e-5, 1e-6)
"""Factors on the KL where the data term is half the squared error of standardised targets."""
RATES = (1e-6, 1e-5, 1e-4, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.1, 0.2, 0.3)

Table = Literal["uci", "images", "steps", "complexity"]


@dataclass(frozen=True)
class Method:
    """One posterior, under a name of its own in the registry.

    A table calls it by the name in the field of the table, by which records are found; ``""``: it
    does not stand there.
    """

    name: str
    layer: Callable[..., StochasticLayer] | None = None
    """``layer(inner)`` with settings by keyword; None where there are no layers."""
    settings: tuple[str, ...] = ()
    """Arguments of ``layer`` that a trial may set."""
    sampling: Sampling = "per_example"
    """How a training step draws the weights."""
    n_networks: int = 1
    """Of a UCI table, that predict together."""
    common_tests: bool = False
    """Whether the tests of what all layers have in common run on it."""
    learns_alpha: bool = False
    """Whether its noise is learned, as a log alpha."""
    bench: bool = False
    """Whether ``bench`` times it."""
    steps: str = ""
    """In ``time_per_step``, whose records are made again if a row comes in."""
    complexity: str = ""
    """In ``complexity``."""
    images: str = ""
    """In the tables on images, with its trials in ``images/classification.py``."""
    uci: str = ""
    """In the UCI tables: new trials, which the page counts, so run ``report``."""
    uci_turn: int = 100
    """The trials of the UCI tables are run in this order."""
    uci_grid: tuple[Point, ...] = tuple({"kl_weight": weight} for weight in KL_WEIGHTS)
    """What is tried on validation rows."""
    uci_training: Callable[["Method", Task], Predict] = networks

    @property
    def layer_class(self) -> type[StochasticLayer]:
        """The class of its layers, without the settings that the row gives."""
        layer = self.layer
        while isinstance(layer, partial):
            layer = layer.func
        return layer

    @property
    def is_random(self) -> bool:
        """Whether two draws can differ."""
        return self.layer_class is not Deterministic

    @property
    def has_unit_noise(self) -> bool:
        """Whether its noise multiplies units; on images the pixels get none."""
        return issubclass(self.layer_class, UnitNoise)

    def configured(self, config: Mapping[str, Any]) -> models.Method:
        """What makes layers with those of the entries of ``config`` that are settings.

        Two are called otherwise there: ``init_p_drop`` is ``p_drop``, as where the noise is not
        learned, and ``length_scale`` is the root of ``prior_precision``.
        """
        options = {name: config[name] for name in self.settings if name in config}
        if "init_p_drop" in self.settings and "p_drop" in config:
            options["init_p_drop"] = config["p_drop"]
        if "length_scale" in self.settings and "prior_precision" in config:
            options["length_scale"] = config["prior_precision"] ** 0.5
        return partial(self.layer, **options)

    def train_uci(self, task: Task) -> Predict:
        """Train for all points and splits of ``task``."""
        return self.uci_training(self, task)


def in_table(table: Table) -> dict[str, Method]:
    """The methods of a table by the names that they have there, in the order of its rows."""
    rows = [method for method in METHODS if getattr(method, table)]
    if table == "uci":
        rows.sort(key=lambda method: method.uci_turn)
    return {getattr(method, table): method for method in rows}


_PER_UNIT = partial(VariationalDropout, alpha_per="unit")
_VSD = partial(StructuredDropout, kl_per="weight")
_CHAIN = partial(ChainedVectors, kl_per="weight")
_VSD_GRID = tuple({"kl_weight": weight, "min_alpha": 1e-9} for weight in KL_WEIGHTS)
"""On Naval the default bound on alpha, 1e-4, and a rate of 0.0005 are too much noise."""
NOISE_SETTINGS = ("init_p_drop", "min_alpha", "alpha_spread")
"""What a trial may set of noise that is structured dropout's, or is compared with it."""

METHODS = (
    Method(
        "MAP",
        Deterministic,
        settings=("length_scale",),
        common_tests=True,
        steps="MAP",
        complexity="MAP",
        images="MAP",
        uci="MAP",
        uci_turn=13,
    ),
    Method(
        "D.E",
        Deterministic,
        settings=("length_scale",),
        n_networks=5,
        images="D.E",
        uci="D.E",
        uci_turn=5,
    ),
    Method(
        "SWAG",
        Deterministic,
        settings=("length_scale",),
        images="SWAG",
        uci="SWAG",
        uci_turn=9,
        uci_training=swag,
    ),
    Method(
        "SLANG",
        Deterministic,
        settings=("length_scale",),
        images="SLANG",
        uci="SLANG",
        uci_turn=10,
        uci_training=slang,
    ),
    Method(
        "GP",
        uci="GP",
        uci_turn=11,
        uci_grid=({"kl_weight": 1.0},),
        uci_training=exact_gp,
    ),
    Method(
        "MCD",
        partial(BinaryDropout, p_drop=0.5),
        settings=("p_drop",),
        common_tests=True,
        steps="MCD",
        images="MCD",
    ),
    Method(
        "MCD, wide prior",
        partial(BinaryDropout, p_drop=0.3, length_scale=0.01),
        settings=("p_drop",),
        common_tests=True,
        uci="MCD",
        uci_turn=1,
        uci_grid=tuple({"kl_weight": 1e-2, "p_drop": rate} for rate in RATES),
    ),
    Method(
        "concrete dropout",
        partial(models.ConcreteDropout, init_p_drop=0.3),
        common_tests=True,
        learns_alpha=True,
    ),
    Method(
        "Gaussian A",
        partial(GaussianDropout, p_drop=0.5),
        common_tests=True,
        bench=True,
    ),
    Method(
        "Gaussian B",
        partial(GaussianDropoutB, p_drop=0.5),
        common_tests=True,
        bench=True,
    ),
    Method(
        "VD A, per layer",
        VariationalDropout,
        common_tests=True,
        learns_alpha=True,
        bench=True,
    ),
    Method(
        "VD A, per unit",
        _PER_UNIT,
        learns_alpha=True,
        bench=True,
    ),
    Method(
        "VD, Kingma's cubic",
        partial(_PER_UNIT, kl=kingma_kl),
        settings=("init_p_drop",),
        common_tests=True,
        learns_alpha=True,
        uci="VD",
        uci_turn=2,
    ),
    Method(
        "VD",
        partial(_PER_UNIT, kl_per="weight"),
        settings=("init_p_drop",),
        common_tests=True,
        learns_alpha=True,
        steps="VD",
        complexity="VD",
        images="VD",
    ),
    Method(
        "VD B, per layer",
        VariationalDropoutB,
        common_tests=True,
        learns_alpha=True,
        bench=True,
    ),
    Method(
        "VD B, per unit",
        partial(VariationalDropoutB, alpha_per="unit"),
        common_tests=True,
        learns_alpha=True,
    ),
    Method(
        "VD B, per weight",
        partial(VariationalDropoutB, alpha_per="weight"),
        common_tests=True,
        learns_alpha=True,
        bench=True,
    ),
    Method(
        "BBB",
        BayesByBackprop,
        settings=("prior_var", "init_log_sigma2"),
        sampling="shared",
        complexity="BBB",
        images="BBB",
        uci="BBB",
        uci_turn=4,
    ),
    Method(
        "BBB-LRT",
        BayesByBackprop,
        settings=("prior_var", "init_log_sigma2"),
        common_tests=True,
        learns_alpha=True,
        bench=True,
        steps="BBB-LRT",
        complexity="BBB-LRT",
        images="BBB-LRT",
        uci="BBB-LRT",
        uci_turn=14,
    ),
    Method(
        "sparse VD",
        SparseVD,
        common_tests=True,
        learns_alpha=True,
        bench=True,
    ),
    Method(
        "sparse VD, exact",
        partial(SparseVD, weight_kl=loguniform_kl),
        common_tests=True,
        learns_alpha=True,
    ),
    Method(
        "sparse VD, threshold",
        partial(SparseVD, threshold=3.0),
        common_tests=True,
        learns_alpha=True,
    ),
    Method(
        "sparse VD, clamp",
        partial(SparseVD, log_alpha_clamp=(-8.0, 8.0)),
        common_tests=True,
        learns_alpha=True,
    ),
    Method(
        "ARD",
        models.ARD,
        common_tests=True,
        learns_alpha=True,
        bench=True,
    ),
    Method(
        "VMG",
        VMG,
        settings=("n_pseudo",),
        common_tests=True,
        complexity="VMG",
        images="VMG",
        uci="VMG",
        uci_turn=8,
    ),
    Method(
        "ELRG",
        ELRG,
        settings=("rank",),
        common_tests=True,
        complexity="ELRG",
        images="ELRG",
        uci="ELRG",
        uci_turn=12,
    ),
    Method(
        "MNF",
        MNF,
        settings=("n_flows", "z_mean"),
        steps="MNF",
        images="MNF",
    ),
    Method(
        "MNF, narrow flows",
        partial(MNF, widths=(20, 40)),
        settings=("n_flows", "z_mean"),
        common_tests=True,
        uci="MNF",
        uci_turn=15,
    ),
    Method(
        "VSD, T = 0",
        partial(_VSD, n_reflections=0),
        settings=NOISE_SETTINGS,
        common_tests=True,
        learns_alpha=True,
        bench=True,
        images="VSD T=0",
        uci="VSD, T = 0",
        uci_turn=6,
        uci_grid=_VSD_GRID,
    ),
    Method(
        "VSD, T = 1",
        partial(_VSD, n_reflections=1),
        settings=NOISE_SETTINGS,
        learns_alpha=True,
        bench=True,
        steps="VSD T=1",
        images="VSD T=1",
        uci="VSD, T = 1",
        uci_turn=7,
        uci_grid=_VSD_GRID,
    ),
    Method(
        "VSD, T = 2",
        partial(_VSD, n_reflections=2),
        settings=NOISE_SETTINGS,
        common_tests=True,
        learns_alpha=True,
        bench=True,
        steps="VSD T=2",
        images="VSD T=2",
        uci="VSD",
        uci_turn=3,
        uci_grid=_VSD_GRID,
    ),
    Method(
        "VSD, T = 5",
        partial(_VSD, n_reflections=5),
        learns_alpha=True,
        bench=True,
    ),
    Method(
        "VSD, T = 1, fc",
        partial(_CHAIN, n_reflections=1),
        steps="VSD T=1, fc",
    ),
    Method(
        "VSD, T = 2, fc",
        partial(_CHAIN, n_reflections=2),
        settings=NOISE_SETTINGS,
        common_tests=True,
        learns_alpha=True,
        bench=True,
        steps="VSD T=2, fc",
        complexity="VSD",
        uci_grid=_VSD_GRID,
    ),
    Method(
        "VSD, T = 2, fc_lowrank",
        partial(_CHAIN, n_reflections=2, rank=8),
        settings=("rank",),
        bench=True,
        complexity="VSD-low rank",
    ),
    Method(
        "VSD, T = 2, fc_lowrank, rank 2",
        partial(_CHAIN, n_reflections=2, rank=2),
        common_tests=True,
        learns_alpha=True,
    ),
    Method(
        "VSD, free vectors",
        _VSD,
        settings=("n_reflections",),
        complexity="VSD, free vectors",
    ),
    Method(
        "VSD, log-uniform",
        partial(_VSD, prior="log_uniform"),
        common_tests=True,
        learns_alpha=True,
    ),
    Method(
        "hierarchical VSD",
        partial(HierarchicalDropout, kl_per="weight"),
        common_tests=True,
        learns_alpha=True,
    ),
    Method(
        "hierarchical VD, Gamma",
        partial(
            HierarchicalDropout,
            scale_kl=gamma_scale_kl,
            n_reflections=0,
            init_p_drop=0.5,
            alpha_spread=0.0,
            prior="log_uniform",
        ),
        common_tests=True,
        learns_alpha=True,
    ),
    Method(
        "full covariance",
        FullCovarianceDropout,
        settings=NOISE_SETTINGS,
        common_tests=True,
        learns_alpha=True,
        uci_grid=_VSD_GRID,
    ),
    Method(
        "VSD, T = 2, frozen",
        partial(FrozenVectors, kl_per="weight", n_reflections=2),
        settings=NOISE_SETTINGS,
        uci_grid=_VSD_GRID,
    ),
    Method(
        "VSD, T = 8, frozen",
        partial(FrozenVectors, kl_per="weight", n_reflections=8),
        settings=NOISE_SETTINGS,
        uci_grid=_VSD_GRID,
    ),
    Method(
        "VSD, T = 8",
        partial(_VSD, n_reflections=8),
        settings=NOISE_SETTINGS,
        uci_grid=_VSD_GRID,
    ),
    Method(
        "VSD, T = 50",
        partial(_VSD, n_reflections=50),
        settings=NOISE_SETTINGS,
        uci_grid=_VSD_GRID,
    ),
    Method(
        "VSD, T = 2, near the identity",
        partial(NearIdentity, kl_per="weight", n_reflections=2),
        settings=NOISE_SETTINGS,
        uci_grid=_VSD_GRID,
    ),
    Method(
        "VSD, T = 8, near the identity",
        partial(NearIdentity, kl_per="weight", n_reflections=8),
        settings=NOISE_SETTINGS,
        uci_grid=_VSD_GRID,
    ),
    Method(
        "VSD, T = 8, near the axes",
        partial(NearIdentity, kl_per="weight", n_reflections=8, start="coordinates"),
        settings=NOISE_SETTINGS,
        uci_grid=_VSD_GRID,
    ),
)
"""Every posterior. Their order is that of the tables in which they stand, but for UCI."""
