"""What an experiment did: its trainings, and every output it asked a network for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial, wraps
from inspect import signature
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from bdl_lessons import datasets, inference
from reproductions import Trial, TrialResult, load
from reproductions.datasets import splits
from reproductions.measure import mean_weights
from reproductions.posteriors.slang import fit_slang, predict_slang
from reproductions.posteriors.swag import predict_swag

TRAINERS = (inference.fit, inference.fit_batched, fit_slang)
PREDICTORS = (inference.predict, inference.predict_batched, mean_weights)
PREDICTORS += (predict_swag, predict_slang)
N_ROWS = 40


def yachts(altered, name="yacht"):
    """Noise around a line. Altered: the test part of the first split has inputs of training rows
    and other targets."""
    generator = torch.Generator().manual_seed(0)
    x = 5 + torch.randn(N_ROWS, 3, generator=generator).double()
    y = 30 + 10 * (x[:, 0] + 0.3 * torch.randn(N_ROWS, generator=generator))
    train, test = map(torch.from_numpy, splits(N_ROWS, 1)[0])
    if altered:
        x[test] = x[train[: len(test)]]
        y[test] = y[test] + 100
    return datasets.Regression("yacht", x, y, ("",) * 3, "", "")


def pictures(altered, shape, name, n_train=0, n_test=0):
    """Noise whose brightness gives the class away. Altered: training images with other labels."""
    generator = torch.Generator().manual_seed(len(name))
    y = torch.arange(n_train + n_test) % 10
    x = torch.rand(len(y), *shape, generator=generator) + (y / 10)[:, None, None, None]
    x_test = x[n_train:]
    y_test = y[n_train:]
    if altered and n_train:
        x_test = x[:n_test]
        y_test = (y_test + 3) % 10
    classes = tuple("0123456789")
    return datasets.Classification(name, x[:n_train], y[:n_train], x_test, y_test, classes)


@dataclass
class Training:
    """All calls of a training function on one model: the last data, the sampling modes, and the KL
    weights ``(n_steps, M)`` of M networks and learning rates ``(n_steps, 1)`` of all steps."""

    model: Any
    x: Tensor
    y: Tensor
    sampling: set[str]
    kl_weights: Tensor
    rates: Tensor


@dataclass
class Seen:
    """Of ``inputs`` what was predicted for, and how many draws were asked for, if the weights were
    drawn; of ``outputs`` in their order ``(S, B, ...)``, or ``(S, M, B, ...)`` of M networks."""

    trainings: list[Training] = field(default_factory=list)
    inputs: list[tuple[Tensor, int | None]] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class Row:
    """How one experiment meets the contracts.

    Args:
        experiment: its name.
        trials: label -> a trial that takes a second or two, one for each way of training.
        loaders: whether test rows are altered -> what takes the place of the functions that load
            data, by their full names.
        plan: trial and result -> what each training should have had: the sampling modes of its
            calls, the KL weights and the learning rates. A number stands for all steps.
        recorded: trial, result and what was seen -> the metrics and the arrays that follow.
        choices: names of metrics and arrays that test rows do not touch.
        alone: changes of the configuration under which a test row is nobody's training row.
        copied: share of what a network predicts for that must be training rows, where these take
            the place of test rows.
    """

    experiment: str
    trials: Mapping[str, Trial]
    loaders: Callable[[bool], Mapping[str, Callable[..., Any]]]
    plan: Callable[[Trial, TrialResult], Sequence[tuple[set[str], Any, Any]]]
    recorded: Callable[[Trial, TrialResult, Seen], tuple[Mapping[str, Any], Mapping[str, Any]]]
    choices: Sequence[str] = ()
    alone: Mapping[str, Any] = field(default_factory=dict)
    copied: float = 1.0

    def run(self, label: str, *altered: bool) -> tuple[Trial, TrialResult, Seen]:
        """The trial, what it returns, and what it did; ``altered`` or not it runs ``alone``."""
        return _run(self, label, *(altered if self.alone or any(altered) else ()))


@cache
def _run(row: Row, label: str, *altered: bool) -> tuple[Trial, TrialResult, Seen]:
    trial = row.trials[label]
    trial = Trial({**trial.config, **(row.alone if altered else {})}, trial.seed)
    experiment = load(row.experiment)
    seen = Seen()
    with pytest.MonkeyPatch.context() as patch:
        for name, loader in row.loaders(*altered or [False]).items():
            patch.setattr(name, loader)
        with watched(seen):
            return trial, experiment.run(trial), seen


@contextmanager
def watched(seen: Seen) -> Iterator[None]:
    """Notes what the reproductions give to training functions and get from networks."""
    notes = dict.fromkeys(TRAINERS, _note_training) | dict.fromkeys(PREDICTORS, _note_outputs)
    modules = [m for name, m in sys.modules.items() if name.partition(".")[0] == "reproductions"]
    with pytest.MonkeyPatch.context() as patch:
        for function, note in notes.items():
            for module in modules:
                for name in [n for n, value in vars(module).items() if value is function]:
                    patch.setattr(module, name, wraps(function)(partial(note, seen, function)))
        yield


def _note_training(seen: Seen, trainer: Callable[..., Any], *args: Any, **named: Any) -> Any:
    bound = signature(trainer).bind(*args, **named)
    bound.apply_defaults()
    how = bound.arguments
    model, x, y = [*how.values()][:3]
    steps = range(how["n_steps"])
    weight = how["kl_weight"]
    schedule = how.get("schedule")
    weights = [weight(step) if callable(weight) else weight for step in steps]
    weights = torch.stack([torch.as_tensor(w, dtype=torch.float64).flatten() for w in weights])
    rate = how["lr"] if "lr" in how else _rate(how["optimizer"])
    rates = [[rate * (schedule(step) if schedule else 1.0)] for step in steps]
    rates = torch.tensor(rates, dtype=torch.float64)
    sampling = {how.get("sampling", "shared")}
    new = Training(model, x.clone(), y.clone(), sampling, weights, rates)
    if seen.trainings and seen.trainings[-1].model is model:  # the next epoch of the same training
        old = seen.trainings.pop()
        new.sampling |= old.sampling
        new.kl_weights = torch.cat([old.kl_weights, new.kl_weights])
        new.rates = torch.cat([old.rates, new.rates])
    seen.trainings.append(new)
    return trainer(*args, **named)


def _rate(optimizer: torch.optim.Optimizer | Callable[..., torch.optim.Optimizer]) -> float:
    if isinstance(optimizer, torch.optim.Optimizer):
        return optimizer.param_groups[0]["lr"]
    return optimizer([nn.Parameter(torch.zeros(1))]).param_groups[0]["lr"]


def _note_outputs(seen: Seen, predictor: Callable[..., Tensor], *args: Any, **how: Any) -> Tensor:
    given = signature(predictor).bind(*args, **how).arguments
    plain = predictor is inference.predict_batched and given["n_samples"] == 1
    seen.inputs.append((given["x"].clone(), None if plain else given.get("n_samples")))
    seen.outputs.append(predictor(*args, **how))
    return seen.outputs[-1]
