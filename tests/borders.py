"""The table of public borders: for each a valid call, from which ``test_borders`` makes bad ones.

A border is a name that a subpackage exports and to which users pass arguments: constructors and
factories, ``fit`` and ``predict``, metrics and scores, loaders. There an argument that cannot be
used is refused with its name. The formulas of ``probability`` and the kernels lie inside: they look
at shapes and hand NaN on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import reproductions
from bdl_lessons import core, datasets, evaluation, inference, models, reference


@dataclass(frozen=True)
class Border:
    """A public callable, keyword arguments it takes, and what is done with the result.

    Attributes:
        valid: makes the arguments; new ones for each call, since some are changed in place.
        use: goes on with the result, as a user would, and returns what must be finite.
        fixed: arguments that are not varied: a function of the user sees them first.
        raises: what the border is documented to raise besides.
        may_be_nan: a result with NaN is documented: empty bins, missing methods.
    """

    function: Callable[..., Any]
    valid: Callable[[], dict[str, Any]]
    use: Callable[[Any], Any] = lambda result: result
    fixed: tuple[str, ...] = ()
    raises: tuple[type[Exception], ...] = ()
    may_be_nan: bool = False


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=generator())


def labels(n: int) -> Tensor:
    return torch.arange(n) % 3


def network(layers: models.LayerFactory | None = None) -> models.Network:
    return models.mlp((4, 5, 3), layers or models.BinaryDropout(0.5))


def sparse_network() -> models.Network:
    return network(models.SparseVD())


def batched() -> inference.BatchedNetworks:
    return inference.BatchedNetworks([network(), network()])


def one_layer(factory: models.LayerFactory) -> list[Tensor]:
    """Outputs and KL of a linear and a convolutional layer of a method."""
    linear, conv = factory.linear(4, 3), factory.conv2d(2, 3, 3)
    for layer in (linear, conv):
        layer.reset_noise(generator())
    found = [layer.kl() for layer in (linear, conv)]
    found.append(linear(normal(5, 4), "per_example", generator()))
    found.append(conv(normal(2, 2, 6, 6), "shared", generator()))
    return found


def log_joint(w: Tensor) -> Tensor:
    return -w.square().sum(-1) / 2


def quadratic(point: Tensor) -> tuple[Tensor, Tensor]:
    return point.square().reshape(len(point), -1).sum(1) / 2, point


def squared_error(output: Tensor, y: Tensor) -> Tensor:
    return (output - y).square().sum(-1).mean()


def adam() -> inference.OptimizerFactory:
    return inference.adam(1e-3)


def training() -> dict[str, Any]:
    """What ``fit`` and ``fit_batched`` take alike."""
    return {
        "n_steps": 2,
        "generator": generator(),
        "optimizer": adam(),
        "batch_size": 3,
        "kl_weight": 1.0,
        "sampling": "per_example",
        "schedule": None,
        "progress": False,
    }


def covariance(n: int) -> Tensor:
    root = normal(n, n).double()
    return root @ root.mT + torch.eye(n)


_LOGITS = {"logits": lambda: normal(4, 5, 3)}
_PROBS = {"probs": lambda: normal(6, 3).softmax(-1), "y": lambda: labels(6)}
_DRAWS = {"draws": lambda: normal(4, 5, 2), "y": lambda: normal(5, 2), "tau": lambda: 2.0}


def _made(makers: dict[str, Callable[[], Any]], *names: str) -> Callable[[], dict[str, Any]]:
    chosen = names or tuple(makers)
    return lambda: {name: makers[name]() for name in chosen}


BORDERS = [
    # core
    Border(
        core.check,
        lambda: {"name": "a claim", "value": 1.0, "expect": 1.0, "atol": 0.1},
        raises=(core.CheckFailed,),
    ),
    Border(
        core.check_between,
        lambda: {"name": "a claim", "value": 1.0, "low": 0.0, "high": 2.0},
        raises=(core.CheckFailed,),
    ),
    Border(core.device, lambda: {"name": "cpu", "float64": True}),
    Border(core.seeded, lambda: {"seed": 3}, use=lambda made: made.initial_seed()),
    # reference
    Border(
        reference.BayesLinear,
        lambda: {
            "Phi": normal(6, 2).double(),
            "y": normal(6).double(),
            "noise_var": 0.1,
            "prior_var": 1.0,
        },
        use=lambda model: [model.mean, model.cov],
    ),
    Border(
        reference.BayesLogistic,
        lambda: {"X": normal(6, 2).double(), "y": (labels(6) % 2).double(), "prior_var": 1.0},
        use=lambda model: model.log_joint(torch.zeros(1, model.X.shape[1]).double()),
    ),
    Border(
        reference.GaussianProcess,
        lambda: {
            "x": normal(6, 1).double(),
            "y": normal(6).double(),
            "kernel": reference.ReLUKernel(),
            "noise_var": 0.1,
        },
        use=lambda gp: gp.predict(torch.zeros(2, 1).double()),
    ),
    Border(
        reference.gp_posterior,
        lambda: {
            "k_train": covariance(4),
            "k_cross": normal(4, 2).double(),
            "k_test": 20 * torch.eye(2).double(),
            "y": normal(4).double(),
            "noise_var": 0.1,
        },
        raises=(torch.linalg.LinAlgError,),
    ),
    Border(
        reference.GridPosterior,
        lambda: {"log_joint": log_joint, "low": (-6.0, -6.0), "high": (6.0, 6.0), "n": 20},
        use=lambda grid: grid.probs,
    ),
    Border(
        reference.RandomFeatures,
        lambda: {
            "in_features": 2,
            "max_width": 5,
            "nonlinearity": "relu",
            "generator": generator(),
            "depth": 1,
            "weight_var": 1.0,
            "bias_var": 1.0,
        },
        use=lambda features: features(torch.zeros(3, 2).double(), 1),
    ),
    *(
        Border(
            kernel,
            lambda: {"depth": 1, "weight_var": 1.0, "bias_var": 1.0},
            use=lambda made: made(torch.ones(2, 1), torch.ones(2, 1)).to_dense(),
        )
        for kernel in (reference.CosKernel, reference.ErfKernel, reference.ReLUKernel)
    ),
    Border(
        reference.fit_gaussian,
        lambda: {
            "log_joint": log_joint,
            "mean": torch.zeros(2).double(),
            "scale": torch.ones(2).double(),
            "mean_field": True,
            "n_nodes": 3,
            "n_steps": 50,
        },
        raises=(RuntimeError,),
    ),
    Border(reference.gauss_hermite, lambda: {"n_nodes": 3, "dim": 2}),
    Border(
        reference.hmc,
        lambda: {
            "potential": quadratic,
            "start": normal(2, 3),
            "n_warmup": 1,
            "n_draws": 2,
            "generator": generator(),
            "n_leapfrog": 2,
            "step_size": 0.1,
            "acceptance": 0.8,
        },
    ),
    Border(reference.split_r_hat, lambda: {"draws": normal(8, 2)}),
    Border(reference.effective_sample_size, lambda: {"draws": normal(8, 2)}),
    # models
    Border(models.Deterministic, lambda: {"length_scale": 1.0}, use=one_layer),
    Border(models.BinaryDropout, lambda: {"p_drop": 0.5, "length_scale": 1.0}, use=one_layer),
    Border(
        models.ConcreteDropout,
        lambda: {"init_p_drop": 0.1, "length_scale": 1.0, "temperature": 0.1},
        use=one_layer,
    ),
    Border(models.GaussianDropout, lambda: {"p_drop": 0.2, "noise": "A"}, use=one_layer),
    Border(
        models.VariationalDropout,
        lambda: {
            "noise": "A",
            "alpha_per": "layer",
            "init_p_drop": 0.2,
            "max_alpha": 1.0,
            "kl_scale": 1.0,
            "kl_per": "factor",
        },
        use=one_layer,
    ),
    Border(
        models.BayesByBackprop, lambda: {"prior_var": 1.0, "init_log_sigma2": -6.0}, use=one_layer
    ),
    *(
        Border(
            method,
            lambda: {"init_log_sigma2": -6.0, "log_alpha_clamp": (-8.0, 8.0), "threshold": 3.0},
            use=one_layer,
        )
        for method in (models.SparseVD, models.ARD)
    ),
    Border(
        models.StructuredDropout,
        lambda: {
            "n_reflections": 2,
            "vectors": "free",
            "rank": 2,
            "init_p_drop": 0.2,
            "alpha_spread": 0.1,
            "min_alpha": 1e-4,
            "max_alpha": 1.0,
            "prior": "empirical_bayes",
            "kl_scale": 1.0,
            "kl_per": "weight",
        },
        use=one_layer,
    ),
    Border(
        models.HierarchicalDropout,
        lambda: {
            "base": models.StructuredDropout(),
            "scale_kl": models.LogNormalScale(),
            "init_std": 0.1,
        },
        use=one_layer,
    ),
    Border(models.LogNormalScale, lambda: {"std": 1.0}),
    Border(models.GammaScale, lambda: {"shape": 1.0}),
    Border(models.matched_log_alpha, lambda: {"p_drop": 0.2}),
    Border(
        models.mlp,
        lambda: {"widths": (4, 5, 3), "layers": models.BinaryDropout(0.5), "activation": nn.Tanh},
        use=lambda net: net(normal(2, 4), "mean"),
    ),
    Border(
        models.lenet5,
        lambda: {"layers": models.Deterministic()},
        use=lambda net: net(normal(1, 1, 28, 28), "mean"),
    ),
    Border(
        models.initialise,
        lambda: {"network": network(), "generator": generator(), "weight_var": 2.0},
        use=lambda net: net(normal(2, 4), "mean"),
    ),
    # inference
    Border(
        inference.adam,
        lambda: {"lr": 0.1},
        use=lambda make: make([nn.Parameter(normal(2))]).defaults["lr"],
    ),
    Border(
        inference.sgd,
        lambda: {"lr": 0.1, "momentum": 0.9},
        use=lambda make: make([nn.Parameter(normal(2))]).defaults["lr"],
    ),
    Border(
        inference.inverse_decay, lambda: {"gamma": 1e-4, "power": 0.75}, use=lambda decay: decay(3)
    ),
    Border(
        inference.fit,
        lambda: {
            "model": network(),
            "x": normal(6, 4),
            "y": labels(6),
            "nll": cross_entropy,
            **training(),
        },
        fixed=("y",),
        raises=(FloatingPointError,),
    ),
    Border(
        inference.predict,
        lambda: {
            "model": network(),
            "x": normal(6, 4),
            "n_samples": 2,
            "sampling": "per_example",
            "generator": generator(),
        },
    ),
    Border(
        inference.BatchedNetworks,
        lambda: {"networks": [network(), network()]},
        use=lambda nets: inference.predict_batched(nets, normal(2, 3, 4), 2, generator=generator()),
    ),
    Border(
        inference.fit_batched,
        lambda: {
            "networks": batched(),
            "x": normal(2, 6, 4),
            "y": normal(2, 6, 3),
            "nll": squared_error,
            **training(),
        },
        fixed=("y",),
        raises=(FloatingPointError,),
    ),
    Border(
        inference.predict_batched,
        lambda: {
            "networks": batched(),
            "x": normal(2, 6, 4),
            "n_samples": 2,
            "generator": generator(),
            "chunk_rows": 3,
        },
    ),
    Border(inference.sparsity, lambda: {"model": sparse_network(), "threshold": 3.0}),
    *(
        Border(
            prune,
            lambda: {"model": sparse_network(), "threshold": 3.0},
            use=lambda net: net(normal(2, 4)),
        )
        for prune in (inference.zero_pruned, inference.to_sparse)
    ),
    Border(inference.compression, lambda: {"layers": inference.sparsity(sparse_network())}),
    # evaluation
    Border(evaluation.accuracy, _made(_PROBS)),
    Border(evaluation.error_percent, lambda: {"scores": normal(6, 3), "y": labels(6)}),
    Border(evaluation.nll, lambda: {"log_probs": normal(6, 3).log_softmax(-1), "y": labels(6)}),
    Border(evaluation.ece, lambda: {**_made(_PROBS)(), "n_bins": 3}),
    Border(evaluation.reliability_bins, lambda: {**_made(_PROBS)(), "n_bins": 3}, may_be_nan=True),
    Border(evaluation.rmse, lambda: {"mean": normal(6, 2), "y": normal(6, 2)}),
    Border(evaluation.mean_log_likelihood, _made(_DRAWS)),
    Border(evaluation.log_predictive_likelihood, _made(_DRAWS)),
    Border(evaluation.predictive_var, _made(_DRAWS, "draws", "tau")),
    Border(evaluation.log_mean_probs, _made(_LOGITS)),
    Border(evaluation.predictive_entropy, _made(_LOGITS)),
    Border(evaluation.mutual_information, _made(_LOGITS)),
    *(
        Border(score, lambda: {"log_probs": normal(6, 3).log_softmax(-1)})
        for score in (
            evaluation.entropy,
            evaluation.max_log_probability,
            evaluation.negative_entropy,
        )
    ),
    Border(evaluation.ood_metrics, lambda: {"score_in": normal(6), "score_out": normal(4)}),
    Border(
        evaluation.paired_difference,
        lambda: {
            "first": normal(6).numpy(),
            "second": normal(6).double().exp().numpy(),
            "test_fraction": 0.1,
        },
    ),
    Border(
        evaluation.ranks,
        lambda: {"scores": normal(4, 3).numpy(), "higher_is_better": True},
        may_be_nan=True,
    ),
    Border(
        evaluation.pareto_front,
        lambda: {"cost": normal(4).exp().numpy(), "loss": normal(4).numpy()},
    ),
    Border(evaluation.gradient_variance, lambda: {"gradients": normal(8, 3)}),
    # datasets
    Border(
        datasets.digits,
        lambda: {"n_train": 10, "n_test": 10, "seed": 0},
        use=lambda data: [data.x_train, data.y_test],
    ),
    Border(
        datasets.origin_clusters,
        lambda: {"n_train": 10, "spread_std": 0.1, "noise_std": 0.1, "seed": 0},
        use=lambda data: [data.x, data.y],
    ),
    Border(datasets.load_records, lambda: {"name": "uci"}, use=len),
    Border(datasets.published_table, lambda: {"name": "sparse_lenet"}, may_be_nan=True),
    # reproductions
    Border(reproductions.load, lambda: {"name": "uci"}, use=lambda found: found.name),
    Border(
        reproductions.records_path,
        lambda: {"name": "uci", "scale": "paper"},
        use=lambda path: path.name,
    ),
]

PLAIN = {
    "core": "ResultsTable check_table cpu_threads clock show tint use_style CheckFailed",
    # the kernels are the cases of NNGPKernel; the rest are formulas
    "reference": "NNGPKernel gaussian_elbo cos_expectation erf_expectation relu_expectation",
    # parts of layers, which the factories make; formulas; what is abstract
    "models": "AdditiveNoise BernoulliNoise GaussianUnitNoise GaussianWeightNoise "
    "StructuredUnitNoise UnitNoise UnitNoiseConv2d UnitNoiseLinear WeightNoise WeightNoiseConv2d "
    "WeightNoiseLinear StochasticLayer ard_kl log_relative_variance scaled_cov LayerFactory "
    "Network apply_batched",
    # made by zero_pruned and to_sparse; a container; an attribute of a layer
    "inference": "PrunedNetwork Run layer_log_alpha",
    # formulas of lessons 06 and 11: shapes are looked at
    "evaluation": "gauss_newton layer_penalties loss_hessian loss_increase penalty "
    "penalty_from_roots sensitivity softmax_root spectral_bound noisy_outputs regression_parts",
    # containers; functions without arguments; what takes the results of loaders
    "datasets": "CO2 Classification DetrendedCO2 Regression Standardiser UCISet co2 diabetes "
    "UCIResults chosen_settings group_by where with_settings detrended display_name rotated",
    "reproductions": "Claim Experiment Trial TrialResult names",
}
PLAIN = {subpackage: {*names.split()} for subpackage, names in PLAIN.items()}
"""What a face hands out besides: no border, for the reason above it. All of ``probability`` is
formulas: they look at shapes, and a NaN goes through them as through PyTorch's own."""


def name_of(border: Border) -> str:
    subpackage = border.function.__module__.removeprefix("bdl_lessons.").split(".")[0]
    return f"{subpackage}.{border.function.__name__}"
