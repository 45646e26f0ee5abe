"""Exercises of lesson 11: a correlation, an aimed reflection, a mean-field gap, a loss."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import MultivariateNormal, kl_divergence
from torch.nn.functional import cross_entropy

from bdl_lessons.exercises.grader import Criterion, Exercise, KnownError, agrees, close, normals
from bdl_lessons.probability import empirical_bayes_kl, orthogonal_matrix, reflect, rotated_variance


def correlation_after(alpha: Tensor, psi: float) -> Tensor:
    """Correlation of two factors after one reflection by ``(cos psi, sin psi)``; 0-dim.

    ``alpha`` ``(2,)`` holds the variances before the reflection.
    """
    c = math.cos(2 * psi)
    s = math.sin(2 * psi)
    cov = s * c * (alpha[0] - alpha[1])
    first = c**2 * alpha[0] + s**2 * alpha[1]
    second = s**2 * alpha[0] + c**2 * alpha[1]
    return cov / (first * second).sqrt()


def aimed_reflection(i: int, direction: Tensor) -> Tensor:
    """The reflection ``(K, K)`` that turns unit vector i into ``direction / |direction|``."""
    target = direction / direction.norm()
    v = torch.eye(len(direction), dtype=direction.dtype)[i] - target
    identity = torch.eye(len(direction), dtype=direction.dtype)
    return identity - 2 * torch.outer(v, v) / (v @ v)


def mean_field_gap(precision: Tensor) -> Tensor:
    """Smallest KL of independent noise from a Gaussian posterior, in nats; 0-dim.

    ``precision`` is the posterior's precision matrix, ``(K, K)``.
    """
    return (precision.diagonal().log().sum() - torch.logdet(precision)) / 2


def structured_loss(
    x: Tensor,
    y: Tensor,
    theta: Tensor,
    log_alpha: Tensor,
    vectors: Tensor,
    eps: Tensor,
    n_train: int,
) -> Tensor:
    """The loss (13) with kl_weight 1 of one VSD layer on a minibatch.

    ``x`` and ``eps`` are ``(B, K)``, ``y`` ``(B,)``, ``theta`` ``(K, Q)``, ``log_alpha`` ``(K,)``,
    ``vectors`` ``(T, K)``.
    """
    noise = torch.exp(log_alpha / 2) * eps
    xi = 1 + reflect(noise, vectors)
    nll_mean = cross_entropy((x * xi) @ theta, y)
    noise_var = rotated_variance(log_alpha.exp(), vectors)
    kl = theta.shape[1] / 2 * (torch.log1p(noise_var) - log_alpha).sum()
    return nll_mean + kl / n_train


_normal = normals(10)
_ALPHA = torch.tensor([1.3, 0.2], dtype=torch.float64)
_EQUAL_ALPHAS = torch.tensor([0.3, 0.3], dtype=torch.float64)
_ANGLES = (0.4, 1.1, 2.0, -0.7)
_TARGET = 2.5 * _normal(5)
_FACTOR = _normal(4, 4) + 1.5 * torch.eye(4, dtype=torch.float64)
_PRECISION = _FACTOR @ _FACTOR.T + torch.diag(torch.tensor([9.0, 1, 0.2, 3])).double()
_CORRELATED = torch.tensor([[4.0, 1.2], [1.2, 1.0]], dtype=torch.float64)  # rho = 0.6
_X = _normal(6, 3)
_Y = torch.tensor([0, 3, 1, 2, 2, 0])
_THETA = 2 * _normal(3, 4)
_LOG_ALPHA = torch.tensor([-2.5, -0.4, -1.3], dtype=torch.float64)
_VECTORS = _normal(2, 3)
_WITHOUT_VECTORS = _VECTORS[:0]
_EPS = _normal(6, 3)


def _correlation(alpha: Tensor, psi: float) -> Tensor:
    """What the package says, from the covariance of the reflected noise."""
    v = torch.tensor([[math.cos(psi), math.sin(psi)]], dtype=torch.float64)
    u = orthogonal_matrix(v)
    cov = (u * alpha) @ u.T
    return cov[0, 1] / (cov[0, 0] * cov[1, 1]).sqrt()


def _covariance_over_stds(alpha: Tensor, psi: float) -> Tensor:
    """The covariance after the reflection over the standard deviations before it."""
    cov = math.sin(2 * psi) * math.cos(2 * psi) * (alpha[0] - alpha[1])
    return cov / (alpha[0] * alpha[1]).sqrt()


def _is_a_reflection(answer) -> bool:
    """Whether it is symmetric and its own inverse, with trace K - 2."""
    matrix = answer(1, _TARGET)
    identity = torch.eye(5, dtype=torch.float64)
    is_symmetric = close(matrix, matrix.T)
    is_its_inverse = close(matrix @ matrix, identity)
    return is_symmetric and is_its_inverse and close(matrix.trace(), 3.0)


def _unit_vector(i: int, direction: Tensor) -> Tensor:
    return torch.eye(len(direction)).to(direction)[i]


def _reflection_with_wrong_denominator(i: int, direction: Tensor, power: int) -> Tensor:
    """The aimed reflection with ``|v|`` to the wrong power in the denominator."""
    identity = torch.eye(len(direction)).to(direction)
    v = _unit_vector(i, direction) - direction / direction.norm()
    return identity - 2 * torch.outer(v, v) / v.norm() ** power


def _independent_kl(variances: Tensor, precision: Tensor = _PRECISION) -> Tensor:
    """KL of independent noise from the posterior with this precision."""
    zeros = torch.zeros_like(variances)
    independent = MultivariateNormal(zeros, torch.diag(variances))
    posterior = MultivariateNormal(zeros, precision_matrix=precision)
    return kl_divergence(independent, posterior)


def _is_at_most_nearby_kls(answer) -> bool:
    """Whether the gap is no larger than the KL of noise with somewhat other variances."""
    gap = float(answer(_PRECISION))
    best = 1 / _PRECISION.diagonal()
    return all(gap <= float(_independent_kl(scale * best)) for scale in (0.9, 0.95, 1.05, 1.1))


def _kl_to_product_of_marginals(precision: Tensor) -> Tensor:
    """KL of the posterior from the product of its marginals: the other direction."""
    variances = torch.linalg.inv(precision).diagonal()
    return (variances.log().sum() + torch.logdet(precision)) / 2


def _gaps_of_pairs(precision: Tensor) -> Tensor:
    """``-log(1 - rho^2) / 2``, the gap of two weights, added over all pairs of weights."""
    cov = torch.linalg.inv(precision)
    std = cov.diagonal().sqrt()
    rho = cov / torch.outer(std, std)
    return -torch.log1p(-rho.triu(1).square()).sum() / 2


def _smallest_gap() -> Tensor:
    """The smallest KL that gradient descent finds over the variances of independent noise."""
    log_var = torch.zeros(4, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([log_var], max_iter=200, line_search_fn="strong_wolfe")

    def loss():
        optimizer.zero_grad()
        value = _independent_kl(log_var.exp())
        value.backward()
        return value

    optimizer.step(loss)
    return _independent_kl(log_var.detach().exp())


def _loss(answer, vectors: Tensor = _VECTORS, eps: Tensor = _EPS, n_train: int = 50) -> Tensor:
    return answer(_X, _Y, _THETA, _LOG_ALPHA, vectors, eps, n_train)


def _nll(x: Tensor, y: Tensor, theta: Tensor, xi: Tensor) -> Tensor:
    """Mean negative log likelihood with the factors ``xi (B, K)``."""
    return cross_entropy((x * xi) @ theta, y)


def _noisy_nll(vectors: Tensor) -> Tensor:
    noise = torch.exp(_LOG_ALPHA / 2) * _EPS
    return _nll(_X, _Y, _THETA, 1 + reflect(noise, vectors))


def _kl_of(theta: Tensor, log_alpha: Tensor, vectors: Tensor) -> Tensor:
    noise_var = rotated_variance(log_alpha.exp(), vectors)
    return empirical_bayes_kl(log_alpha, noise_var, theta.shape[1])


def _kl(vectors: Tensor) -> Tensor:
    return _kl_of(_THETA, _LOG_ALPHA, vectors)


def _loss_with_alpha_as_std(x, y, theta, log_alpha, vectors, eps, n_train) -> Tensor:
    noise = log_alpha.exp() * eps
    nll_mean = _nll(x, y, theta, 1 + reflect(noise, vectors))
    return nll_mean + _kl_of(theta, log_alpha, vectors) / n_train


def _loss_with_reflected_mean(x, y, theta, log_alpha, vectors, eps, n_train) -> Tensor:
    noise = torch.exp(log_alpha / 2) * eps
    nll_mean = _nll(x, y, theta, reflect(1 + noise, vectors))
    return nll_mean + _kl_of(theta, log_alpha, vectors) / n_train


def _loss_with_reflected_denominator(x, y, theta, log_alpha, vectors, eps, n_train) -> Tensor:
    noise = torch.exp(log_alpha / 2) * eps
    nll_mean = _nll(x, y, theta, 1 + reflect(noise, vectors))
    noise_var = rotated_variance(log_alpha.exp(), vectors)
    kl = theta.shape[1] / 2 * torch.log1p(1 / noise_var).sum()
    return nll_mean + kl / n_train


EXERCISES = (
    Exercise(
        number="11.1",
        title="predict a correlation",
        kind="predict",
        solution=correlation_after,
        probe=lambda answer: [answer(_ALPHA, psi) for psi in _ANGLES],
        criteria=(
            Criterion(
                "it is that of the package's reflected noise, at four angles",
                agrees(
                    lambda answer: [answer(_ALPHA, psi) for psi in _ANGLES],
                    [_correlation(_ALPHA, psi) for psi in _ANGLES],
                ),
                advice="multiply out U diag(alpha) U' with U = I − 2 v v' for v = (cos ψ, sin ψ)",
            ),
            Criterion(
                "equal alphas: no correlation at any angle",
                agrees(
                    lambda answer: [answer(_EQUAL_ALPHAS, psi) for psi in _ANGLES],
                    [0.0, 0.0, 0.0, 0.0],
                ),
                advice="U (a I) U' = a I",
            ),
            Criterion(
                "v on the diagonal exchanges the factors: no correlation",
                agrees(lambda answer: answer(_ALPHA, math.pi / 4), 0.0),
                advice="at ψ = 45° the reflection is a permutation",
            ),
            Criterion(
                "exchange the alphas and the sign turns",
                agrees(
                    lambda answer: answer(_ALPHA.flip(0), 0.4),
                    lambda answer: -answer(_ALPHA, 0.4),
                ),
                advice="the covariance is proportional to the difference of the alphas",
            ),
        ),
        known_errors=(
            KnownError(
                lambda alpha, psi: math.sin(2 * psi) * math.cos(2 * psi) * (alpha[0] - alpha[1]),
                diagnosis=(
                    "this is the covariance. Divide by the two standard deviations after the "
                    "reflection."
                ),
            ),
            KnownError(
                _covariance_over_stds,
                diagnosis=(
                    "divided by the standard deviations *before* the reflection. It changes them."
                ),
            ),
            KnownError(
                lambda alpha, psi: correlation_after(alpha, psi / 2),
                diagnosis="this rotates by ψ. A reflection by a vector at the angle ψ contains 2ψ.",
            ),
            KnownError(
                lambda alpha, psi: correlation_after(alpha**2, psi),
                diagnosis="alpha is already the variance: it is not squared.",
            ),
            KnownError(
                lambda alpha, psi: -correlation_after(alpha, psi),
                diagnosis="the sign is wrong: look at the entry (0, 1) of I − 2 v v'.",
            ),
        ),
        hints=(
            "Write the 2 × 2 matrix U = I − 2 v v' with cos 2ψ and sin 2ψ.",
            "U = [[−c, −s], [−s, c]] with c = cos 2ψ and s = sin 2ψ. Its rows give the variances "
            "c²α₀ + s²α₁ and s²α₀ + c²α₁.",
            "The covariance is s c (α₀ − α₁). Divide it by the root of the product of variances.",
        ),
    ),
    Exercise(
        number="11.2",
        title="aim a reflection",
        kind="derive",
        solution=aimed_reflection,
        probe=lambda answer: answer(1, _TARGET),
        criteria=(
            Criterion(
                "unit vector i becomes the direction, with length 1",
                agrees(
                    lambda answer: [*answer(1, _TARGET)[:, 1], *answer(3, -_TARGET)[:, 3]],
                    [*(_TARGET / _TARGET.norm()), *(-_TARGET / _TARGET.norm())],
                ),
                advice=(
                    "draw both vectors: the mirror lies half-way between them. What is "
                    "perpendicular to it?"
                ),
            ),
            Criterion(
                "it is a reflection: symmetric, its own inverse, with trace K − 2",
                _is_a_reflection,
                advice="use I − 2 v v' / |v|²; other rotations do the first thing too",
            ),
            Criterion(
                "the length of the direction does not matter",
                agrees(lambda answer: answer(1, 7 * _TARGET), lambda answer: answer(1, _TARGET)),
                advice="a reflection keeps lengths, so aim at a vector of length 1",
            ),
        ),
        known_errors=(
            KnownError(
                lambda i, direction: orthogonal_matrix(direction[None]),
                diagnosis="this reflects by the direction itself: it turns the direction round.",
            ),
            KnownError(
                lambda i, direction: orthogonal_matrix(
                    (_unit_vector(i, direction) - direction)[None]
                ),
                diagnosis=(
                    "the difference is right for vectors of equal length. Divide the direction by "
                    "its length first."
                ),
            ),
            KnownError(
                lambda i, direction: orthogonal_matrix(
                    (_unit_vector(i, direction) + direction / direction.norm())[None]
                ),
                diagnosis="the sum of the two gives *minus* the direction.",
            ),
            KnownError(
                lambda i, direction: _reflection_with_wrong_denominator(i, direction, power=1),
                diagnosis="v is right, but divided by |v| and not by |v|²: the bug of this lesson.",
            ),
            KnownError(
                lambda i, direction: _reflection_with_wrong_denominator(i, direction, power=0),
                diagnosis="v is right, but v v' is not divided by |v|².",
            ),
        ),
        hints=(
            "A reflection by v moves x along v only. So which multiple of which vector leads from "
            "unit vector i to its image?",
            "v is the difference of unit vector i and the image, and both have length 1.",
            "v = e_i − direction / |direction|, then I − 2 v v' / |v|².",
        ),
    ),
    Exercise(
        number="11.3",
        title="what independent noise misses",
        kind="derive",
        solution=mean_field_gap,
        probe=lambda answer: [answer(_PRECISION), answer(torch.linalg.inv(_CORRELATED))],
        criteria=(
            Criterion(
                "measured: the smallest KL that gradient descent finds",
                agrees(lambda answer: answer(_PRECISION), _smallest_gap(), atol=1e-5),
                advice=(
                    "write the KL of N(m, diag(d)) from the posterior, and set its derivatives in "
                    "d to zero"
                ),
            ),
            Criterion(
                "no independent noise comes closer",
                _is_at_most_nearby_kls,
                advice="at the best d each d_i is one over Λ_ii",
            ),
            Criterion(
                "an uncorrelated posterior leaves no gap",
                agrees(lambda answer: answer(torch.diag(_PRECISION.diagonal())), 0.0),
                advice="for a diagonal precision the two terms are equal",
            ),
            Criterion(
                "two weights with correlation ρ: −½ log(1 − ρ²)",
                agrees(
                    lambda answer: answer(torch.linalg.inv(_CORRELATED)),
                    -0.5 * math.log(1 - 0.6**2),
                ),
                advice="check your formula by hand for a 2 × 2 matrix",
            ),
        ),
        known_errors=(
            KnownError(
                lambda precision: _independent_kl(
                    torch.linalg.inv(precision).diagonal(), precision
                ),
                diagnosis=(
                    "this is the gap of independent noise with the *right variances*, the diagonal "
                    "of the covariance. The best d_i are smaller: 1 / Λ_ii (lesson 02)."
                ),
            ),
            KnownError(
                lambda precision: precision.diagonal().log().sum() - torch.logdet(precision),
                diagnosis=(
                    "off by a factor of 2: the KL of two Gaussians has a ½ in front of log det."
                ),
            ),
            KnownError(
                _kl_to_product_of_marginals,
                diagnosis=(
                    "this is −½ log det of the correlation matrix of the weights, the KL in the "
                    "other direction: of the posterior from the product of its marginals. For two "
                    "weights both are equal. Use the precision in both logarithms."
                ),
            ),
            KnownError(
                _gaps_of_pairs,
                diagnosis=(
                    "this adds −½ log(1 − ρ²) of every pair, which is right for two weights alone. "
                    "With more, pairs share what they tell: use log det of the precision."
                ),
            ),
            KnownError(
                lambda precision: -mean_field_gap(precision),
                diagnosis="the sign: a KL divergence is not negative.",
            ),
        ),
        hints=(
            "KL(N(m, Σ) ‖ N(m, Λ⁻¹)) = ½ (tr(Λ Σ) − K − log det Σ − log det Λ).",
            "With Σ = diag(d) the trace is the sum of Λ_ii d_i. The derivative in d_i is "
            "½ (Λ_ii − 1/d_i).",
            "At d_i = 1/Λ_ii the trace is K. Two logarithms are left.",
        ),
    ),
    Exercise(
        number="11.4",
        title="repair a VSD loss",
        kind="debug",
        solution=structured_loss,
        probe=_loss,
        criteria=(
            Criterion(
                "without noise it is cross-entropy plus the KL over N",
                agrees(
                    lambda answer: _loss(answer, eps=0 * _EPS),
                    cross_entropy(_X @ _THETA, _Y) + _kl(_VECTORS) / 50,
                ),
                advice="at eps = 0 every factor must be 1; then look at the KL, equation (8)",
            ),
            Criterion(
                "with a large training set only the noise is left",
                agrees(
                    lambda answer: _loss(answer, n_train=10**12),
                    _noisy_nll(_VECTORS),
                    atol=1e-8,
                ),
                advice="alpha is a variance, and U acts on the noise and not on its mean",
            ),
            Criterion(
                "without reflections it is VD with the empirical-Bayes KL",
                agrees(
                    lambda answer: _loss(answer, vectors=_WITHOUT_VECTORS),
                    _noisy_nll(_WITHOUT_VECTORS) + _kl(_WITHOUT_VECTORS) / 50,
                ),
                advice="with T = 0 the KL is Q/2 Σ log(1 + 1/alpha)",
            ),
            Criterion(
                "twice the training set, half the KL term",
                agrees(
                    lambda answer: _loss(answer, n_train=10) - _loss(answer, n_train=20),
                    _kl(_VECTORS) / 20,
                ),
                advice=(
                    "this difference is the KL (8) times 1/10 − 1/20: check the KL first, then "
                    "that it is divided by N"
                ),
            ),
        ),
        known_errors=(
            KnownError(
                _loss_with_alpha_as_std,
                diagnosis="the noise still has standard deviation alpha. alpha is a variance.",
            ),
            KnownError(
                _loss_with_reflected_mean,
                diagnosis=(
                    "the mean 1 is still reflected with the noise. Then Θ is not the mean of W."
                ),
            ),
            KnownError(
                _loss_with_reflected_denominator,
                diagnosis=(
                    "the denominator is still the variance after the reflections. log det of the "
                    "covariance is the sum of the logarithms of alpha."
                ),
            ),
            KnownError(
                lambda x, y, theta, log_alpha, vectors, eps, n_train: structured_loss(
                    x, y, theta, log_alpha, vectors, eps, len(x)
                ),
                diagnosis=(
                    "the KL is still divided by the size of the minibatch. The loss is an average "
                    "per training example, so divide by N."
                ),
            ),
        ),
        hints=(
            "Take (2), (4), (8) and (13) one after the other, and compare each with its line.",
            "Noise: root of alpha, reflect, then add 1. KL: divide 1 + α̃ by α.",
            "xi = 1 + reflect(torch.exp(log_alpha / 2) * eps, vectors); divide the KL by n_train.",
        ),
    ),
)
