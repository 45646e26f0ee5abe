"""The table of public borders: for each a valid call, from which ``test_borders`` makes bad ones.

A border is a name that a subpackage exports and to which users pass arguments: constructors and
factories, ``fit`` and ``predict``, methods, metrics and scores, loaders. There an argument that
cannot be used is refused with its name. The formulas of ``probability`` and the kernels lie inside:
they look at shapes and hand NaN on.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import reproductions
from bdl_lessons import core, datasets, evaluation, inference, models, reference
from tests.draws import normal as double
from tests.draws import seeded

FUNCTIONS_OF_THE_USER = {"callback", "kl", "scale_kl", "weight_kl"}
NO_SINGLE_VALUE = {"self", "args", "kwargs", "options"}
HANDED_ON = {"batch_shape", "active_dims", "dtype", "device", "nll_args", "folder"}
NOT_VARIED = FUNCTIONS_OF_THE_USER | NO_SINGLE_VALUE | HANDED_ON


@dataclass(frozen=True)
class Border:
    """A public callable, a valid call of it, and what is done with the result.

    Attributes:
        required: makes what has no default, in the order of the signature; new for each call,
            since some are changed in place.
        use: goes on with the result, as a user would, and returns what must be finite.
        instead: values to vary in place of defaults.
        fixed: arguments that are not varied: a function of the user sees them first.
        refused: argument -> values that look right and give no error of their own, or a late one.
        raises: what the border is documented to raise besides.
        may_be_nan: a result with NaN is documented: empty bins, missing methods.
    """

    function: Callable[..., Any]
    required: Callable[[], tuple] = lambda: ()
    use: Callable[[Any], Any] = lambda result: result
    instead: dict[str, Any] = field(default_factory=dict)
    fixed: tuple[str, ...] = ()
    refused: dict[str, tuple] = field(default_factory=dict)
    raises: tuple[type[Exception], ...] = ()
    may_be_nan: bool = False

    def valid(self) -> dict[str, Any]:
        """The arguments of a valid call by their names."""
        defaults = {}
        without_default = []
        for name, parameter in inspect.signature(self.function).parameters.items():
            if name in NOT_VARIED:
                continue
            if parameter.default is parameter.empty:
                without_default.append(name)
            else:
                defaults[name] = parameter.default
        values = self.required()
        assert len(values) == len(without_default), (
            f"{self.function}: a value for each of {without_default}"
        )
        required = dict(zip(without_default, values, strict=True))
        return {**required, **defaults, **self.instead}


def normal(*shape: int) -> Tensor:
    return double(*shape).float()


def log_probs() -> tuple[Tensor]:
    return (normal(6, 3).log_softmax(-1),)


def probs() -> tuple[Tensor, Tensor]:
    return normal(6, 3).softmax(-1), labels(6)


def logits() -> tuple[Tensor]:
    return (normal(4, 5, 3),)


def draws() -> tuple[Tensor, Tensor, float]:
    return normal(4, 5, 1), normal(5, 1), 2.0


def two_outputs() -> tuple[Tensor, Tensor, Tensor]:
    """Draws, targets, and three candidates of the two precisions."""
    taus = torch.tensor([[2.0, 0.5], [1.0, 3.0], [1.0, 1.0]])
    return normal(4, 5, 2), normal(5, 2), taus


def labels(n: int) -> Tensor:
    return torch.arange(n) % 3


def zeros_and_ones(n: int) -> Tensor:
    return (labels(n) % 2).double()


DROPOUT = partial(models.BinaryDropout, p_drop=0.5)


def network(layer: models.Method = DROPOUT) -> models.Network:
    return models.mlp((4, 5, 3), layer)


def sparse_network() -> tuple[models.Network]:
    return (network(models.SparseVD),)


def batched() -> inference.BatchedNetworks:
    return inference.BatchedNetworks([network(), network()])


def outputs_and_kl(layer: models.StochasticLayer) -> list[Tensor]:
    """What a layer with four inputs gives."""
    layer.reset_noise(seeded())
    x = normal(5, 4)
    per_example = layer(x, "per_example", seeded())
    shared = layer(x, "shared", seeded())
    return [per_example, shared, layer.kl()]


def layer_border(layer: type[models.StochasticLayer], **settings: Any) -> Border:
    """The constructor of a method; ``settings`` are what has no default, or in place of one."""
    required_settings = {}
    for name, parameter in inspect.signature(layer).parameters.items():
        if name in settings and parameter.default is parameter.empty:
            required_settings[name] = settings[name]
    instead_of_defaults = {
        name: value for name, value in settings.items() if name not in required_settings
    }
    no_layer_to_wrap = (
        nn.ReLU(),
        nn.Conv1d(4, 3, kernel_size=1),
        nn.Conv2d(4, 4, kernel_size=3, groups=2),
        nn.Linear,
    )
    return Border(
        layer,
        required=lambda: (nn.Linear(4, 3), *required_settings.values()),
        use=outputs_and_kl,
        instead=instead_of_defaults,
        refused={"inner": no_layer_to_wrap},
    )


def log_joint(w: Tensor) -> Tensor:
    return -w.square().sum(-1) / 2


def quadratic(point: Tensor) -> tuple[Tensor, Tensor]:
    """The energy of each chain, and its gradient."""
    squares = point.square().reshape(len(point), -1)
    return squares.sum(1) / 2, point


def squared_error(output: Tensor, y: Tensor) -> Tensor:
    return (output - y).square().sum(-1).mean()


def training() -> tuple:
    """What ``fit`` and ``fit_batched`` ask for after the data and the loss."""
    return 2, seeded(), inference.adam(1e-3)


def nothing(*_: Any) -> None:
    """What a function gives that was written without a ``return``."""


def mean_pass(*shape: int) -> Callable[[models.Network], Tensor]:
    """A use of a network: its output at the mean weights."""
    return lambda model: model(normal(*shape), "mean")


def method(function: Callable[..., Any], *required: Any, **instead: Any) -> Border:
    """A row of a method: shapes and types are looked at, and NaN is handed on."""
    return Border(
        function,
        required=lambda: required,
        instead=instead,
        may_be_nan=True,
    )


IN_TRAINING = {
    "batch_size": 3,
    "progress": False,
    "schedule": lambda step: 1 / (1 + step),
}
LATE = {
    "nll": (nothing, lambda f, y: 1.0, lambda f, y: f[:, 0]),
    "optimizer": (nothing,),
    "schedule": (nothing,),
}
"""Functions of the user that only fail once training calls them."""
DRAWN = {"sampling": "per_example", "generator": seeded()}
ZERO = torch.zeros(1, 2).double()
PROCESS = reference.GaussianProcess(double(6, 1), double(6), reference.ReLUKernel(), 0.1)
LOGISTIC = reference.BayesLogistic(double(6, 2), zeros_and_ones(6), 1.0)
FEATURES = reference.RandomFeatures(2, 5, "relu", seeded())
LINEAR = reference.BayesLinear(double(6, 2), double(6), 0.1, 1.0)
GRID = reference.GridPosterior(log_joint, (-6.0, -6.0), (6.0, 6.0), n=20)
COLUMNS = datasets.Standardiser.fit(double(5, 2))


BORDERS = [
    # core
    Border(core.check, lambda: ("a claim", 1.0, 1.0, 0.1), raises=(core.CheckFailed,)),
    Border(
        core.check_between,
        required=lambda: ("a claim", 1.0),
        instead={"low": 0.0, "high": 2.0},
        raises=(core.CheckFailed,),
    ),
    Border(core.device, instead={"name": "cpu", "float64": True}),
    Border(core.seeded, lambda: (3,), torch.Generator.initial_seed),
    # reference
    Border(
        reference.BayesLinear,
        required=lambda: (double(6, 2), double(6), 0.1, 1.0),
        use=lambda model: [model.mean, model.cov],
    ),
    Border(
        reference.BayesLogistic,
        required=lambda: (double(6, 2), zeros_and_ones(6), 1.0),
        use=lambda model: model.log_joint(torch.zeros(1, model.X.shape[1]).double()),
    ),
    Border(
        reference.GaussianProcess,
        required=lambda: (double(6, 1), double(6), reference.ReLUKernel(), 0.1),
        use=lambda gp: gp.predict(ZERO.mT),
    ),
    method(PROCESS.predict, double(3, 1)),
    method(LINEAR.data_term, double(2), torch.eye(2).double()),
    method(LINEAR.elbo, double(2), torch.eye(2).double()),
    method(LINEAR.predict, double(3, 2)),
    method(LOGISTIC.log_joint, double(3, 2)),
    method(GRID.expect, double(400)),
    method(GRID.kl_from, double(400)),
    method(FEATURES.__call__, double(3, 2)),
    Border(
        reference.GridPosterior,
        required=lambda: (log_joint, (-6.0, -6.0), (6.0, 6.0)),
        use=lambda grid: grid.probs,
        instead={"n": 20},
    ),
    Border(
        reference.RandomFeatures,
        required=lambda: (2, 5, "relu", seeded()),
        use=lambda features: features(ZERO, 1),
    ),
    *(
        Border(kernel_class, use=lambda kernel: kernel(ZERO.mT, ZERO.mT).to_dense())
        for kernel_class in (reference.CosKernel, reference.ErfKernel, reference.ReLUKernel)
    ),
    Border(
        reference.fit_gaussian,
        required=lambda: (log_joint, torch.zeros(2).double(), torch.ones(2).double()),
        instead={"mean_field": True, "n_nodes": 3, "n_steps": 50},
        raises=(RuntimeError,),
    ),
    Border(reference.gauss_hermite, lambda: (3, 2)),
    Border(
        reference.hmc,
        required=lambda: (quadratic, normal(2, 3), 1, 2, seeded()),
        instead={"n_leapfrog": 2, "step_size": 0.1},
    ),
    # models
    layer_border(models.ARD, log_alpha_clamp=(-8.0, 8.0), threshold=3.0),
    layer_border(models.BayesByBackprop),
    layer_border(models.BinaryDropout, p_drop=0.5),
    layer_border(models.ConcreteDropout),
    layer_border(models.Deterministic),
    layer_border(models.GaussianDropout, p_drop=0.5),
    layer_border(models.GaussianDropoutB, p_drop=0.5),
    layer_border(models.HierarchicalDropout),
    layer_border(models.SparseVD, log_alpha_clamp=(-8.0, 8.0), threshold=3.0),
    layer_border(models.StructuredDropout),
    layer_border(models.VariationalDropout, init_p_drop=0.2),
    layer_border(models.VariationalDropoutB, init_p_drop=0.2),
    Border(models.matched_log_alpha, lambda: (0.2,)),
    Border(
        models.mlp,
        required=lambda: ((4, 5, 3), DROPOUT),
        use=mean_pass(2, 4),
        refused={
            "activation": (nn.ReLU(), "relu"),
            "method": (nothing, nn.Linear(4, 5), [DROPOUT], lambda inner: inner),
        },
    ),
    Border(
        models.wrap,
        required=lambda: (nn.Sequential(nn.Linear(4, 3)), DROPOUT),
        use=mean_pass(2, 4),
        refused={
            "model": (
                nn.Linear(4, 3),
                nn.Sequential(nn.ReLU()),
                nn.Sequential(nn.Dropout(), nn.Linear(4, 3)),
                nn.Sequential(nn.TransformerEncoderLayer(4, 1, batch_first=True, dropout=0.0)),
            ),
            "method": (nothing, nn.Linear(4, 3), [], lambda inner: inner),
        },
    ),
    method(network().forward, normal(2, 4), **DRAWN),
    method(DROPOUT(nn.Linear(4, 3)).forward, normal(2, 4), **DRAWN),
    Border(models.initialise, lambda: (network(), seeded()), mean_pass(2, 4)),
    # inference
    *(
        Border(
            optimizer,
            required=lambda: (0.1,),
            use=lambda make: make([nn.Parameter(normal(2))]).defaults["lr"],
        )
        for optimizer in (inference.adam, inference.sgd)
    ),
    Border(
        inference.fit,
        required=lambda: (network(), normal(6, 4), labels(6), cross_entropy, *training()),
        instead=IN_TRAINING,
        fixed=("y",),
        refused=LATE,
        raises=(FloatingPointError,),
    ),
    Border(
        inference.predict,
        required=lambda: (network(), normal(6, 4), 2, seeded()),
        instead={"chunk_rows": 3},
    ),
    Border(
        inference.BatchedNetworks,
        required=lambda: ([network(), network()],),
        use=lambda nets: inference.predict_batched(nets, normal(2, 3, 4), 2, generator=seeded()),
    ),
    Border(
        inference.fit_batched,
        required=lambda: (batched(), normal(2, 6, 4), normal(2, 6, 3), squared_error, *training()),
        instead=IN_TRAINING,
        fixed=("y",),
        refused=LATE,
        raises=(FloatingPointError,),
    ),
    method(batched().__call__, normal(2, 3, 4), "per_example", generator=seeded()),
    Border(
        inference.predict_batched,
        required=lambda: (batched(), normal(2, 6, 4), 2, seeded()),
        instead={"chunk_rows": 3},
    ),
    Border(inference.sparsity, sparse_network),
    Border(inference.zero_pruned, sparse_network, lambda net: net(normal(2, 4))),
    Border(inference.to_sparse, sparse_network, lambda net: net(normal(2, 4))),
    Border(
        inference.compression,
        required=lambda: (inference.sparsity(*sparse_network()),),
        refused={"layers": ([],)},
    ),
    # evaluation
    Border(evaluation.accuracy, probs),
    Border(evaluation.error_percent, lambda: (normal(6, 3), labels(6))),
    Border(evaluation.nll, lambda: (*log_probs(), labels(6))),
    Border(evaluation.ece, probs, instead={"n_bins": 3}),
    Border(evaluation.reliability_bins, probs, instead={"n_bins": 3}, may_be_nan=True),
    Border(evaluation.rmse, lambda: (normal(6, 2), normal(6, 2))),
    Border(evaluation.chow_threshold, lambda: (10.0, 1.0)),
    Border(evaluation.decide, lambda: (probs()[0], 0.4)),
    Border(evaluation.mean_cost, lambda: (labels(6), labels(6), 10.0, 1.0)),
    Border(evaluation.risk_coverage, lambda: (normal(6), normal(6) > 0)),
    Border(evaluation.log_predictive_likelihood, draws),
    Border(evaluation.predictive_var, lambda: draws()[::2]),
    Border(evaluation.score_taus, two_outputs),
    Border(evaluation.log_mean_probs, logits),
    Border(evaluation.predictive_entropy, logits),
    Border(evaluation.mutual_information, logits),
    Border(evaluation.entropy, log_probs),
    Border(evaluation.ood_metrics, lambda: (normal(6), normal(4))),
    Border(evaluation.paired_difference, lambda: (double(6).numpy(), double(6).exp().numpy())),
    Border(evaluation.ranks, lambda: (double(4, 3).numpy(), True), may_be_nan=True),
    Border(evaluation.gradient_variance, lambda: (normal(8, 3),)),
    # datasets
    Border(
        datasets.digits,
        use=lambda data: [data.x_train, data.y_test],
        instead={"n_train": 10, "n_test": 10},
    ),
    Border(datasets.origin_clusters, use=lambda data: [data.x, data.y], instead={"n_train": 10}),
    Border(COLUMNS.fit, lambda: (double(5, 2),), lambda scale: [scale.mean, scale.std]),
    method(COLUMNS.transform, double(3, 2)),
    method(COLUMNS.inverse_transform, double(3, 2)),
    Border(datasets.load_records, lambda: ("uci",), len),
    Border(
        datasets.chosen_settings,
        required=lambda: (datasets.load_records("image_classification")[:50],),
        refused={"data": ("cifar10",)},
    ),
    Border(datasets.published_table, lambda: ("sparse_lenet",), may_be_nan=True),
    # reproductions
    Border(reproductions.load, lambda: ("uci",), lambda experiment: experiment.name),
    Border(reproductions.records_path, lambda: ("uci", "paper"), lambda path: path.name),
]

PLAIN_NAMES = {
    "core": "ResultsTable check_table cpu_threads clock progress show tint use_style CheckFailed",
    # the kernels are the cases of NNGPKernel; the rest are formulas
    "reference": "NNGPKernel gaussian_elbo cos_expectation erf_expectation relu_expectation",
    # what is abstract (a call of ``UnitNoise`` is in the table); formulas
    "models": "StochasticLayer WeightNoise ard_kl gamma_scale_kl log_relative_variance "
    "lognormal_scale_kl scaled_cov",
    # made by zero_pruned and to_sparse; a container; an attribute of a layer
    "inference": "PrunedNetwork Run layer_log_alpha",
    # formulas of lessons 06 and 12: shapes are looked at; a result of risk_coverage
    "evaluation": "RiskCoverage gauss_newton loss_hessian loss_increase penalty "
    "penalty_from_roots sensitivity softmax_root spectral_bound noisy_outputs",
    # containers; functions without arguments; what takes the results of loaders
    "datasets": "CO2 Classification DetrendedCO2 Regression UCISet co2 diabetes "
    "UCIResults group_by where with_settings detrended display_name rotated",
    "reproductions": "Claim Experiment Trial TrialResult",
}
PLAIN = {subpackage: set(names.split()) for subpackage, names in PLAIN_NAMES.items()}
"""What a face hands out besides: no border, for the reason above it. All of ``probability`` is
formulas: they look at shapes, and a NaN goes through them as through PyTorch's own."""


def name_of(border: Border) -> str:
    subpackage = border.function.__module__.removeprefix("bdl_lessons.").split(".")[0]
    return f"{subpackage}.{border.function.__qualname__}"
