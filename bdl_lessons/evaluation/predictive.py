"""Predictive distribution from draws: moments, likelihood and uncertainty. Lesson 05.

Every function takes draws with a leading sample axis S, as
:func:`bdl_lessons.inference.predict` returns them. Equations: Gal & Ghahramani, *Dropout as a
Bayesian approximation*, ICML 2016. Draws in half precision are averaged in float32, and so are the
results.
"""

import math

import torch
from torch import Tensor

from bdl_lessons.core import validation
from bdl_lessons.core.devices import single


def predictive_var(draws: Tensor, tau: float | Tensor) -> Tensor:
    """Variance of y for each output: ``1/tau + (1/S) sum_s f_s**2 - mean**2``, ``(B, D)``.

    ``1/tau`` is a variance: it is added before any square root is taken.

    ``draws`` are ``(S, B, D)``, ``tau`` is the noise precision in 1/(units of y)**2, a number or
    ``(D,)``. TypeError or ValueError if they are not, not finite, or ``tau`` is not > 0.

    >>> predictive_var(torch.tensor([[[1.0]], [[5.0]]]), tau=4.0)
    tensor([[4.2500]])
    """
    draws = _check(draws)
    return 1 / _check_tau(tau, draws) + draws.var(0, correction=0)


def log_predictive_likelihood(draws: Tensor, y: Tensor, tau: float | Tensor) -> Tensor:
    """``log (1/S) sum_s N(y; f_s, I/tau)`` in nats for each example, ``(B,)`` (their eq. 8).

    This is the density of a mixture of S Gaussians, not of the one Gaussian with the predictive
    mean and variance. The paper prints D = 1; here ``log 2 pi`` and ``log tau`` count D times.

    ``y`` is ``(B, D)`` in the same units; otherwise arguments and errors are those of
    :func:`predictive_var`.

    >>> log_predictive_likelihood(torch.zeros(100, 2, 1), torch.zeros(2, 1), tau=1.0)
    tensor([-0.9189, -0.9189])
    """
    draws = _check(draws)
    tau = _check_tau(tau, draws)
    validation.shapes("draws must be (S, B, D) and y (B, D)", draws, y)
    error = (tau * (single(validation.floating("y", y)) - draws).square()).sum(-1)
    log_norm = (tau.log() - math.log(2 * math.pi)).expand(draws.shape[-1]).sum()
    return (-error / 2).logsumexp(0) - math.log(len(draws)) + log_norm / 2


def log_mean_probs(logits: Tensor) -> Tensor:
    """Log of the averaged class probabilities: ``(S, B, C)`` logits to ``(B, C)``.

    Probabilities are averaged, not logits: ``log (1/S) sum_s softmax(logits_s)``.

    >>> log_mean_probs(torch.tensor([[[0.0, 50.0]], [[50.0, 0.0]]])).exp()
    tensor([[0.5000, 0.5000]])
    """
    return _check(logits, "logits").log_softmax(-1).logsumexp(0) - math.log(len(logits))


def predictive_entropy(logits: Tensor) -> Tensor:
    """Entropy ``H[mean_s p_s]`` of the averaged probabilities in nats, ``(B,)``: the total.

    >>> predictive_entropy(torch.tensor([[[0.0, 50.0]], [[50.0, 0.0]]]))
    tensor([0.6931])
    """
    return entropy(log_mean_probs(logits))


def mutual_information(logits: Tensor) -> Tensor:
    """``H[mean_s p_s] - mean_s H[p_s]`` in nats, ``(B,)``: how much the draws disagree.

    It is never negative, as no divergence is: what rounding leaves below 0 is 0.

    >>> mutual_information(torch.tensor([[[0.0, 50.0]], [[50.0, 0.0]]]))
    tensor([0.6931])
    """
    log_probs = _check(logits, "logits").log_softmax(-1)
    return (predictive_entropy(logits) - entropy(log_probs).mean(0)).clamp(min=0)


def entropy(log_probs: Tensor) -> Tensor:
    """``- sum_c p_c log p_c`` in nats over the last axis, with ``0 log 0 = 0``.

    >>> entropy(torch.tensor([0.5, 0.5]).log())
    tensor(0.6931)
    """
    validation.shapes("log_probs must be (..., C)", log_probs)
    rounding = 4 * torch.finfo(validation.floating_type("log_probs", log_probs).dtype).eps
    log_probs = single(log_probs)
    if not (log_probs.logsumexp(-1).abs() <= max(1e-2, rounding)).all():
        wanted = "logarithms of probabilities that sum to 1"
        raise ValueError(f"log_probs must be {wanted}: got logits or NaN?")
    return torch.special.entr(log_probs.exp()).sum(-1)


def _check(draws: Tensor, name: str = "draws") -> Tensor:
    validation.shapes(f"{name} must be (S, B, D)", draws)
    return single(validation.floating(name, draws))


def _check_tau(tau: float | Tensor, draws: Tensor) -> Tensor:
    if isinstance(tau, Tensor):
        validation.shapes("tau must be a number or a tensor (...)", tau)
    else:
        validation.number("tau", tau)
    tau = torch.as_tensor(tau, dtype=draws.dtype, device=draws.device)
    if not ((tau > 0) & tau.isfinite()).all():
        raise ValueError(f"tau must be a precision: finite and > 0, got {tau.tolist()}")
    if tau.dim() > 1 or tau.numel() not in (1, draws.shape[-1]):
        raise ValueError(f"tau must be a number or have shape (D,), got {tuple(tau.shape)}")
    return tau
