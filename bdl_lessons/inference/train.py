r"""Training a network by minimising minus the ELBO per example. Lessons 05 to 12.

.. math:: \frac1B \sum_{b=1}^B -\log p(y_b \mid x_b, w)
          + \mathrm{kl\_weight} \cdot \frac{\mathrm{KL}(q \,\|\, p)}{N}, \qquad w \sim q

A step draws a minibatch of B of the N examples and the weights, and follows the gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import repeat

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from bdl_lessons.core import validation
from bdl_lessons.core.validation import typechecked
from bdl_lessons.models import Network, Sampling
from bdl_lessons.probability import elbo_loss

NegativeLogLikelihood = Callable[[Tensor, Tensor], Tensor]
OptimizerFactory = Callable[[Iterable[nn.Parameter]], Optimizer]
KLWeight = float | Tensor | Callable[[int], float | Tensor]

_CHECK_EVERY = 100


@dataclass
class Run:
    """Where a training run stands, for the ``callback`` of :func:`fit`.

    Attributes:
        epoch: steps in an epoch; the order of the examples is drawn at its beginning.
        done: steps that were taken.
        losses: ``(n_steps, ...)``, the first ``done`` of them known; None before the first step.
    """

    optimizer: Optimizer
    scheduler: LambdaLR | None
    n_steps: int
    epoch: int
    done: int = 0
    losses: Tensor | None = None


Callback = Callable[[Run], None]


@typechecked
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
    kl_weight: KLWeight = 1.0,
    sampling: Sampling = "per_example",
    schedule: Callable[[int], float] | None = None,
    callback: Callback | None = None,
) -> Tensor:
    """Train ``model`` in place; returns the loss before each step, ``(n_steps,)``, nats an example.

    Args:
        x, y: the training set, ``(N, ...)`` each, on the model's device.
        nll: mean negative log-likelihood of a minibatch, ``nll(output, y)``: for instance
            ``partial(gaussian_nll, tau=tau)`` or ``torch.nn.functional.cross_entropy``.
        generator: draws the minibatches and the weights. Its device is where noise is drawn.
        optimizer: makes the optimizer from the parameters: ``adam(1e-3)``, ``sgd(1e-2)``.
        batch_size: examples in a minibatch, without replacement within an epoch; ``None``: all.
        kl_weight: factor on the KL; 0 is maximum likelihood. A function gives it for each step:
            ``lambda step: kl_warmup(step, 0, 1000)``.
        sampling: which draw of the weights a step uses.
        schedule: factor on the learning rate at step i, e.g. ``inverse_decay(1e-4, 0.25)``.
        callback: is called with the :class:`Run` before the first step, when it may restore an
            earlier run by setting ``done`` and ``losses``, and after each step.

    Raises:
        TypeError, ValueError: if lengths differ, ``x`` has another dtype or device than the
            parameters, ``n_steps`` or ``batch_size`` cannot be, nothing in ``model`` can be
            trained, or ``nll`` returns more than one number.
        FloatingPointError: if the loss is NaN or infinite; the message names the step.
    """
    n_train = len(x)
    if len(y) != n_train or n_train == 0:
        raise ValueError(f"x and y must have the same number N > 0, got {len(x)} and {len(y)}")
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not trained:
        raise ValueError("model has nothing to train: no parameter of it requires a gradient")
    validation.same_dtype("x", x, "the model's parameters", trained[0])
    validation.integer("n_steps", n_steps, 1)
    batches = minibatches(x, y, batch_size, generator)

    def loss_at(step: int) -> Tensor:
        inputs, targets = next(batches)
        nll_mean = nll(model(inputs, sampling, generator), targets)
        if nll_mean.shape:
            raise ValueError(f"nll must return a 0-dim mean, got shape {tuple(nll_mean.shape)}")
        return with_kl(nll_mean, model, n_train, kl_weight, step)

    epoch = n_train // (batch_size or n_train)
    return optimize(model.parameters(), loss_at, n_steps, optimizer, schedule, callback, epoch)


def with_kl(
    nll_mean: Tensor, model: nn.Module, n_train: int, kl_weight: KLWeight, step: int
) -> Tensor:
    """The loss of a step; where the weight of the KL is the number 0, the KL is not computed."""
    weight = kl_weight(step) if callable(kl_weight) else kl_weight
    no_kl = not isinstance(weight, Tensor) and weight == 0
    return nll_mean if no_kl else elbo_loss(nll_mean, model.kl(), n_train, weight)


def optimize(
    parameters: Iterable[nn.Parameter],
    loss_at: Callable[[int], Tensor],
    n_steps: int,
    make_optimizer: OptimizerFactory,
    schedule: Callable[[int], float] | None = None,
    callback: Callback | None = None,
    epoch: int = 1,
) -> Tensor:
    """Minimise the sum of ``loss_at(step)``, ``(...)``; returns the losses, ``(n_steps, ...)``.

    Raises:
        FloatingPointError: if a loss is NaN or infinite; the message names the step.
    """
    optimizer = make_optimizer(parameters)
    scheduler = LambdaLR(optimizer, schedule) if schedule else None
    run = Run(optimizer, scheduler, n_steps, epoch)
    if callback:
        callback(run)
    for step in range(run.done, n_steps):
        loss = loss_at(step)
        if run.losses is None:  # one block: small tensors that stay would splinter the memory
            run.losses = loss.new_empty(n_steps, *loss.shape)
        optimizer.zero_grad(set_to_none=True)
        loss.sum().backward()
        optimizer.step()
        if scheduler:
            scheduler.step()
        run.losses[step] = loss.detach()
        run.done = step + 1
        if callback:
            callback(run)
        if run.done % _CHECK_EVERY == 0 or run.done == n_steps:
            _raise_if_diverged(run.losses[: run.done])
    return run.losses


def minibatches(
    x: Tensor, y: Tensor, batch_size: int | None, generator: torch.Generator, batched: bool = False
) -> Iterator[tuple[Tensor, Tensor]]:
    """Minibatches of ``x`` and ``y`` without end, without replacement within an epoch.

    An epoch has only full minibatches: the examples left over at its end are skipped.

    Args:
        x, y: ``(N, ...)`` each, or with ``batched`` ``(M, N, ...)`` for M networks, each of which
            sees its own examples in an order of its own.
        batch_size: ``None`` or N: all examples in their order, and nothing is drawn.

    Raises:
        TypeError, ValueError: if ``batch_size`` is no integer in 1..N.
    """
    n_train = x.shape[1 if batched else 0]
    if batch_size in (None, n_train):
        return repeat((x, y))
    if validation.integer("batch_size", batch_size, 1) > n_train:
        raise ValueError(f"batch_size must be in 1..{n_train}, got {batch_size}")
    return _minibatches(x, y, batch_size, generator, batched)


def _minibatches(x, y, batch_size, generator, batched) -> Iterator[tuple[Tensor, Tensor]]:
    network = (torch.arange(len(x), device=x.device)[:, None],) if batched else ()
    while True:
        if batched:
            keys = torch.rand(x.shape[:2], generator=generator, device=generator.device)
            order = keys.argsort(1)
        else:
            order = torch.randperm(len(x), generator=generator, device=generator.device)
        n_used = order.shape[-1] // batch_size * batch_size
        for chosen in order[..., :n_used].to(x.device).split(batch_size, -1):
            yield x[*network, chosen], y[*network, chosen]


@typechecked
def adam(lr: float) -> OptimizerFactory:
    """Adam in its fused form; ``lr``: the learning rate, >= 0."""
    validation.non_negative("lr", lr)
    return lambda parameters: torch.optim.Adam(parameters, lr=lr, fused=True)


@typechecked
def sgd(lr: float, momentum: float = 0.9) -> OptimizerFactory:
    """Gradient descent with momentum, both >= 0, in its fused form."""
    validation.non_negative("lr", lr)
    validation.non_negative("momentum", momentum)
    return lambda parameters: torch.optim.SGD(parameters, lr=lr, momentum=momentum, fused=True)


@typechecked
def inverse_decay(gamma: float, power: float) -> Callable[[int], float]:
    """Caffe's ``inv`` policy: the factor ``(1 + gamma * step) ** -power`` on the learning rate."""
    validation.non_negative("gamma", gamma)
    validation.non_negative("power", power)
    return lambda step: (1 + gamma * step) ** -power


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
