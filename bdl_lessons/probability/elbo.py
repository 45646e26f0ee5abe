r"""The loss of variational inference: expected negative log-likelihood plus KL. Lessons 02 and 04.

.. math:: -\frac{\mathrm{ELBO}}{N} = \frac1N \sum_n \mathbb{E}_q[-\log p(y_n \mid x_n, w)]
          + \frac{\mathrm{KL}(q \,\|\, p)}{N}

The data term is a mean over examples, the KL a positive sum over all weights, and ``N`` the size
of the training set, never that of the minibatch. Everything is in nats.
"""

import math
from collections.abc import Callable

from torch import Tensor

from bdl_lessons.core import validation
from bdl_lessons.core.devices import single


def elbo_loss(
    nll_mean: Tensor, kl: Tensor | float, n_train: int, kl_weight: float | Tensor = 1.0
) -> Tensor:
    """``nll_mean + kl_weight * kl / n_train``: minus the ELBO per training example, in nats.

    Args:
        nll_mean: mean negative log-likelihood per example, from any minibatch: 0-dim, or ``(M,)``
            for M networks.
        kl: positive sum over all weights in nats, in the shape of ``nll_mean``.
        n_train: number of examples in the whole training set.
        kl_weight: 1 for the ELBO, less during a warm-up (:func:`kl_warmup`). Any other value held
            to the end fits a tempered posterior. One number, or ``(M,)``.

    Raises:
        TypeError, ValueError: if shapes differ, ``n_train`` is no integer >= 1, or a number
            ``kl_weight`` is negative or not finite.

    >>> import torch
    >>> elbo_loss(torch.tensor(1.0), kl=8.0, n_train=4, kl_weight=0.5)
    tensor(2.)
    """
    if isinstance(kl, Tensor):
        validation.same_shape("kl", kl, "nll_mean", nll_mean)
    if not isinstance(kl_weight, Tensor):
        validation.non_negative("kl_weight", kl_weight)
    elif kl_weight.dim():
        validation.same_shape("kl_weight", kl_weight, "nll_mean", nll_mean)
    return nll_mean + kl_weight / validation.integer("n_train", n_train, 1) * kl


def gaussian_nll(output: Tensor, y: Tensor, tau: float | Tensor) -> Tensor:
    r"""``-log N(y; output, I/tau)`` summed over outputs, averaged over examples, in nats.

    .. math:: \frac{\tau}{2}\lVert y - \hat y\rVert^2 + \frac{D}{2}\log\frac{2\pi}{\tau}

    Args:
        output, y: ``(B, D)`` each, or ``(S, B, D)`` with a sample axis: the mean over it estimates
            the *expected* log-likelihood of the ELBO (not the predictive one of MC dropout).
        tau: noise precision in 1/(units of y)^2, > 0: one number, or a 0-dim tensor.

    Raises:
        TypeError, ValueError: if the shapes differ (``(B,)`` would broadcast to ``(B, B)``), a
            tensor ``tau`` has axes, or a number ``tau`` is not positive and finite.

    >>> import torch
    >>> output, y = torch.tensor([[1.0], [2.0]]), torch.tensor([[3.0], [2.0]])
    >>> gaussian_nll(output, y, tau=2 * math.pi).round(decimals=2)  # mean of pi * 4 and pi * 0
    tensor(6.2800)
    """
    validation.same_shape("output", output, "y", y)
    validation.shapes("output and y must be (..., B, D)", y)
    if isinstance(tau, Tensor):
        validation.shapes("tau must be a number or a 0-dim tensor ()", tau)
    else:
        validation.positive("tau", tau)
    log_tau = tau.log() if isinstance(tau, Tensor) else math.log(tau)
    squared = tau * (single(y) - single(output)).square() + math.log(2 * math.pi) - log_tau
    return squared.sum(-1).mean() / 2


def kl_warmup(n_steps: float, begin: float = 0.0, final: float = 1.0) -> Callable[[float], float]:
    """A schedule of the KL's weight: 0 up to ``begin``, then a line that ends at ``final``.

    It takes the step, in the units of ``begin`` and ``n_steps``, for instance updates or epochs:
    ``fit(model, x, y, nll, kl_weight=kl_warmup(1000), ...)``. With full weight from the first step
    the KL removes weights before the likelihood has had an effect; the published sparse variational
    dropout uses ``kl_warmup(15, begin=5)`` in epochs. Lessons 08 and 11.

    ``n_steps = 0`` is a jump; a ``final`` below 1 tempers the posterior. TypeError or ValueError if
    ``n_steps`` or ``final`` is negative or not finite, or ``begin`` is not finite.

    >>> schedule = kl_warmup(4, begin=1)
    >>> [schedule(step) for step in range(7)]
    [0.0, 0.0, 0.25, 0.5, 0.75, 1.0, 1.0]
    """
    validation.non_negative("n_steps", n_steps)
    validation.non_negative("final", final)
    validation.number("begin", begin)

    def schedule(step: float) -> float:
        if step >= begin + n_steps:
            return float(final)
        return 0.0 if step <= begin else final * (step - begin) / n_steps

    return schedule
