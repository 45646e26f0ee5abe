"""Lesson 11: VSD and what it must be compared with, on two small real sets and eight splits each.

All networks of a method are trained as one batch. Everything but the distribution of the noise and
its KL is the same: the widths, the splits, the optimiser, the number of steps.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from bdl_lessons import models
from bdl_lessons.datasets import Standardiser, diabetes, digits
from bdl_lessons.evaluation import log_mean_probs, log_predictive_likelihood, metrics
from bdl_lessons.inference import BatchedNetworks, adam, fit_batched, predict_batched
from bdl_lessons.models import StochasticLayer, StructuredDropout, initialise, mlp
from bdl_lessons.panels.structure_and_nll import DEPTHS, KL_WEIGHTS, METHODS
from bdl_lessons.probability import gaussian_nll

TUNED = {  # on validation examples; the weight decay of MAP is the weight of its KL
    "MAP": (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0),
    "MC dropout": (0.01, 0.05, 0.1, 0.2, 0.3, 0.5),
}
N_SEEDS = 8
N_DRAWS = 50
LAYERS: dict[str, models.Method] = {"MAP": models.Deterministic}
for kl_per in ("weight", "factor"):  # a KL counts every weight, or every random factor once
    LAYERS[f"VD, per {kl_per}"] = partial(
        models.VariationalDropout,
        alpha_per="unit",
        init_p_drop=0.1,
        kl_per=kl_per,
    )
    for depth in DEPTHS:
        LAYERS[f"VSD, T = {depth}, per {kl_per}"] = partial(
            StructuredDropout,
            n_reflections=depth,
            alpha_spread=0.5,
            init_p_drop=0.1,
            kl_per=kl_per,
        )

Examples = tuple[Tensor, Tensor]
"""Inputs and targets."""


@dataclass(frozen=True)
class Split:
    """Examples to train on, to validate and to test; ``y_scale`` leads back to original units."""

    train: Examples
    validation: Examples
    test: Examples
    y_scale: float = 1.0
    tau: float = 1.0


@dataclass(frozen=True)
class Task:
    """A data set with its network and its training.

    Attributes:
        widths: of the network.
        split: a seed to a split.
        nll: mean negative log likelihood of a minibatch.
        scores: draws of the outputs, targets and their split, to what is measured.
        validation_nll: the scores of the validation examples, to what decides on a setting.
        n_steps: of training.
    """

    widths: tuple[int, ...]
    split: Callable[[int], Split]
    nll: Callable[..., Tensor]
    scores: Callable[[Tensor, Tensor, Split], list[float]]
    validation_nll: Callable[[list[float]], float]
    n_steps: int


class Results(NamedTuple):
    """What is measured of the networks of a method.

    Attributes:
        scores: ``(setting, seed, reading, score)``, readings the draws and the mean weights.
        validation_nll: ``(setting, seed)``.
        alphas: each layer's mean alpha, or NaN, ``(setting, seed, 2)``.
    """

    scores: np.ndarray
    validation_nll: np.ndarray
    alphas: np.ndarray


def digits_split(seed: int) -> Split:
    """1149 training, 288 validation and 360 test examples."""
    data = digits(seed=seed)
    x = data.x_train
    y = data.y_train
    n_train = round(0.8 * len(x))
    return Split(
        train=(x[:n_train], y[:n_train]),
        validation=(x[n_train:], y[n_train:]),
        test=(data.x_test, data.y_test),
    )


def diabetes_split(seed: int) -> Split:
    """283 training, 71 validation and 88 test patients, standardised by the training examples.

    ``tau`` is one over the residual variance of a linear regression on these.
    """
    data = diabetes()
    rows = torch.from_numpy(np.random.default_rng(seed).permutation(len(data.x)))
    train = rows[:283]
    validation = rows[283:354]
    test = rows[354:]
    x_scale = Standardiser.fit(data.x[train])
    y_scale = Standardiser.fit(data.y[train])
    x = x_scale.transform(data.x)
    y = y_scale.transform(data.y)[:, None]
    weights = torch.linalg.lstsq(x[train], y[train]).solution
    residuals = y[train] - x[train] @ weights
    degrees_of_freedom = len(train) - x.shape[1] - 1
    residual_var = residuals.square().sum() / degrees_of_freedom
    return Split(
        train=(x[train].float(), y[train].float()),
        validation=(x[validation].float(), y[validation].float()),
        test=(x[test].float(), y[test].float()),
        y_scale=float(y_scale.std),
        tau=float(1 / residual_var),
    )


def digits_scores(logits: Tensor, y: Tensor, _: Split) -> list[float]:
    """NLL, ECE and accuracy of the averaged probabilities; ``logits`` are ``(S, B, 10)``."""
    log_probs = log_mean_probs(logits)
    probs = log_probs.exp()
    return [metrics.nll(log_probs, y), metrics.ece(probs, y), metrics.accuracy(probs, y)]


def diabetes_scores(draws: Tensor, y: Tensor, split: Split) -> list[float]:
    """RMSE and mean log likelihood in original units; ``draws`` are ``(S, B, 1)``, standardised."""
    scale = split.y_scale
    error = metrics.rmse(scale * draws.mean(0), scale * y)
    densities = log_predictive_likelihood(scale * draws, scale * y, split.tau / scale**2)
    return [error, densities.double().mean().item()]


TASKS = {
    "digits": Task(
        widths=(64, 50, 10),
        split=digits_split,
        nll=cross_entropy,
        scores=digits_scores,
        validation_nll=lambda scores: scores[0],
        n_steps=2400,
    ),
    "diabetes": Task(
        widths=(10, 50, 1),
        split=diabetes_split,
        nll=gaussian_nll,
        scores=diabetes_scores,
        validation_nll=lambda scores: -scores[1],
        n_steps=1200,
    ),
}


def make_arrays() -> dict[str, np.ndarray]:
    """For each task the :class:`Results` of every method, on a first axis.

    ``<task>``: the scores; ``<task>_validation``; ``<task>_alpha``. Methods with one setting have
    it in all places.
    """
    arrays = {}
    for name, task in TASKS.items():
        splits = [task.split(seed) for seed in range(N_SEEDS)]
        results = []
        for method in METHODS:
            of_all_settings = run(task, method, splits, settings(method))
            results.append(at_its_best(method, of_all_settings))
        arrays[name] = _stacked([of_method.scores for of_method in results])
        arrays[f"{name}_validation"] = _stacked([of_method.validation_nll for of_method in results])
        arrays[f"{name}_alpha"] = _stacked([of_method.alphas for of_method in results])
    return arrays


def _stacked(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Arrays of all methods as one, those of a single setting repeated for each KL weight."""
    repeated = [np.broadcast_to(part, (len(KL_WEIGHTS), *part.shape[1:])) for part in parts]
    return np.stack(repeated).astype(np.float32)


def settings(method: str) -> tuple[float, ...]:
    """What a method is trained with: rates, weight decays, or weights of the KL.

    A KL that is counted once for each factor has the weight 1 alone.
    """
    if method in TUNED:
        return TUNED[method]
    return (1.0,) if method.endswith("per factor") else KL_WEIGHTS


def at_its_best(method: str, results: Results) -> Results:
    """For a tuned method only the setting with the least mean validation NLL, on a first axis."""
    if method not in TUNED:
        return results
    best = results.validation_nll.mean(1).argmin()
    return Results(
        scores=results.scores[[best]],
        validation_nll=results.validation_nll[[best]],
        alphas=results.alphas[[best]],
    )


def run(task: Task, method: str, splits: Sequence[Split], settings: Sequence[float]) -> Results:
    """Train one method at every setting on every split."""
    members = train(task, method, settings, splits)
    generator = torch.Generator().manual_seed(1)
    x_held_out, y_held_out = _for_each("validation", splits, len(settings))
    x_test, y_test = _for_each("test", splits, len(settings))
    held_out_draws = predict_batched(members, x_held_out, N_DRAWS, generator=generator)
    test_draws = predict_batched(members, x_test, N_DRAWS, generator=generator)
    with torch.no_grad():
        test_means = members(x_test, "mean")[None]
    scores = []
    validation_nlls = []
    alphas = []
    for number in range(len(members)):
        split = splits[number % len(splits)]
        scores.append(
            [
                task.scores(test_draws[:, number], y_test[number], split),
                task.scores(test_means[:, number], y_test[number], split),
            ]
        )
        held_out = task.scores(held_out_draws[:, number], y_held_out[number], split)
        validation_nlls.append(task.validation_nll(held_out))
        alphas.append(_mean_alphas(members.network(number)))

    def by_setting(values: list) -> np.ndarray:
        array = np.array(values)
        return array.reshape(len(settings), len(splits), *array.shape[1:])

    return Results(
        scores=by_setting(scores),
        validation_nll=by_setting(validation_nlls),
        alphas=by_setting(alphas),
    )


def _mean_alphas(network: models.Network) -> list[float]:
    """Of each layer; NaN where it has none."""
    layers = [module for module in network if isinstance(module, StochasticLayer)]
    none = torch.tensor(np.nan)
    return [getattr(layer, "alpha", none).mean().item() for layer in layers]


def train(
    task: Task, method: str, settings: Sequence[float], splits: Sequence[Split]
) -> BatchedNetworks:
    """One network for each setting and split, setting by setting: a setting is the p_drop of MC
    dropout (trained without a KL) or else the weight of the KL."""
    if method in LAYERS:
        methods = [LAYERS[method]] * len(settings)
    else:
        methods = [partial(models.BinaryDropout, p_drop=p_drop) for p_drop in settings]
    networks = []
    for method_at, seed in itertools.product(methods, range(len(splits))):
        generator = torch.Generator().manual_seed(seed)
        networks.append(initialise(mlp(task.widths, method_at), generator))
    members = BatchedNetworks(networks)
    x, y = _for_each("train", splits, len(settings))
    kl_weight = torch.tensor(settings).repeat_interleave(len(splits))
    tau = torch.tensor([split.tau for split in splits]).repeat(len(settings))
    fit_batched(
        members,
        x,
        y,
        task.nll,
        nll_args=(tau,) if task.nll is gaussian_nll else (),
        n_steps=task.n_steps,
        batch_size=100,
        optimizer=adam(5e-3),
        schedule=lambda step: min(1, 2 - 2 * step / task.n_steps),
        kl_weight=0.0 if method == "MC dropout" else kl_weight,
        generator=torch.Generator().manual_seed(0),
    )
    return members


def _for_each(part: str, splits: Sequence[Split], n_settings: int) -> Examples:
    """The inputs and targets of one part for every network, setting by setting."""
    examples = [getattr(split, part) for split in splits]
    x = torch.stack([inputs for inputs, _ in examples])
    y = torch.stack([targets for _, targets in examples])
    return torch.cat([x] * n_settings), torch.cat([y] * n_settings)
