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

    ``draws`` are ``(S, B, D)``. ``tau`` is the noise precision in 1/(units of y)**2: a number for
    one output, ``(D,)`` for several, or ``(S, B, D)`` where a network predicts it, whose variances
    are averaged over the draws. TypeError or ValueError if they are not, not finite, or ``tau`` is
    not > 0. Logits of classes are refused: they have no noise precision.

    >>> predictive_var(torch.tensor([[[1.0]], [[5.0]]]), tau=4.0)
    tensor([[4.2500]])
    """
    draws = _check(draws)
    noise_var = 1 / _check_tau(tau, draws)
    if noise_var.dim() == 3:
        noise_var = noise_var.mean(0)
    return noise_var + draws.var(0, correction=0)


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
    squared = tau * (single(validation.floating("y", y)) - draws).square()
    log_density = ((tau / (2 * math.pi)).log() - squared).sum(-1) / 2
    return log_density.logsumexp(0) - math.log(len(draws))


def score_taus(draws: Tensor, y: Tensor, taus: Tensor) -> Tensor:
    """The mean log predictive likelihood under each noise precision, ``(T,)``, nats an example.

    One trained network gives the draws at validation examples, and no tau needs another training:
    ``taus[score_taus(draws, y, taus).argmax()]`` is the best of them. If it is the first or the
    last, look further out.

    ``taus`` are ``(T,)``, or ``(T, D)`` for D outputs; otherwise arguments and errors are those of
    :func:`log_predictive_likelihood`.

    >>> score_taus(torch.zeros(100, 2, 1), torch.tensor([[-0.5], [0.5]]), torch.tensor([1.0, 4.0]))
    tensor([-1.0439, -0.7258])
    """
    validation.shapes("taus must be (T, ...)", validation.floating("taus", taus))
    if not (taus > 0).all():
        raise ValueError(f"taus must be precisions, > 0, got {taus.min().item()} among them")
    return torch.stack([log_predictive_likelihood(draws, y, tau).mean() for tau in taus])


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
    n_outputs = draws.shape[-1]
    if tau.numel() == 1 and n_outputs > 1:
        rule = f"tau is one number, but draws have {n_outputs} outputs"
        targets = f"{n_outputs} targets need a tensor of {n_outputs} precisions"
        logits = "logits have none, log_mean_probs(draws).exp() are the probabilities of classes"
        raise ValueError(f"{rule}: {targets}; {logits}")
    if tau.shape not in ((), (n_outputs,), draws.shape):
        rule = "tau must be a number, or have shape (D,) or that of draws, (S, B, D)"
        raise ValueError(f"{rule}, got {tuple(tau.shape)}")
    return tau
