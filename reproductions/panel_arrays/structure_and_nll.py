"""Lesson 11: VSD and what it must be compared with, on two small real sets and eight splits each.

All networks of a method are trained as one batch. Everything but the distribution of the noise and
its KL is the same: the widths, the splits, the optimiser, the number of steps.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

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
N_SEEDS, N_DRAWS = 8, 50
LAYERS: dict[str, models.Method] = {"MAP": models.Deterministic}
for kl_per in ("weight", "factor"):  # a KL counts every weight, or every random factor once
    LAYERS[f"VD, per {kl_per}"] = partial(
        models.VariationalDropout, alpha_per="unit", init_p_drop=0.1, kl_per=kl_per
    )
    for depth in DEPTHS:
        LAYERS[f"VSD, T = {depth}, per {kl_per}"] = partial(
            StructuredDropout,
            n_reflections=depth,
            alpha_spread=0.5,
            init_p_drop=0.1,
            kl_per=kl_per,
        )


@dataclass(frozen=True)
class Split:
    """Examples to train on, to validate and to test; ``y_scale`` leads back to original units."""

    train: tuple[Tensor, Tensor]
    validation: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]
    y_scale: float = 1.0
    tau: float = 1.0


@dataclass(frozen=True)
class Task:
    """A data set with its network and its training."""

    widths: tuple[int, ...]
    split: Callable[[int], Split]
    nll: Callable[..., Tensor]
    scores: Callable[[Tensor, Tensor, Split], list[float]]
    validation: Callable[[list[float]], float]
    n_steps: int


def digits_split(seed: int) -> Split:
    """1149 training, 288 validation and 360 test examples."""
    data = digits(seed=seed)
    x = data.x_train
    y = data.y_train
    n_train = round(0.8 * len(x))
    return Split((x[:n_train], y[:n_train]), (x[n_train:], y[n_train:]), (data.x_test, data.y_test))


def diabetes_split(seed: int) -> Split:
    """283 training, 71 validation and 88 test patients, standardised by the training examples;
    ``tau`` is one over the residual variance of a linear regression on these."""
    data = diabetes()
    rows = torch.from_numpy(np.random.default_rng(seed).permutation(len(data.x)))
    train = rows[:283]
    validation = rows[283:354]
    test = rows[354:]
    x_scale = Standardiser.fit(data.x[train])
    y_scale = Standardiser.fit(data.y[train])
    x = x_scale.transform(data.x)
    y = y_scale.transform(data.y)[:, None]
    linear = torch.linalg.lstsq(x[train], y[train]).solution
    residual_var = (y[train] - x[train] @ linear).square().sum() / (len(train) - x.shape[1] - 1)
    parts = [(x[part].float(), y[part].float()) for part in (train, validation, test)]
    return Split(*parts, float(y_scale.std), float(1 / residual_var))


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


DIGITS = Task((64, 50, 10), digits_split, cross_entropy, digits_scores, lambda s: s[0], 2400)
DIABETES = Task((10, 50, 1), diabetes_split, gaussian_nll, diabetes_scores, lambda s: -s[1], 1200)
TASKS = {"digits": DIGITS, "diabetes": DIABETES}


def make_arrays() -> dict[str, np.ndarray]:
    """Of a task scores ``(method, setting, seed, reading, score)``, validation NLL ``(method,
    setting, seed)`` and each layer's mean alpha or NaN, ``(method, setting, seed, 2)``."""
    made = {}
    for name, task in TASKS.items():
        splits = [task.split(seed) for seed in range(N_SEEDS)]
        runs = [at_its_best(m, run(task, m, splits, settings(m))) for m in METHODS]
        for part, key in enumerate((name, f"{name}_validation", f"{name}_alpha")):
            full = [np.broadcast_to(r[part], (len(KL_WEIGHTS), *r[part].shape[1:])) for r in runs]
            made[key] = np.stack(full).astype(np.float32)
    return made


def settings(method: str) -> tuple[float, ...]:
    """What a method is trained with: rates, weight decays, or weights of the KL, but not of one
    that is counted once for each factor."""
    return TUNED.get(method, (1.0,) if method.endswith("per factor") else KL_WEIGHTS)


def at_its_best(method: str, results: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    """For a tuned method only the setting with the least mean validation NLL, on a first axis."""
    if method not in TUNED:
        return results
    best = results[1].mean(1).argmin()
    return tuple(part[best : best + 1] for part in results)


def run(
    task: Task, method: str, splits: Sequence[Split], settings: Sequence[float]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Train one method at every setting on every split; returns its part of the three arrays."""
    members = train(task, method, settings, splits)
    generator = torch.Generator().manual_seed(1)

    def outputs(part: str) -> tuple[Tensor, Tensor, Tensor]:
        x, y = (_for_each(splits, part, k, len(settings)) for k in (0, 1))
        draws = predict_batched(members, x, N_DRAWS, generator=generator)
        with torch.no_grad():
            return draws, members(x, "mean")[None], y

    held_out, _, y_held_out = outputs("validation")
    *readings, y = outputs("test")
    scores = []
    validation = []
    alphas = []
    for number in range(len(members)):
        split = splits[number % len(splits)]
        scores.append([task.scores(f[:, number], y[number], split) for f in readings])
        own = task.scores(held_out[:, number], y_held_out[number], split)
        validation.append(task.validation(own))
        layers = [
            module for module in members.network(number) if isinstance(module, StochasticLayer)
        ]
        learned = (getattr(layer, "alpha", torch.tensor(np.nan)) for layer in layers)
        alphas.append([alpha.mean().item() for alpha in learned])
    arrays = (np.array(values) for values in (scores, validation, alphas))
    return tuple(a.reshape(len(settings), len(splits), *a.shape[1:]) for a in arrays)


def train(
    task: Task, method: str, settings: Sequence[float], splits: Sequence[Split]
) -> BatchedNetworks:
    """One network for each setting and split, setting by setting: a setting is the p_drop of MC
    dropout (trained without a KL) or else the weight of the KL."""
    if method in LAYERS:
        methods = [LAYERS[method]] * len(settings)
    else:
        methods = [partial(models.BinaryDropout, p_drop=p_drop) for p_drop in settings]
    networks = [
        initialise(mlp(task.widths, method), torch.Generator().manual_seed(seed))
        for method, seed in itertools.product(methods, range(len(splits)))
    ]
    members = BatchedNetworks(networks)
    x, y = (_for_each(splits, "train", k, len(settings)) for k in (0, 1))
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


def _for_each(splits: Sequence[Split], part: str, k: int, n_settings: int) -> Tensor:
    """Inputs (k = 0) or targets (k = 1) of one part for every network, setting by setting."""
    rows = torch.stack([getattr(split, part)[k] for split in splits])
    return rows.repeat(n_settings, *[1] * (rows.dim() - 1))
