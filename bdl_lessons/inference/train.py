"""Fitting a network by minimising ``nll_mean + kl_weight * kl / n_train``."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from bdl_lessons.inference.checkpoint import Checkpoint
from bdl_lessons.models import Network, Sampling

NegativeLogLikelihood = Callable[[Tensor, Tensor], Tensor]
OptimizerFactory = Callable[[Iterable[nn.Parameter]], Optimizer]

_CHECK_EVERY = 100


def fit(
    model: Network,
    x: Tensor,
    y: Tensor,
    nll: NegativeLogLikelihood,
    *,
    n_steps: int,
    generator: torch.Generator,
    optimizer: OptimizerFactory,
    batch_size: int | None = None,
    kl_weight: float | Callable[[int], float] = 1.0,
    sampling: Sampling = "per_example",
    schedule: Callable[[int], float] | None = None,
    checkpoint: Path | None = None,
) -> Tensor:
    """Train ``model`` in place; returns the loss before each step, ``(n_steps,)``, nats a row.

    Args:
        x, y: the training set, ``(N, ...)`` each, on the model's device.
        nll: mean negative log likelihood of a minibatch, ``nll(output, y)``: for instance
            ``gaussian_nll(tau)`` or ``torch.nn.functional.cross_entropy``.
        generator: draws the minibatches and the weights. Its device is where noise is drawn.
        optimizer: makes the optimiser from the parameters: ``adam(1e-3)``, ``sgd(1e-2)``.
        batch_size: rows in a minibatch, without replacement within an epoch; ``None``: all rows.
        kl_weight: factor on the KL; 0 is maximum likelihood. A function gives it for each step:
            ``lambda step: kl_warmup(step, 0, 1000)``.
        sampling: which draw of the weights a step uses.
        schedule: factor on the learning rate at step i, e.g. ``inverse_decay(1e-4, 0.25)``.
        checkpoint: a file for the state of the run, written about once a minute. If it is there,
            the run goes on from it; see :mod:`bdl_lessons.inference.checkpoint`.

    Raises:
        ValueError: if lengths differ, ``n_steps`` or ``batch_size`` cannot be, or the checkpoint is
            of another run.
        FloatingPointError: if the loss is NaN or infinite; the message names the step.
    """
    n_train = len(x)
    if len(y) != n_train or n_train == 0:
        raise ValueError(f"x and y must have the same number of rows > 0, got {len(x)}, {len(y)}")
    if n_steps < 1:
        raise ValueError(f"n_steps must be >= 1, got {n_steps}")
    weight_at = kl_weight if callable(kl_weight) else lambda step: kl_weight
    minibatches = _minibatches(n_train, batch_size, n_steps, generator)

    def loss_at(step: int) -> Tensor:
        rows = next(minibatches)
        inputs, targets = (x, y) if rows is None else (x[rows], y[rows])
        loss = nll(model(inputs, sampling, generator), targets)
        weight = weight_at(step)
        return loss + weight / n_train * model.kl() if weight else loss

    kept = None
    if checkpoint:
        epoch = n_train // (batch_size or n_train)
        kept = Checkpoint(Path(checkpoint), model, generator, int(n_steps), epoch, n_train)
    return optimize(model.parameters(), loss_at, n_steps, optimizer, schedule, kept)


def optimize(
    parameters: Iterable[nn.Parameter],
    loss_at: Callable[[int], Tensor],
    n_steps: int,
    optimizer: OptimizerFactory,
    schedule: Callable[[int], float] | None = None,
    checkpoint: Checkpoint | None = None,
) -> Tensor:
    """Step down the sum of ``loss_at(step)``, ``(...)``; returns the losses, ``(n_steps, ...)``.

    Raises:
        FloatingPointError: if a loss is NaN or infinite; the message names the step.
    """
    stepper = optimizer(parameters)
    scheduler = LambdaLR(stepper, schedule) if schedule else None
    done, losses = checkpoint.load(stepper, scheduler) if checkpoint else (0, None)
    for step in range(done, n_steps):
        loss = loss_at(step)
        if losses is None:  # one block for all: small tensors that stay would splinter the memory
            losses = loss.new_empty(n_steps, *loss.shape)
        stepper.zero_grad(set_to_none=True)
        loss.sum().backward()
        stepper.step()
        if scheduler:
            scheduler.step()
        losses[step] = loss.detach()
        due = checkpoint is not None and checkpoint.is_due(step + 1)
        if due or (step + 1) % _CHECK_EVERY == 0 or step + 1 == n_steps:
            _raise_if_diverged(losses[: step + 1])
        if due:
            checkpoint.save(step + 1, losses, stepper, scheduler)
    return losses


def gaussian_nll(tau: float) -> NegativeLogLikelihood:
    """``-log N(y; f, I/tau)`` summed over outputs, averaged over rows, in nats.

    Raises:
        ValueError: if ``tau`` is not finite and > 0.
    """
    if not (tau > 0 and math.isfinite(tau)):
        raise ValueError(f"tau must be a precision: finite and > 0, got {tau}")

    return lambda output, y: gaussian_nll_at(output, y, tau)


def gaussian_nll_at(output: Tensor, y: Tensor, tau: float | Tensor) -> Tensor:
    """:func:`gaussian_nll` with the precision as an argument: one number, or a 0-dim tensor."""
    if output.dim() < 2 or output.shape != y.shape:
        raise ValueError(
            "output and y must have one shape, (B, D) or (S, B, D), "
            f"got {tuple(output.shape)} and {tuple(y.shape)}"
        )
    log_tau = tau.log() if isinstance(tau, Tensor) else math.log(tau)
    squared = tau * (y - output).square() + math.log(2 * math.pi) - log_tau
    return squared.sum(-1).mean() / 2


def adam(lr: float) -> OptimizerFactory:
    """Adam in its fused form."""
    return lambda parameters: torch.optim.Adam(parameters, lr=lr, fused=True)


def sgd(lr: float, momentum: float = 0.9) -> OptimizerFactory:
    """Gradient descent with momentum in its fused form."""
    return lambda parameters: torch.optim.SGD(parameters, lr=lr, momentum=momentum, fused=True)


def inverse_decay(gamma: float, power: float) -> Callable[[int], float]:
    """Caffe's ``inv`` policy: the factor ``(1 + gamma * step) ** -power`` on the learning rate."""
    return lambda step: (1 + gamma * step) ** -power


def _minibatches(
    n_train: int, batch_size: int | None, n_steps: int, generator: torch.Generator
) -> Iterator[Tensor | None]:
    """``n_steps`` index tensors, a new permutation each epoch; ``None`` stands for all rows."""
    if batch_size is None or batch_size == n_train:
        yield from [None] * n_steps
        return
    if not 1 <= batch_size <= n_train:
        raise ValueError(f"batch_size must be in 1..{n_train}, got {batch_size}")
    done = 0
    while done < n_steps:
        order = torch.randperm(n_train, generator=generator, device=generator.device)
        full_batches = order[: n_train // batch_size * batch_size].split(batch_size)
        yield from full_batches[: n_steps - done]
        done += len(full_batches)


def _raise_if_diverged(losses: Tensor) -> None:
    recent = losses[-_CHECK_EVERY:]
    bad = (~torch.isfinite(recent)).nonzero()
    if len(bad):
        where = tuple(bad[0].tolist())
        step = len(losses) - len(recent) + where[0]
        raise FloatingPointError(
            f"the loss became {recent[where].item()} at step {step}: lower the learning rate, "
            "or look for NaN in x and y"
        )
