"""Exercises of lesson 07: where alpha comes to rest, log-normal noise, rates by unit, a loss."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from bdl_lessons.exercises.grader import Criterion, Exercise, KnownError, agrees, close, normals
from bdl_lessons.models import ConcreteDropout
from bdl_lessons.probability import loguniform_kl, mixture_kl, molchanov_kl


def resting_alpha(x: Tensor, w: Tensor, tau: float) -> Tensor:
    """Where ``alpha`` (K,) of each input of a linear model comes to rest, at most 1.

    ``x`` is ``(N, K)``, ``w`` ``(K,)``, ``tau`` the precision of the observation noise. Holds where
    alpha is small, or at its bound.
    """
    return (1 / (tau * w**2 * (x**2).sum(0))).clamp(max=1)


def lognormal_noise(p_drop: float, eps: Tensor) -> Tensor:
    """Positive noise with the mean and variance of inverted dropout, from ``eps ~ N(0, 1)``."""
    log_var = -math.log(1 - p_drop)
    return torch.exp(math.sqrt(log_var) * eps - log_var / 2)


def kl_by_unit(theta: Tensor, p_drop: Tensor, length_scale: float) -> Tensor:
    """The KL of concrete dropout with a rate of its own for each input: a 0-dim tensor in nats.

    ``theta`` is ``(K, Q)``, ``p_drop`` ``(K,)``. The constant is that of equation (15).
    """
    keep = 1 - p_drop
    weights = length_scale**2 / 2 * (theta**2).sum(1) / keep
    entropy = -p_drop * p_drop.log() - keep * keep.log()
    return (weights + np.log(2) - entropy).sum()


def dropout_loss(
    x: Tensor, y: Tensor, theta: Tensor, log_alpha: Tensor, eps: Tensor, n_train: int
) -> Tensor:
    """The loss (13) of one layer of type A with an alpha for each input, on a minibatch.

    ``x`` and ``eps`` are ``(B, K)``, ``theta`` ``(K, Q)``, ``log_alpha`` ``(K,)``, ``y`` ``(B,)``.
    """
    xi = 1 + torch.exp(log_alpha / 2) * eps
    nll_mean = cross_entropy((x * xi) @ theta, y)
    return nll_mean + loguniform_kl(log_alpha).sum() / n_train


_normal = normals(3)
_X = _normal(40, 4)
_W = torch.tensor([0.0, 1.5, -4.0, 0.9], dtype=torch.float64)
_NODES, _HERMITE = np.polynomial.hermite_e.hermegauss(60)
_NODES = torch.tensor(_NODES)
_HERMITE = torch.tensor(_HERMITE / _HERMITE.sum())
_EPS = torch.tensor([-1.0, 0.5, 2.0], dtype=torch.float64)
_THETA = 2 * _normal(3, 4)
_RATES = torch.tensor([0.1, 0.5, 0.8], dtype=torch.float64)
_OTHER_RATES = _RATES[[0, 0, 1]]  # no permutation: the entropies must differ as well
_BATCH = (_normal(6, 3), torch.tensor([0, 3, 1, 2, 2, 0]), _THETA)
_LOG_ALPHA = torch.tensor([-3.0, -1.0, -2.2], dtype=torch.float64)
_DRAWS = _normal(6, 3)


def _measured_alpha(x: Tensor, w: Tensor, tau: float) -> Tensor:
    """The alphas <= 1 at which the expected loss of all examples plus the KL is smallest."""
    log_alpha = torch.linspace(-12, 0, 6001, dtype=torch.float64)
    growth = 0.5 * tau * (w**2 * (x**2).sum(0))[:, None] * log_alpha.exp()
    return log_alpha[(growth + loguniform_kl(log_alpha)).argmin(1)].exp()


def _rests(answer, x: Tensor, tau: float) -> bool:
    """Whether the prediction is that of the measurement to 4 %, for four inputs."""
    return bool(((answer(x, _W, tau) / _measured_alpha(x, _W, tau) - 1).abs() < 0.04).all())


def _moments(answer, p_drop: float) -> list[float]:
    xi = answer(p_drop, _NODES)
    mean = _HERMITE @ xi
    return [float(mean), float(_HERMITE @ (xi - mean) ** 2)]


def _kl_at(answer, p_drop: Tensor = _RATES, length_scale: float = 0.7) -> Tensor:
    return answer(_THETA, p_drop, length_scale)


def _package_kl(p_drop: float) -> Tensor:
    layer = ConcreteDropout(nn.Linear(3, 4, bias=False), p_drop, 0.7).double()
    with torch.no_grad():
        layer.weight.copy_(_THETA.T)
    return layer.kl().detach()


def _from_mixtures(p_drop: Tensor) -> float:
    """The KLs of lesson 04's mixtures, one for each input, with l = 0.7."""
    total = 0.0
    for row, rate in zip(_THETA, p_drop, strict=True):
        means = torch.stack([row / (1 - rate), torch.zeros_like(row)])
        total += float(mixture_kl(torch.stack([1 - rate, rate]), means, 1e-4, 1 / 0.49))
    return total


def _loss(answer, log_alpha: Tensor = _LOG_ALPHA, eps: Tensor = _DRAWS, n_train=50) -> Tensor:
    return answer(*_BATCH, log_alpha, eps, n_train)


def _noisy_nll(std: Tensor, eps: Tensor) -> Tensor:
    x, y, theta = _BATCH
    return cross_entropy((x * (1 + std * eps)) @ theta, y)


EXERCISES = (
    Exercise(
        number="07.1",
        title="predict where alpha comes to rest",
        kind="predict",
        solution=resting_alpha,
        probe=lambda answer: answer(_X, _W + 1e-3, 3.0),  # finite without the clamp as well
        criteria=(
            Criterion(
                "measured: the alphas that minimise the loss of 40 examples",
                lambda answer: _rests(answer, _X, 3.0),
                advice=(
                    "how fast does the expected loss grow with alpha, and how fast does the KL "
                    "fall?"
                ),
            ),
            Criterion(
                "measured again with four times the precision and smaller inputs",
                lambda answer: _rests(answer, 0.7 * _X, 12.0),
                advice="the expected squared error grows by alpha_i w_i² x_i² for each example",
            ),
            Criterion(
                "an input that does not help goes to the bound",
                agrees(lambda answer: answer(_X, _W, 3.0)[0], 1.0),
                advice="with w = 0 only the KL is left, and it falls in alpha",
            ),
            Criterion(
                "twice as many examples, half the alpha",
                agrees(
                    lambda answer: answer(torch.cat([_X, _X]), _W, 3.0)[1:],
                    lambda answer: answer(_X, _W, 3.0)[1:] / 2,
                ),
                advice="the KL is counted once, the loss once for each example",
            ),
        ),
        known_errors=(
            KnownError(
                lambda x, w, tau: (1 / (tau * w**2 * (x**2).mean(0))).clamp(max=1),
                diagnosis=(
                    "this balances the KL against the loss of one example. There are N of them."
                ),
            ),
            KnownError(
                lambda x, w, tau: (2 / (tau * w**2 * (x**2).sum(0))).clamp(max=1),
                diagnosis=(
                    "off by 2: the loss has a factor ½, τ/2 times the squared error, and the slope "
                    "of the KL in log alpha is −½. They cancel."
                ),
            ),
            KnownError(
                lambda x, w, tau: (1 / (2 * tau * w**2 * (x**2).sum(0))).clamp(max=1),
                diagnosis=(
                    "half of it: the loss has a factor ½, τ/2 times the squared error, and the "
                    "slope of the KL in log alpha is −½. They cancel."
                ),
            ),
            KnownError(
                lambda x, w, tau: 1 / (tau * w**2 * (x**2).sum(0)),
                diagnosis=(
                    "right where alpha is small. It is at most 1: an input that hardly helps comes "
                    "to rest at that bound."
                ),
            ),
            KnownError(
                lambda x, w, tau: resting_alpha(x, w, tau) ** 0.5,
                diagnosis="this is the standard deviation of the noise; alpha is its variance.",
            ),
            KnownError(
                lambda x, w, tau: 1 - resting_alpha(x, w, tau),
                diagnosis=(
                    "the other way round: an input to which the loss is sensitive gets little "
                    "noise."
                ),
            ),
        ),
        hints=(
            "The expected negative log-likelihood is τ/2 times the expected squared error. Noise "
            "adds Var[f] to the squared error of every example.",
            "It grows by τ/2 · alpha_i w_i² Σ_n x_ni². In log alpha_i its slope is the same "
            "expression; set it equal to ½.",
            "1 / (τ w_i² Σ_n x_ni²), but at most 1.",
        ),
    ),
    Exercise(
        number="07.2",
        title="match the moments with positive noise",
        kind="derive",
        solution=lognormal_noise,
        probe=lambda answer: answer(0.3, _EPS),
        criteria=(
            Criterion(
                "the mean is one",
                agrees(
                    lambda answer: [_moments(answer, rate)[0] for rate in (0.05, 0.3, 0.6)],
                    [1.0, 1.0, 1.0],
                    atol=1e-6,
                ),
                advice="E[exp(m + s ε)] = exp(m + s²/2): which m makes it one?",
            ),
            Criterion(
                "the variance is p_drop / (1 − p_drop)",
                agrees(
                    lambda answer: [_moments(answer, rate)[1] for rate in (0.05, 0.3, 0.6)],
                    [0.05 / 0.95, 0.3 / 0.7, 1.5],
                    atol=1e-6,
                ),
                advice="Var[ξ] = E[ξ²] − 1 and ξ² is log-normal as well",
            ),
            Criterion(
                "it is positive and grows with ε",
                lambda answer: bool(
                    (answer(0.5, _EPS) > 0).all() and (answer(0.5, _EPS).diff() > 0).all()
                ),
                advice="ξ = exp(m + s ε) with s > 0",
            ),
            Criterion(
                "without dropout it is 1, and each value follows from its own ε",
                agrees(
                    lambda answer: [
                        *answer(0.0, _EPS),
                        *answer(0.3, _EPS),
                        *answer(0.3, torch.cat([_EPS, _NODES]))[3:],
                    ],
                    lambda answer: [
                        1.0,
                        1.0,
                        1.0,
                        *answer(0.3, torch.cat([_EPS, _NODES]))[:3],
                        *answer(0.3, _NODES),
                    ],
                ),
                advice="work elementwise on eps; at p_drop = 0 the variance is 0",
            ),
        ),
        known_errors=(
            KnownError(
                lambda p_drop, eps: torch.exp((p_drop / (1 - p_drop)) ** 0.5 * eps),
                diagnosis=(
                    "alpha is taken for the variance of log ξ, and the mean of log ξ for 0. The "
                    "mean of ξ is then larger than one."
                ),
            ),
            KnownError(
                lambda p_drop, eps: torch.exp(
                    (p_drop / (1 - p_drop)) ** 0.5 * eps - p_drop / (1 - p_drop) / 2
                ),
                diagnosis=(
                    "the mean is one, but the variance of ξ is exp(alpha) − 1, not alpha: it is "
                    "log ξ whose variance you set to alpha."
                ),
            ),
            KnownError(
                lambda p_drop, eps: torch.exp((-np.log(1 - p_drop)) ** 0.5 * eps),
                diagnosis=(
                    "the standard deviation of log ξ is right. With mean 0 of log ξ, the mean of ξ "
                    "is larger than one."
                ),
            ),
            KnownError(
                lambda p_drop, eps: 1 + (p_drop / (1 - p_drop)) ** 0.5 * eps,
                diagnosis="this is Gaussian noise. Its moments are right, but it can be negative.",
            ),
            KnownError(
                lambda p_drop, eps: torch.exp(np.log(1 - p_drop) / 2 - np.log(1 - p_drop) * eps),
                diagnosis=(
                    "a root is missing: −log(1 − p_drop) is the variance of log ξ; ε is multiplied "
                    "by its standard deviation."
                ),
            ),
            KnownError(
                lambda p_drop, eps: lognormal_noise(p_drop, -eps),
                diagnosis=(
                    "the moments are right, but ξ falls where eps grows: take the positive root "
                    "of the variance of log ξ."
                ),
            ),
            KnownError(
                lambda p_drop, eps: torch.log(lognormal_noise(p_drop, eps)),
                diagnosis="this is log ξ: the exponential is missing.",
            ),
            KnownError(
                lambda p_drop, eps: lognormal_noise(p_drop, eps) / (1 - p_drop),
                diagnosis=(
                    "the sign of the mean of log ξ: it must be −s²/2, so that the mean of ξ is one."
                ),
            ),
        ),
        hints=(
            "Let log ξ = m + s ε. Write E[ξ] and E[ξ²] with E[exp(tε)] = exp(t²/2).",
            "E[ξ] = 1 gives m = −s²/2. Then E[ξ²] = exp(s²), and Var[ξ] = exp(s²) − 1 = alpha.",
            "s² = log(1 + alpha) = −log(1 − p_drop).",
        ),
    ),
    Exercise(
        number="07.3",
        title="concrete dropout with a rate for each input",
        kind="extend",
        solution=kl_by_unit,
        probe=_kl_at,
        criteria=(
            Criterion(
                "equal rates give the package's layer",
                agrees(
                    lambda answer: [
                        _kl_at(answer, torch.full((3,), r).double(), 0.7) for r in (0.2, 0.6)
                    ],
                    [_package_kl(rate) for rate in (0.2, 0.6)],
                    atol=1e-5,
                ),
                advice="compare with equation (15), term by term",
            ),
            Criterion(
                "rates of their own: differences are those of lesson 04's mixtures",
                agrees(
                    lambda answer: _kl_at(answer) - _kl_at(answer, _OTHER_RATES),
                    _from_mixtures(_RATES) - _from_mixtures(_OTHER_RATES),
                    atol=1e-6,
                ),
                advice="row i of theta belongs to the rate of input i, and so does an entropy",
            ),
            Criterion(
                "without weights, only fair coins have a KL of zero",
                lambda answer: (
                    close(answer(0 * _THETA, 0 * _RATES + 0.5, 1.0), 0.0)
                    and float(answer(0 * _THETA, _RATES, 1.0)) > 0.1
                ),
                advice="the entropy of a fair coin is log 2",
            ),
            Criterion(
                "twice the length_scale, four times the term of the weights",
                agrees(
                    lambda answer: (
                        _kl_at(answer, length_scale=2.0) - _kl_at(answer, length_scale=0.0)
                    ),
                    lambda answer: (
                        4 * (_kl_at(answer, length_scale=1.0) - _kl_at(answer, length_scale=0.0))
                    ),
                ),
                advice="the prior's precision is length_scale²",
            ),
        ),
        known_errors=(
            KnownError(
                lambda theta, p_drop, scale: (
                    scale**2 / 2 * (theta**2).sum() / (1 - p_drop.mean())
                    + (kl_by_unit(0 * theta, p_drop, scale))
                ),
                diagnosis=(
                    "the weights of all inputs are divided by the average keep. Each row has its "
                    "own."
                ),
            ),
            KnownError(
                lambda theta, p_drop, scale: (
                    scale**2 / 2 * ((theta**2).sum(1) * (1 - p_drop)).sum()
                    + kl_by_unit(0 * theta, p_drop, scale)
                ),
                diagnosis=(
                    "multiplied by keep: that is the paper's form for M. With inverted dropout "
                    "theta = keep · M, so keep · M² = theta² / keep."
                ),
            ),
            KnownError(
                lambda theta, p_drop, scale: (
                    kl_by_unit(theta, p_drop, scale) - 2 * kl_by_unit(0 * theta, p_drop, scale)
                ),
                diagnosis="the sign of the entropy is wrong: rates near ½ have the *smaller* KL.",
            ),
            KnownError(
                lambda theta, p_drop, scale: kl_by_unit(theta, p_drop, scale) - 3 * np.log(2),
                diagnosis=(
                    "the constant log 2 for each input is missing; gradients do not change, but "
                    "the KL of a fair coin should be zero."
                ),
            ),
            KnownError(
                lambda theta, p_drop, scale: (
                    scale**2 / 2 * ((theta**2).sum(1) / (1 - p_drop)).sum()
                    + kl_by_unit(0 * theta, 0 * p_drop + p_drop.mean(), scale)
                ),
                diagnosis=(
                    "the entropy of the average rate is not the average entropy: each input has "
                    "its own."
                ),
            ),
        ),
        hints=(
            "The KL of independent rows is the sum of their KLs: write (15) for one row first.",
            "For row i: length_scale² / (2 keep_i) · Σ_j theta_ij² + log 2 − H(p_drop_i).",
            "(theta**2).sum(1) is the squared norm of each row.",
        ),
    ),
    Exercise(
        number="07.4",
        title="repair a training loss",
        kind="debug",
        solution=dropout_loss,
        probe=_loss,
        criteria=(
            Criterion(
                "without noise it is cross-entropy plus the KL over N",
                agrees(
                    lambda answer: _loss(answer, eps=0 * _DRAWS),
                    _noisy_nll(torch.zeros(3), _DRAWS) + loguniform_kl(_LOG_ALPHA).sum() / 50,
                ),
                advice="at eps = 0 the noise is not to blame: look at the KL",
            ),
            Criterion(
                "with a large training set the KL no longer counts",
                agrees(
                    lambda answer: _loss(answer, n_train=10**12),
                    _noisy_nll(torch.exp(_LOG_ALPHA / 2), _DRAWS),
                    atol=1e-8,
                ),
                advice=(
                    "now only the noise is left: what is its standard deviation? Who shares a draw?"
                ),
            ),
            Criterion(
                "the KL term is the sum over the inputs, divided by N",
                agrees(
                    lambda answer: _loss(answer, n_train=10) - _loss(answer, n_train=20),
                    loguniform_kl(_LOG_ALPHA).sum() / 20,
                ),
                advice=(
                    "one KL for each factor that is drawn, and a minibatch stands for all N "
                    "examples"
                ),
            ),
        ),
        known_errors=(
            KnownError(
                lambda x, y, theta, log_alpha, eps, n_train: (
                    cross_entropy((x * (1 + torch.exp(log_alpha) * eps)) @ theta, y)
                    + loguniform_kl(log_alpha).sum() / n_train
                ),
                diagnosis="the noise still has standard deviation alpha. alpha is a variance.",
            ),
            KnownError(
                lambda *given: dropout_loss(*given[:5], len(given[0])),
                diagnosis=(
                    "the KL is still divided by the size of the minibatch. The loss is an average "
                    "per example, so the KL is divided by N, the number of training examples."
                ),
            ),
            KnownError(
                lambda *given: dropout_loss(*given[:5], given[5] * len(given[3])),
                diagnosis=(
                    "the KL is still averaged over the inputs. The KL of independent factors is a "
                    "sum."
                ),
            ),
            KnownError(
                lambda *given: dropout_loss(*given[:5], given[5] / given[2].shape[1]),
                diagnosis=(
                    "the KL is counted once for each weight. All weights of an input share one "
                    "factor, so under type A it counts once for each input."
                ),
            ),
            KnownError(
                lambda x, y, theta, log_alpha, eps, n_train: dropout_loss(
                    x, y, theta, log_alpha, eps[:1], n_train
                ),
                diagnosis="all examples of the minibatch still share one draw of the noise.",
            ),
            KnownError(
                lambda x, y, theta, log_alpha, eps, n_train: (
                    dropout_loss(x, y, theta, log_alpha, eps, n_train)
                    + (molchanov_kl(log_alpha) - loguniform_kl(log_alpha)).sum() / n_train
                ),
                diagnosis=(
                    "all four mistakes are mended, but the KL is now the approximation (12). The "
                    "colleague's loguniform_kl is exact, and no mistake."
                ),
            ),
            KnownError(
                lambda x, y, theta, log_alpha, eps, n_train: (
                    cross_entropy((x * (1 + log_alpha / 2 * eps)) @ theta, y)
                    + loguniform_kl(log_alpha).sum() / n_train
                ),
                diagnosis=(
                    "the exponential is missing: log_alpha / 2 is the logarithm of the noise's "
                    "standard deviation."
                ),
            ),
        ),
        hints=(
            "There are four mistakes: two in the noise, two in the KL term.",
            "The noise: alpha is a variance, and every example has its own row of eps. The KL: a "
            "sum over inputs, divided by the number of training examples.",
            "xi = 1 + torch.exp(log_alpha / 2) * eps, then cross_entropy((x * xi) @ theta, y).",
        ),
    ),
)
