"""The instrument of the contracts: what an experiment trained, and what it asked its networks.

A :class:`Row` runs a small trial with made-up data while :func:`watched` notes every call of a
training function and every output of a network. The rules in ``test_contracts.py`` look at these
notes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial, wraps
from inspect import isfunction, signature
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from bdl_lessons import datasets, inference
from reproductions import Trial, TrialResult, load
from reproductions.datasets import splits
from reproductions.measure import mean_weights
from reproductions.posteriors.slang import fit_slang, predict_slang
from reproductions.posteriors.swag import predict_swag

TRAINERS = (
    inference.fit,
    inference.fit_batched,
    fit_slang,
)
PREDICTORS = (
    inference.predict,
    inference.predict_batched,
    mean_weights,
    predict_swag,
    predict_slang,
)
N_ROWS = 40


def yachts(altered: bool, name: str = "yacht") -> datasets.Regression:
    """Noise around a line.

    Altered: the test part of the first split has inputs of training rows and other targets.
    """
    generator = torch.Generator().manual_seed(0)
    x = 5 + torch.randn(N_ROWS, 3, generator=generator).double()
    y = 30 + 10 * (x[:, 0] + 0.3 * torch.randn(N_ROWS, generator=generator))
    train, test = map(torch.from_numpy, splits(N_ROWS, 1)[0])
    if altered:
        x[test] = x[train[: len(test)]]
        y[test] = y[test] + 100
    return datasets.Regression("yacht", x, y, ("",) * 3, "", "")


def pictures(
    altered: bool, shape: tuple[int, ...], name: str, n_train: int = 0, n_test: int = 0
) -> datasets.Classification:
    """Noise whose brightness gives the class away.

    Altered: the test images are training images with other labels.
    """
    generator = torch.Generator().manual_seed(len(name))
    y = torch.arange(n_train + n_test) % 10
    brightness = (y / 10)[:, None, None, None]
    x = torch.rand(len(y), *shape, generator=generator) + brightness
    x_test = x[n_train:]
    y_test = y[n_train:]
    if altered and n_train:
        x_test = x[:n_test]
        y_test = (y_test + 3) % 10
    classes = tuple("0123456789")
    return datasets.Classification(name, x[:n_train], y[:n_train], x_test, y_test, classes)


@dataclass
class Training:
    """All calls of a training function on one model, such as those of its epochs.

    Attributes:
        model: what was trained.
        x: the inputs of the last call.
        y: its targets.
        sampling: the sampling modes of all calls.
        kl_weights: of every step, ``(n_steps, M)`` of M networks.
        rates: the learning rate of every step, ``(n_steps, 1)``.
    """

    model: Any
    x: Tensor
    y: Tensor
    sampling: set[str]
    kl_weights: Tensor
    rates: Tensor

    def went_on(self, later: Training) -> Training:
        """This training together with a later call on the same model."""
        return Training(
            model=later.model,
            x=later.x,
            y=later.y,
            sampling=self.sampling | later.sampling,
            kl_weights=torch.cat([self.kl_weights, later.kl_weights]),
            rates=torch.cat([self.rates, later.rates]),
        )


class Plan(NamedTuple):
    """What a training should have had.

    Attributes:
        sampling: the sampling modes of its calls.
        kl_weights: of every step and network; a number stands for all steps.
        rates: the learning rate of every step; a number stands for all steps.
    """

    sampling: set[str]
    kl_weights: Any
    rates: Any


@dataclass
class Seen:
    """What an experiment did.

    Attributes:
        trainings: in their order.
        inputs: what was predicted for, and how many draws were asked for; ``None`` where the
            weights were not drawn.
        outputs: the predictions in their order, ``(S, B, ...)``, or ``(S, M, B, ...)`` of M
            networks.
    """

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
        plan: trial and result -> what each training should have had.
        recorded: trial, result and what was seen -> the metrics and the arrays that follow.
        choices: names of metrics and arrays that test rows do not touch.
        alone: changes of the configuration under which a test row is nobody's training row.
        copied: share of what a network predicts for that must be training rows, where these take
            the place of test rows.
    """

    experiment: str
    trials: Mapping[str, Trial]
    loaders: Callable[[bool], Mapping[str, Callable[..., Any]]]
    plan: Callable[[Trial, TrialResult], Sequence[Plan]]
    recorded: Callable[[Trial, TrialResult, Seen], tuple[Mapping[str, Any], Mapping[str, Any]]]
    choices: Sequence[str] = ()
    alone: Mapping[str, Any] = field(default_factory=dict)
    copied: float = 1.0

    def run(self, label: str) -> Run:
        """The trial as it stands in the row."""
        return _run(self, label, is_alone=False, altered=False)

    def run_beside(self, label: str, altered: bool) -> Run:
        """The trial as it is compared, under ``alone``, with altered test rows or without."""
        if not altered and not self.alone:
            return self.run(label)
        return _run(self, label, is_alone=True, altered=altered)


class Run(NamedTuple):
    """A trial, what it returned, and what it did."""

    trial: Trial
    result: TrialResult
    seen: Seen


@cache
def _run(row: Row, label: str, is_alone: bool, altered: bool) -> Run:
    """Each run once, however many rules look at it."""
    config = dict(row.trials[label].config)
    if is_alone:
        config.update(row.alone)
    trial = Trial(config, row.trials[label].seed)
    experiment = load(row.experiment)
    seen = Seen()
    with pytest.MonkeyPatch.context() as patch:
        for name, loader in row.loaders(altered).items():
            patch.setattr(name, loader)
        with watched(seen):
            return Run(trial, experiment.run(trial), seen)


@contextmanager
def watched(seen: Seen) -> Iterator[None]:
    """Notes what the reproductions give to training functions and get from networks."""
    noting = {}
    for trainer in TRAINERS:
        noting[trainer] = wraps(trainer)(partial(_note_training, seen, trainer))
    for predictor in PREDICTORS:
        noting[predictor] = wraps(predictor)(partial(_note_outputs, seen, predictor))
    with pytest.MonkeyPatch.context() as patch:
        for module_name, module in list(sys.modules.items()):
            if module_name.partition(".")[0] != "reproductions":
                continue
            for name, value in list(vars(module).items()):
                if isfunction(value) and value in noting:
                    patch.setattr(module, name, noting[value])
        yield


def _note_training(seen: Seen, trainer: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """Note what a training function is called with, and call it."""
    bound = signature(trainer).bind(*args, **named)
    bound.apply_defaults()
    options = bound.arguments
    model, x, y, *_ = options.values()
    training = Training(
        model=model,
        x=x.clone(),
        y=y.clone(),
        sampling={options.get("sampling", "shared")},
        kl_weights=_kl_weights(options["kl_weight"], options["n_steps"]),
        rates=_rates(options, options["n_steps"]),
    )
    if seen.trainings and seen.trainings[-1].model is model:  # the next epoch of the same training
        training = seen.trainings.pop().went_on(training)
    seen.trainings.append(training)
    return trainer(*args, **named)


def _kl_weights(kl_weight: Any, n_steps: int) -> Tensor:
    """``(n_steps, M)`` from a number, a tensor or a function of the step."""
    rows = []
    for step in range(n_steps):
        weight = kl_weight(step) if callable(kl_weight) else kl_weight
        rows.append(torch.as_tensor(weight, dtype=torch.float64).flatten())
    return torch.stack(rows)


def _rates(options: Mapping[str, Any], n_steps: int) -> Tensor:
    """``(n_steps, 1)``: the learning rate times its schedule, if there is one."""
    rate = options["lr"] if "lr" in options else _rate_of(options["optimizer"])
    schedule = options.get("schedule") or (lambda step: 1.0)
    factors = [schedule(step) for step in range(n_steps)]
    return rate * torch.tensor(factors, dtype=torch.float64)[:, None]


def _rate_of(optimizer: torch.optim.Optimizer | Callable[..., torch.optim.Optimizer]) -> float:
    """The learning rate of an optimizer, or of those that a function makes."""
    if not isinstance(optimizer, torch.optim.Optimizer):
        optimizer = optimizer([nn.Parameter(torch.zeros(1))])
    return optimizer.param_groups[0]["lr"]


def _note_outputs(seen: Seen, predictor: Callable[..., Tensor], *args: Any, **named: Any) -> Tensor:
    """Call a function that predicts, and note its inputs and outputs."""
    arguments = signature(predictor).bind(*args, **named).arguments
    n_samples = arguments.get("n_samples")
    if predictor is inference.predict_batched and n_samples == 1:  # networks without noise
        n_samples = None
    seen.inputs.append((arguments["x"].clone(), n_samples))
    outputs = predictor(*args, **named)
    seen.outputs.append(outputs)
    return outputs
