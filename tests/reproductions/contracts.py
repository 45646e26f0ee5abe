"""What every experiment keeps, whatever it measures; ``test_contracts`` holds a row for each.

1. Other test rows change no training input and no choice.
2. Every method is trained with its own sampling mode, KL weight and learning rate.
3. What is recorded is its definition, computed again from the outputs of the networks.
4. A network sees test rows on the scale of the training rows, as often as the trial says.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import wraps
from inspect import signature
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from bdl_lessons import datasets, inference
from bdl_lessons.reference import GaussianProcess
from reproductions import Trial, TrialResult, load
from reproductions.datasets import splits
from reproductions.measure import mean_weights
from reproductions.posteriors.slang import fit_slang, predict_slang
from reproductions.posteriors.swag import predict_swag

TRAINERS = (inference.fit, inference.fit_batched, fit_slang)
PREDICTORS = (
    inference.predict,
    inference.predict_batched,
    mean_weights,
    predict_swag,
    predict_slang,
)


N_ROWS = 40


def yachts(altered, name="yacht"):
    """Noise around a line. Altered: the test part of the first split has inputs of training rows
    and other targets."""
    generator = torch.Generator().manual_seed(0)
    x = 5 + torch.randn(N_ROWS, 3, generator=generator).double()
    y = 30 + 10 * (x[:, 0] + 0.3 * torch.randn(N_ROWS, generator=generator))
    train, test = map(torch.from_numpy, splits(N_ROWS, 1)[0])
    if altered:
        x[test], y[test] = x[train[: len(test)]], y[test] + 100
    return datasets.Regression("yacht", x, y, ("",) * 3, "", "")


def pictures(altered, shape, name, n_train=0, n_test=0):
    """Noise whose brightness gives the class away. Altered: training images with other labels."""
    generator = torch.Generator().manual_seed(len(name))
    y = torch.arange(n_train + n_test) % 10
    x = torch.rand(len(y), *shape, generator=generator) + (y / 10)[:, None, None, None]
    x_test, y_test = x[n_train:], y[n_train:]
    if altered and n_train:
        x_test, y_test = x[:n_test], (y_test + 3) % 10
    classes = tuple("0123456789")
    return datasets.Classification(name, x[:n_train], y[:n_train], x_test, y_test, classes)


@dataclass(frozen=True)
class Training:
    """One training: all calls of a training function on one model.

    Args:
        x, y: what was trained on.
        sampling: the modes of its calls.
        kl_weights: at every step: ``(n_steps, 1)``, or ``(n_steps, M)`` for M networks.
        rates: the learning rate at every step, ``(n_steps, 1)``.
    """

    x: Tensor
    y: Tensor
    sampling: set[str]
    kl_weights: Tensor
    rates: Tensor


@dataclass
class Seen:
    """What an experiment did: its trainings, and every output it asked a network for."""

    models: list[Any] = field(default_factory=list)
    trainings: list[Training] = field(default_factory=list)
    inputs: list[tuple[Tensor, int | None]] = field(default_factory=list)
    """What was predicted for, and how many draws were asked for, if the weights were drawn."""
    outputs: list[Tensor] = field(default_factory=list)
    """In their order: ``(S, B, ...)``, or ``(S, M, B, ...)`` of M networks."""


@dataclass(frozen=True)
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

    def run(
        self, label: str, altered: bool = False, **changes: Any
    ) -> tuple[Trial, TrialResult, Seen]:
        """The trial, what it returns, and what it did; the second time what was found before."""
        key = (self.experiment, label, altered, *changes.items())
        if key not in _RUNS:
            trial = self.trials[label]
            trial = Trial({**trial.config, **changes}, trial.seed)
            experiment = load(self.experiment)
            with pytest.MonkeyPatch.context() as patch:
                for name, loader in self.loaders(altered).items():
                    patch.setattr(name, loader)
                with watched() as seen:
                    _RUNS[key] = trial, experiment.run(trial), seen
        return _RUNS[key]


_RUNS: dict[tuple, tuple[Trial, TrialResult, Seen]] = {}


def check_test_rows_change_no_training(row: Row, label: str) -> None:
    (_, first, before), (_, second, after) = (
        row.run(label, altered, **row.alone) for altered in (False, True)
    )
    assert len(before.trainings) == len(after.trainings) > 0
    for one, other in zip(before.trainings, after.trainings, strict=True):
        torch.testing.assert_close((one.x, one.y), (other.x, other.y))
    for name in row.choices:
        found = [result.arrays.get(name, result.metrics.get(name)) for result in (first, second)]
        assert found[0] is not None, name
        torch.testing.assert_close(*map(_tensor, found), rtol=1e-4, atol=1e-6, msg=name)
    found, other = ({**result.metrics, **result.arrays} for result in (first, second))
    changed = [values for name, values in found.items() if values != other[name]]
    assert any(_tensor(values).isfinite().all() for values in changed), "nothing saw the test rows"


def check_test_rows_are_on_the_scale_of_training(row: Row, label: str) -> None:
    """The altered test rows are copies of training rows: what a network sees must be some too."""
    (trial, _, before), (_, _, after) = (
        row.run(label, altered, **row.alone) for altered in (False, True)
    )
    train = _rows(after.trainings[-1].x)
    pairs = zip(before.inputs, after.inputs, strict=True)
    tests = [new for old, new in pairs if not torch.equal(old[0], new[0])]  # bits: copies
    assert tests, "no network saw the test rows"
    for x, n_samples in tests:
        assert n_samples in (None, trial.config.get("n_samples"))
        nearest = torch.cdist(_rows(x), train).min(1).values
        assert (nearest < 1e-3).double().mean() >= row.copied


def _rows(x: Tensor) -> Tensor:
    """Images ``(N, C, H, W)``, or rows ``(N, K)`` or ``(M, N, K)``, as ``(…, K)``."""
    return (x.flatten(1) if x.dim() == 4 else x.flatten(0, -2)).double()


def check_each_method_has_its_plan(row: Row, label: str) -> None:
    trial, result, seen = row.run(label)
    plan = row.plan(trial, result)
    assert len(seen.trainings) == len(plan)
    for training, (sampling, kl_weights, rates) in zip(seen.trainings, plan, strict=True):
        assert training.sampling == sampling
        expected = _tensor(kl_weights), _tensor(rates).reshape(-1, 1)
        for found, wanted in zip((training.kl_weights, training.rates), expected, strict=True):
            wanted = wanted.reshape(1, -1) if wanted.dim() < 2 else wanted
            torch.testing.assert_close(found, wanted.expand_as(found), rtol=1e-4, atol=1e-9)


def check_the_record_is_its_definition(row: Row, label: str) -> None:
    trial, result, seen = row.run(label)
    expected = row.recorded(trial, result, seen)
    assert any(expected)
    for values, wanted in zip((result.metrics, result.arrays), expected, strict=True):
        for name, value in wanted.items():
            error = _tensor(values[name]) - _tensor(value)
            assert (error.abs() <= 1e-4 + 1e-3 * _tensor(value).abs()).all(), name


def _tensor(values: Any) -> Tensor:
    return torch.as_tensor(values, dtype=torch.float64)


@contextmanager
def watched() -> Iterator[Seen]:
    """Notes what the reproductions give to training functions and get from networks."""
    seen = Seen()
    with pytest.MonkeyPatch.context() as patch:
        for trainer in TRAINERS:
            _replace(patch, trainer, _watched_trainer(trainer, seen))
        for predictor in PREDICTORS:
            _replace(patch, predictor, _watched_predictor(predictor, seen))
        _replace(patch, GaussianProcess, _watched_process(seen))
        yield seen


def _replace(patch: pytest.MonkeyPatch, original: Any, watching: Any) -> None:
    """In every module of the reproductions that has imported ``original``."""
    modules = [m for name, m in sys.modules.items() if name.partition(".")[0] == "reproductions"]
    for module in modules:
        for name in [n for n, value in vars(module).items() if value is original]:
            patch.setattr(module, name, watching)


def _watched_trainer(trainer: Callable[..., Any], seen: Seen) -> Callable[..., Any]:
    @wraps(trainer)
    def watching(model: Any, x: Tensor, y: Tensor, *args: Any, **how: Any) -> Any:
        bound = signature(trainer).bind(model, x, y, *args, **how)
        bound.apply_defaults()
        _note(seen, model, x, y, bound.arguments)
        return trainer(model, x, y, *args, **how)

    return watching


def _note(seen: Seen, model: Any, x: Tensor, y: Tensor, how: Mapping[str, Any]) -> None:
    steps, weight = range(how["n_steps"]), how["kl_weight"]
    weights = [weight(step) if callable(weight) else weight for step in steps]
    weights = torch.stack([torch.as_tensor(w, dtype=torch.float64).flatten() for w in weights])
    schedule = how.get("schedule") or (lambda step: 1.0)
    rate = how["lr"] if "lr" in how else _rate(how["optimizer"])
    rates = torch.tensor([[rate * schedule(step)] for step in steps], dtype=torch.float64)
    new = Training(x.clone(), y.clone(), {how.get("sampling", "shared")}, weights, rates)
    if seen.models and seen.models[-1] is model:  # the next epoch of the same training
        old = seen.trainings.pop()
        new = replace(
            new,
            sampling=old.sampling | new.sampling,
            kl_weights=torch.cat([old.kl_weights, new.kl_weights]),
            rates=torch.cat([old.rates, new.rates]),
        )
    else:
        seen.models.append(model)
    seen.trainings.append(new)


def _rate(optimizer: Callable[..., torch.optim.Optimizer]) -> float:
    return optimizer([nn.Parameter(torch.zeros(1))]).param_groups[0]["lr"]


def _watched_predictor(predictor: Callable[..., Tensor], seen: Seen) -> Callable[..., Tensor]:
    @wraps(predictor)
    def watching(*args: Any, **how: Any) -> Tensor:
        given = signature(predictor).bind(*args, **how).arguments
        plain = predictor is inference.predict_batched and given["n_samples"] == 1
        n_samples = None if plain else given.get("n_samples")
        seen.inputs.append((given["x"].clone(), n_samples))
        seen.outputs.append(predictor(*args, **how))
        return seen.outputs[-1]

    return watching


def _watched_process(seen: Seen) -> type[GaussianProcess]:
    class Watched(GaussianProcess):
        def __init__(self, x: Tensor, y: Tensor, *args: Any, **how: Any) -> None:
            none = torch.zeros(0, 1, dtype=torch.float64)
            seen.models.append(self)
            seen.trainings.append(Training(x.clone(), y.clone(), {"exact"}, none, none))
            super().__init__(x, y, *args, **how)

        def predict(self, x: Tensor) -> tuple[Tensor, Tensor]:
            seen.inputs.append((x.clone(), None))
            return super().predict(x)

    return Watched
