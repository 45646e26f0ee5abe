r"""Training a network by minimising minus the ELBO per example. Lessons 05 to 13.

.. math:: \frac1B \sum_{b=1}^B -\log p(y_b \mid x_b, w)
          + \mathrm{kl\_weight} \cdot \frac{\mathrm{KL}(q \,\|\, p)}{N}, \qquad w \sim q

A step draws a minibatch of B of the N examples and the weights, and follows the gradient.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import repeat

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR
from tqdm.auto import tqdm

from bdl_lessons.core import validation
from bdl_lessons.core.validation import typechecked
from bdl_lessons.models import Network, Sampling
from bdl_lessons.models.networks import refuse_own_draws
from bdl_lessons.probability import elbo_loss

OptimizerFactory = Callable[[Iterable[nn.Parameter]], Optimizer]
KLWeight = float | Tensor | Callable[[int], float | Tensor]

_CHECK_EVERY = 100
_BAR_AFTER_S = 5


@dataclass
class Run:
    """Where a training run stands, for the ``callback`` of :func:`fit`.

    >>> def report(run: Run) -> None:
    ...     if run.done and run.done % 1000 == 0:
    ...         print(f"{run.done} of {run.n_steps} steps, loss {run.losses[run.done - 1]:.2f}")

    Attributes:
        epoch: steps in an epoch; the order of the examples is drawn at its beginning.
        done: steps that were taken.
        losses: ``(n_steps, ...)``, the first ``done`` of them known; None before the first step.
    """

    n_steps: int
    epoch: int
    kl_weight: KLWeight
    nll: Callable[..., Tensor]
    done: int = 0
    losses: Tensor | None = None
    optimizer: Optimizer | None = None
    scheduler: LambdaLR | None = None


@typechecked
def fit(
    model: Network,
    x: Tensor,
    y: Tensor,
    nll: Callable[[Tensor, Tensor], Tensor],
    *,
    n_steps: int,
    generator: torch.Generator,
    optimizer: Optimizer | OptimizerFactory,
    batch_size: int | None = None,
    kl_weight: KLWeight = 1.0,
    sampling: Sampling = "per_example",
    schedule: Callable[[int], float] | None = None,
    callback: Callable[[Run], None] | None = None,
    progress: bool = True,
) -> Tensor:
    """Train ``model`` in place; returns the loss before each step, ``(n_steps,)``, nats an example.

    A network whose layers have fewer than about a thousand units trains no faster on several
    threads, and far slower beside other programs: call ``torch.set_num_threads(1)`` before.

    Args:
        x, y: the training set, ``(N, ...)`` each, on the model's device; ``x``, and ``y`` where it
            is no label, of the model's dtype: ``x.float()`` if you have not changed it.
        nll: mean negative log-likelihood of a minibatch, ``nll(output, y)``. For real targets
            ``partial(bdl_lessons.probability.gaussian_nll, tau=tau)`` with targets ``(N, L)``; for
            labels ``0, 1, 2, …`` of classes ``torch.nn.functional.cross_entropy``.
        generator: draws the minibatches and the weights. Its device is where noise is drawn.
        optimizer: of PyTorch, over the parameters of ``model``, or what makes it from them:
            ``adam(1e-3)``, ``sgd(1e-2)``.
        batch_size: examples in a minibatch, without replacement within an epoch; ``None``: all.
        kl_weight: factor on the KL; 0 is maximum likelihood. A function gives it for each step:
            ``kl_warmup(1000)``.
        sampling: which draw of the weights a step uses.
        schedule: factor on the learning rate at step i, e.g. ``lambda i: 1 - i / n_steps``.
        callback: is called with the :class:`Run` before the first step, when it may restore an
            earlier run by setting ``done`` and ``losses``, and after each step.
        progress: whether work of more than five seconds shows a bar with the time that remains, in
            a notebook or a terminal, unless the environment has ``TQDM_DISABLE=1``.

    Raises:
        TypeError, ValueError: if lengths, types or devices differ, ``n_steps`` or ``batch_size``
            cannot be, ``model`` has nothing to train, ``nll`` returns no 0-dim tensor,
            ``optimizer`` is none, makes none, or has other parameters, ``schedule`` gives no
            number, or ``model`` has a module that draws by itself, such as ``nn.Dropout``.
        FloatingPointError: if the loss is NaN or infinite; the message names the step.

    >>> from functools import partial
    >>> from torch.nn.functional import cross_entropy
    >>> from bdl_lessons.models import BinaryDropout, mlp
    >>> generator = torch.Generator().manual_seed(0)
    >>> network = mlp((2, 16, 2), partial(BinaryDropout, p_drop=0.1))
    >>> x = torch.randn(100, 2, generator=generator)
    >>> y = (x[:, 0] > 0).long()
    >>> losses = fit(
    ...     network,
    ...     x,
    ...     y,
    ...     cross_entropy,
    ...     n_steps=200,
    ...     batch_size=20,
    ...     optimizer=adam(1e-2),
    ...     generator=generator,
    ... )
    >>> bool(losses[-1] < losses[0])
    True
    """
    validation.shapes("x must be (N, ...) and y (N, ...)", x, y)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not trained:
        raise ValueError("model has nothing to train: no parameter of it requires a gradient")
    refuse_own_draws(model)
    if nll is cross_entropy and y.dim() == 1 and y.is_floating_point():
        raise _not_labels(y)
    check_data(x, y, "the model's parameters", trained[0])
    n_train = len(x)
    n_steps = validation.integer("n_steps", n_steps, 1)
    batches = minibatches(x, y, batch_size, generator)

    def loss_at(step: int) -> Tensor:
        inputs, targets = next(batches)
        nll_mean = mean_of(nll, model(inputs, sampling, generator), targets)
        return with_kl(nll_mean, model, n_train, kl_weight, step)

    run = Run(n_steps, n_train // int(batch_size or n_train), kl_weight, nll)
    return optimize(model.parameters(), loss_at, run, optimizer, schedule, progress, callback)


def mean_of(nll: Callable[..., Tensor], *args: Tensor) -> Tensor:
    """What ``nll`` returns; TypeError unless it is a 0-dim tensor.

    ValueError for labels that PyTorch's ``cross_entropy`` cannot take.
    """
    try:
        mean = nll(*args)
    except (IndexError, RuntimeError) as error:
        if nll is not cross_entropy or isinstance(error, torch.OutOfMemoryError):
            raise
        raise _not_labels(args[1]) from error
    if not isinstance(mean, Tensor) or mean.dim():
        got = getattr(mean, "shape", mean)
        raise TypeError(f"nll must return a 0-dim mean, a tensor without item(), got {got}")
    return mean


def _not_labels(y: Tensor) -> ValueError:
    """The error for labels ``y`` of another type, shape or first number than PyTorch takes."""
    wanted = "labels 0, 1, 2, … of int64 and shape (N,)"
    got = f"{y.dtype} of shape {tuple(y.shape)}"
    remedy = "y.long() has the type, y.squeeze(1) the shape, y - 1 counts from 0"
    return ValueError(f"y must be {wanted}, got {got}: {remedy}")


def check_data(x: Tensor, y: Tensor, other: str, parameter: Tensor) -> None:
    """Raise unless ``x``, and ``y`` too if it is no label, can meet the parameters."""
    if not x.numel():
        raise ValueError(f"x must have examples, got shape {tuple(x.shape)}")
    validation.same_dtype("x", x, other, parameter)
    if y.is_floating_point():
        validation.same_dtype("y", y, other, parameter)
    elif y.device != x.device:
        raise TypeError(f"y must be on the device of x, {x.device}, got {y.device}")


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
    run: Run,
    optimizer: Optimizer | OptimizerFactory,
    schedule: Callable[[int], float] | None,
    progress: bool,
    callback: Callable[[Run], None] | None = None,
) -> Tensor:
    """Minimise the sum of ``loss_at(step)``, ``(...)``; returns the losses, ``(n_steps, ...)``.

    Raises FloatingPointError if a loss is NaN or infinite; the message names the step. TypeError if
    ``optimizer`` is none and makes none, or ``schedule`` gives no number.
    """

    def factor(step: int) -> float:
        return validation.number(f"schedule({step})", schedule(step))

    optimizer = run.optimizer = optimizer_of(list(parameters), optimizer)
    scheduler = run.scheduler = LambdaLR(optimizer, factor) if schedule else None
    if callback:
        callback(run)
    steps = range(run.done, run.n_steps)
    if progress and "TQDM_DISABLE" not in os.environ:  # a bar in a notebook ignores it
        steps = tqdm(
            steps,
            initial=run.done,
            total=run.n_steps,
            unit="step",
            leave=False,
            delay=_BAR_AFTER_S,
            disable=None,  # not in a log
        )
    for step in steps:
        loss = loss_at(step)
        if run.losses is None:  # one block: small tensors that stay would splinter the memory
            run.losses = loss.new_empty(run.n_steps, *loss.shape)
        optimizer.zero_grad(set_to_none=True)
        loss.sum().backward()
        optimizer.step()
        if scheduler:
            scheduler.step()
        run.losses[step] = loss.detach()
        run.done = step + 1
        if callback:
            callback(run)
        if run.done % _CHECK_EVERY == 0 or run.done == run.n_steps:
            _raise_if_diverged(run.losses[: run.done])
    return run.losses


def optimizer_of(
    parameters: list[nn.Parameter], optimizer: Optimizer | OptimizerFactory
) -> Optimizer:
    """The optimizer of these parameters: as it was given, or as it is made from them.

    Raises TypeError if that is no optimizer, ValueError if it has none of the parameters.
    """
    if not isinstance(optimizer, Optimizer):
        made_from = optimizer
        optimizer = made_from(parameters)
        if not isinstance(optimizer, Optimizer):
            rule = "optimizer must be one of torch.optim or make one, as adam(1e-3) does"
            raise TypeError(f"{rule}, got {optimizer!r} from {made_from!r}")
    trained = {id(each) for group in optimizer.param_groups for each in group["params"]}
    if trained.isdisjoint(map(id, parameters)):
        rule = "optimizer must have the parameters that are trained, it has none of them"
        raise ValueError(f"{rule}: write torch.optim.Adam(model.parameters(), lr=1e-3)")
    return optimizer


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
        TypeError, ValueError: at the first minibatch, if ``batch_size`` is no integer in 1..N.
    """
    n_train = x.shape[1 if batched else 0]
    if batch_size in (None, n_train):
        yield from repeat((x, y))
    if (batch_size := validation.integer("batch_size", batch_size, 1)) > n_train:
        raise ValueError(f"batch_size must be in 1..{n_train}, got {batch_size}")
    network = (torch.arange(len(x), device=x.device)[:, None],) if batched else ()
    options = {"generator": generator, "device": generator.device}
    n_used = n_train // batch_size * batch_size
    while True:
        if batched:
            order = torch.rand(x.shape[:2], **options).argsort(1)
        else:
            order = torch.randperm(n_train, **options)
        for chosen in order[..., :n_used].to(x.device).split(batch_size, -1):
            yield x[*network, chosen], y[*network, chosen]


@typechecked
def adam(lr: float) -> OptimizerFactory:
    """Adam in its fused form; ``lr``: the learning rate, >= 0.

    >>> fused_adam = adam(1e-3)([nn.Parameter(torch.zeros(2))])
    >>> fused_adam.defaults["lr"]
    0.001
    """
    validation.non_negative("lr", lr)
    return lambda parameters: torch.optim.Adam(parameters, lr=lr, fused=True)


@typechecked
def sgd(lr: float, momentum: float = 0.9) -> OptimizerFactory:
    """Gradient descent with momentum, both >= 0, in its fused form.

    >>> sgd(0.1, momentum=0.5)([nn.Parameter(torch.zeros(2))]).defaults["momentum"]
    0.5
    """
    validation.non_negative("lr", lr)
    validation.non_negative("momentum", momentum)
    return lambda parameters: torch.optim.SGD(parameters, lr=lr, momentum=momentum, fused=True)


def _raise_if_diverged(losses: Tensor) -> None:
    recent = losses[-_CHECK_EVERY:]
    bad = (~torch.isfinite(recent)).nonzero()
    if len(bad):
        where = tuple(bad[0].tolist())
        step = len(losses) - len(recent) + where[0]
        remedy = "lower the learning rate, or look for NaN in x and y"
        raise FloatingPointError(f"the loss became {recent[where].item()} at step {step}: {remedy}")
