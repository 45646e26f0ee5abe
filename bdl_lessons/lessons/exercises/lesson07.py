"""Exercises of lesson 07: matched noise, activation moments, the divergence and its slope."""

from __future__ import annotations

import numpy as np
import torch
from scipy.special import dawsn
from torch import Tensor

from bdl_lessons.lessons.exercises.grader import Check, Exercise, KnownError, agrees, close, normals
from bdl_lessons.probability import KL_OFFSET, loguniform_kl, loguniform_kl_slope


def matched_alpha(p_drop: float) -> float:
    """The variance of inverted dropout noise, so that N(1, alpha) has its two moments."""
    return p_drop / (1 - p_drop)


def activation_moments(a: Tensor, theta: Tensor, alpha: float) -> tuple[Tensor, Tensor]:
    """Type B: mean and variance of ``b = a W``, ``w_ij ~ N(theta_ij, alpha theta_ij**2)``.

    ``a`` is ``(B, K)``, ``theta`` is ``(K, L)``; both results are ``(B, L)``.
    """
    return a @ theta, alpha * a**2 @ theta**2


def kl_from_draws(log_alpha: float, eps: Tensor) -> Tensor:
    """Equation (9) with the mean over ``eps`` ``(S,)``, draws of N(0, 1). A 0-dim tensor."""
    std = np.exp(log_alpha / 2)
    return -log_alpha / 2 + (1 + std * eps).abs().log().mean() + KL_OFFSET


def kl_slope(log_alpha: np.ndarray) -> np.ndarray:
    """Equation (13): the derivative of the divergence in log alpha, elementwise."""
    z = 1 / np.sqrt(2 * np.exp(log_alpha))
    return -z * dawsn(z)


_normal = normals(3)
_A = _normal(6, 4)
_THETA = _normal(4, 3)
_EPS = _normal(200_000)
_RATES = (0.1, 0.2, 0.5, 0.9)
_LOG_ALPHA = np.linspace(-3, 3, 7)


def _kl(log_alpha: float) -> float:
    return loguniform_kl(torch.tensor(log_alpha, dtype=torch.float64)).item()


def _moments(answer, a=_A, theta=_THETA, alpha=0.3) -> Tensor:
    return torch.stack([torch.as_tensor(part) for part in answer(a, theta, alpha)])


def _sampled_variance(alpha: float) -> Tensor:
    generator = torch.Generator().manual_seed(4)
    eps = torch.randn(40_000, *_THETA.shape, generator=generator, dtype=torch.float64)
    return torch.einsum("k,skl->sl", _A[0], _THETA * (1 + alpha**0.5 * eps)).var(0)


EXERCISES = (
    Exercise(
        number="07.1",
        title="two moments",
        solution=matched_alpha,
        probe=lambda answer: [answer(p_drop) for p_drop in _RATES],
        checks={
            "at p_drop = ½ the noise 0 or 2 has variance 1": Check(
                lambda answer: close(answer(0.5), 1.0),
                "the values are 0 and 1/keep = 2, each with probability ½",
            ),
            "at p_drop = 0.2 it is the variance of 0 (one fifth) and 1.25 (four fifths)": Check(
                lambda answer: close(answer(0.2), 0.2 * 1.0 + 0.8 * 0.25**2),
                "sum probability times squared distance from the mean 1",
            ),
            "no dropout, no noise": Check(
                lambda answer: close(answer(0.0), 0.0),
                "p_drop is the probability to drop, not to keep",
            ),
            "log alpha = 3 is p_drop = 0.9526": Check(
                lambda answer: close(np.log(answer(0.952574)), 3.0, atol=1e-5),
                "alpha is a variance; it passes 1 and grows without bound as p_drop goes to 1",
            ),
        },
        known_errors=(
            KnownError(
                lambda p_drop: (1 - p_drop) / p_drop if p_drop else float("inf"),
                "keep and p_drop are swapped. (1 − p)/p is printed in papers whose p is the "
                "probability to keep.",
            ),
            KnownError(
                lambda p_drop: (p_drop / (1 - p_drop)) ** 0.5,
                "this is the standard deviation; alpha is the variance. A public code mixes the "
                "two under one name.",
            ),
            KnownError(
                lambda p_drop: p_drop * (1 - p_drop),
                "this is the variance of the mask 0 or 1. Inverted dropout divides the mask by "
                "keep, and the variance by keep².",
            ),
        ),
        hints=(
            "Var[z / keep] = Var[z] / keep². What is the variance of a coin?",
            "Var[z] = keep · p_drop.",
            "p_drop / (1 - p_drop)",
        ),
    ),
    Exercise(
        number="07.2",
        title="the activations of type B",
        solution=activation_moments,
        probe=_moments,
        checks={
            "the mean is the layer without noise": Check(
                lambda answer: close(_moments(answer)[0], _A @ _THETA), "E[w] = theta"
            ),
            "the variance is what sampled weights give": Check(
                lambda answer: bool(
                    ((_moments(answer)[1][0] / _sampled_variance(0.3) - 1).abs() < 0.05).all()
                ),
                "the K terms a_i w_ij are independent: their variances add",
            ),
            "the variance is never negative and proportional to alpha": Check(
                lambda answer: (
                    bool((_moments(answer)[1] >= 0).all())
                    and close(_moments(answer, alpha=0.6)[1], 2 * _moments(answer)[1])
                ),
                "Var[w] = alpha theta²: alpha once, theta squared",
            ),
            "three times the input, nine times the variance": Check(
                lambda answer: close(_moments(answer, a=3 * _A)[1], 9 * _moments(answer)[1]),
                "Var[a w] = a² Var[w]",
            ),
        },
        known_errors=(
            KnownError(
                lambda a, theta, alpha: (a @ theta, alpha * (a @ theta) ** 2),
                "squared after summing. That is the variance if one factor multiplied the whole "
                "activation; independent terms are squared before they are summed.",
            ),
            KnownError(
                lambda a, theta, alpha: (a @ theta, (alpha * a**2 @ theta**2).sqrt()),
                "this is the standard deviation; the variance is asked for.",
            ),
            KnownError(
                lambda a, theta, alpha: (a @ theta, alpha * a @ theta),
                "neither input nor weight is squared. A variance cannot be negative.",
            ),
            KnownError(
                lambda a, theta, alpha: (a @ theta, alpha**2 * a**2 @ theta**2),
                "alpha is squared, as if it were a standard deviation.",
            ),
        ),
        hints=(
            "b_j is a sum of K independent terms a_i w_ij. Add means, add variances.",
            "Var[a_i w_ij] = a_i² · alpha · theta_ij².",
            "return a @ theta, alpha * a**2 @ theta**2",
        ),
    ),
    Exercise(
        number="07.3",
        title="the divergence from its definition",
        solution=kl_from_draws,
        probe=lambda answer: [float(answer(value, _EPS)) for value in (-2.0, 0.0, 2.0)],
        checks={
            "it is the exact divergence within the sampling error": Check(
                lambda answer: all(
                    abs(float(answer(value, _EPS)) - _kl(value)) < 0.02
                    for value in (-4.0, 0.0, 4.0)
                ),
                "compare term by term with equation (9)",
            ),
            "it is positive and falls as alpha grows": Check(
                lambda answer: answer(-3.0, _EPS) > answer(0.0, _EPS) > answer(3.0, _EPS) > 0,
                "a divergence is +KL. Papers print −KL; look at the sign of ½ log alpha",
            ),
            "noise below zero is welcome: the logarithm takes |w|": Check(
                lambda answer: bool(np.isfinite(float(answer(1.0, torch.tensor([-3.0, 0.5]))))),
                "the prior is a density of |w|",
            ),
        },
        known_errors=(
            KnownError(
                lambda log_alpha, eps: -kl_from_draws(log_alpha, eps),
                "this is −KL, as Kingma and Molchanov print it. A loss needs +KL.",
            ),
            KnownError(
                lambda log_alpha, eps: kl_from_draws(2 * log_alpha, eps) + log_alpha / 2,
                "the noise was multiplied by alpha, a variance. Its standard deviation is √alpha.",
            ),
            KnownError(
                lambda log_alpha, eps: kl_from_draws(log_alpha, eps) - log_alpha / 2,
                "the ½ in front of log alpha is missing: the entropy of a Gaussian holds "
                "½ log variance.",
            ),
            KnownError(
                lambda log_alpha, eps: kl_from_draws(log_alpha, eps) - KL_OFFSET,
                "the constant is left out. Gradients do not see it, but this 'divergence' becomes "
                "negative for large alpha.",
            ),
        ),
        hints=(
            "Three terms: −½ log alpha, the mean of a logarithm, and KL_OFFSET.",
            "√alpha = exp(log_alpha / 2).",
            "-log_alpha / 2 + (1 + np.exp(log_alpha / 2) * eps).abs().log().mean() + KL_OFFSET",
        ),
    ),
    Exercise(
        number="07.4",
        title="the slope that learns alpha",
        solution=kl_slope,
        probe=lambda answer: answer(_LOG_ALPHA),
        checks={
            "it is the derivative of the exact divergence": agrees(
                lambda answer: answer(_LOG_ALPHA),
                [(_kl(t + 1e-4) - _kl(t - 1e-4)) / 2e-4 for t in _LOG_ALPHA],
                "compare with a finite difference of loguniform_kl",
                atol=1e-6,
            ),
            "it is negative: the prior always wants more noise": Check(
                lambda answer: bool((np.asarray(answer(_LOG_ALPHA)) < 0).all()),
                "the divergence falls in alpha",
            ),
            "it tends to −½ for small alpha": Check(
                lambda answer: close(answer(np.array([-15.0])), [-0.5], atol=1e-4),
                "there KL = −½ log alpha + constant",
            ),
            "it tends to −1/(2 alpha) for large alpha": Check(
                lambda answer: close(np.exp(8.0) * answer(np.array([8.0])), [-0.5], atol=1e-3),
                "there KL = 1/(2 alpha)",
            ),
        },
        known_errors=(
            KnownError(
                lambda log_alpha: -loguniform_kl_slope(torch.as_tensor(log_alpha)).numpy(),
                "the sign is that of −KL. Descending it would remove all noise.",
            ),
            KnownError(
                lambda log_alpha: kl_slope(log_alpha) / np.exp(log_alpha),
                "this is the derivative in alpha. The chain rule for log alpha multiplies it by "
                "alpha.",
            ),
            KnownError(
                lambda log_alpha: -np.exp(-log_alpha / 2) * dawsn(np.exp(-log_alpha / 2)),
                "z is 1/√alpha here; it must be 1/√(2 alpha).",
            ),
            KnownError(
                lambda log_alpha: -dawsn(np.exp(-log_alpha / 2) / 2**0.5),
                "the factor z is missing: d/dlog alpha of 2∫F is 2F(z) · dz/dlog alpha, and "
                "dz/dlog alpha = −z/2.",
            ),
        ),
        hints=(
            "KL = 2∫₀ᶻ F. Differentiate the integral in its upper limit, then z in log alpha.",
            "z = (2 alpha)^(−1/2), so dz/dlog alpha = −z/2.",
            "z = 1 / np.sqrt(2 * np.exp(log_alpha)); return -z * dawsn(z)",
        ),
    ),
)
