r"""The loss of variational inference: what the data cost, plus what the posterior costs.

.. math:: -\frac{\mathrm{ELBO}}{N} = \frac1N \sum_n \mathbb{E}_q[-\log p(y_n \mid x_n, w)]
          + \frac{\mathrm{KL}(q \,\|\, p)}{N}

The data term is a mean over examples, the KL a positive sum over all weights, and ``N`` the size
of the training set, never that of the minibatch. Everything is in nats.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional


def elbo_loss(nll_mean: Tensor, kl: Tensor | float, n_train: int, kl_weight: float = 1.0) -> Tensor:
    """``nll_mean + kl_weight * kl / n_train``: minus the ELBO per training example, in nats.

    Args:
        nll_mean: 0-dim; mean negative log-likelihood per example, from any minibatch.
        kl: positive sum over all weights in nats (:func:`total_kl`).
        n_train: number of examples in the whole training set.
        kl_weight: 1 for the ELBO, less during a warm-up (:func:`kl_warmup`). Any other value held
            to the end fits a tempered posterior.

    Raises:
        ValueError: if ``nll_mean`` or ``kl`` is not a single number, ``n_train`` is not a positive
            integer or ``kl_weight`` is not in [0, inf).
    """
    for name, value in (("nll_mean", nll_mean), ("kl", kl)):
        if isinstance(value, Tensor) and value.dim():
            raise ValueError(f"{name} must be one number, got shape {tuple(value.shape)}")
    if isinstance(n_train, bool) or not isinstance(n_train, int) or n_train < 1:
        raise ValueError(f"n_train must be a positive integer, got {n_train!r}")
    if not 0 <= kl_weight < math.inf:
        raise ValueError(f"kl_weight must be finite and >= 0, got {kl_weight}")
    return nll_mean + kl_weight * kl / n_train


def gaussian_nll(y_pred: Tensor, y: Tensor, tau: float, y_std: float | Tensor = 1.0) -> Tensor:
    r"""Mean of ``-log N(y; y_pred, tau^-1 I_D)`` per example, in nats, with all constants.

    .. math:: \frac{\tau}{2}\lVert y - \hat y\rVert^2 + \frac{D}{2}\log\frac{2\pi}{\tau}

    ``tau`` is a precision in original units of y. Where the network works with standardised
    targets, ``y_std`` scales the residuals back, so that the value is the same in both units.

    Args:
        y_pred: ``(..., B, D)``; a leading sample axis is averaged over, which estimates the
            *expected* log-likelihood of the ELBO (not the predictive one of MC dropout).
        y: ``(B, D)``.
        tau: noise precision 1/variance, > 0.
        y_std: what y was divided by: a number, or ``(D,)``.

    Raises:
        ValueError: if ``y`` is not ``(B, D)``, the shapes do not match (``(B,)`` would broadcast
            to ``(B, B)``) or ``tau`` or ``y_std`` is not positive and finite.
    """
    if y.dim() != 2 or y_pred.shape[-2:] != y.shape:
        raise ValueError(
            "y must have shape (B, D) and y_pred (..., B, D), "
            f"got {tuple(y.shape)} and {tuple(y_pred.shape)}"
        )
    if not 0 < tau < math.inf:
        raise ValueError(f"tau must be positive and finite, got {tau}")
    y_std = torch.as_tensor(y_std, dtype=y_pred.dtype, device=y_pred.device)
    if y_std.shape not in ((), y.shape[1:]) or not ((y_std > 0) & (y_std < math.inf)).all():
        raise ValueError(f"y_std must be positive: one number or one per output, got {y_std}")
    squared_error = ((y - y_pred) * y_std).square().sum(-1).mean()
    log_tau = tau.log() if isinstance(tau, Tensor) else math.log(tau)
    return 0.5 * (tau * squared_error + y.shape[1] * (math.log(2 * math.pi) - log_tau))


def categorical_nll(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean of ``-log softmax(logits)[label]`` per example, in nats.

    Args:
        logits: ``(..., B, C)``; a leading sample axis is averaged over.
        labels: ``(B,)``, integer classes.

    Raises:
        TypeError: if ``labels`` is not an int64 tensor.
        ValueError: if the shapes do not match.
    """
    if labels.dtype != torch.int64:
        raise TypeError(f"labels must be int64 class numbers, got {labels.dtype}")
    if logits.dim() < 2 or labels.shape != logits.shape[-2:-1]:
        raise ValueError(
            "logits must have shape (..., B, C) and labels (B,), "
            f"got {tuple(logits.shape)} and {tuple(labels.shape)}"
        )
    every_label = labels.expand(logits.shape[:-1])
    return functional.cross_entropy(logits.flatten(0, -2), every_label.flatten())


def kl_warmup(step: float, begin: float, end: float) -> float:
    """KL weight at ``step``: 0 up to ``begin``, 1 from ``end`` on, a straight line between.

    ``step`` counts epochs or updates, in the units of ``begin`` and ``end``. Full weight from the
    first step lets the KL switch weights off before the data have spoken; the published sparse
    variational dropout uses ``kl_warmup(epoch, begin=5, end=20)``.

    Raises:
        ValueError: if ``begin > end`` or an argument is NaN.
    """
    if not begin <= end or math.isnan(step):
        raise ValueError(f"kl_warmup needs begin <= end, got step={step}, begin={begin}, end={end}")
    if step >= end:
        return 1.0
    return 0.0 if step <= begin else (step - begin) / (end - begin)


def total_kl(model: nn.Module) -> Tensor:
    """Sum of ``kl()`` over the outermost modules that have one: a positive sum in nats.

    A module with a ``kl`` method answers for all it contains; a module used twice counts once.
    A model without any (a deterministic network) has a KL of 0.

    Raises:
        ValueError: if a ``kl()`` is not a 0-dim tensor, e.g. a KL per weight.
    """
    total: Tensor | float = 0.0
    for module in _outermost_with_kl(model, seen=set()):
        kl = module.kl()
        if not isinstance(kl, Tensor) or kl.dim():
            raise ValueError(f"{type(module).__name__}.kl() must return a 0-dim tensor, got {kl!r}")
        total = total + kl
    return torch.as_tensor(total)


def _outermost_with_kl(module: nn.Module, seen: set[nn.Module]):
    if module in seen:
        return
    seen.add(module)
    if callable(getattr(module, "kl", None)):
        yield module
        return
    for child in module.children():
        yield from _outermost_with_kl(child, seen)
