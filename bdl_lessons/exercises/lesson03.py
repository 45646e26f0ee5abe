"""Exercises of lesson 03: width, step units, a Bayesian last layer, forecasts some steps ahead."""

from __future__ import annotations

import functools
import math

import torch
from torch import Tensor
from torch.distributions import MultivariateNormal, Normal

from bdl_lessons.exercises.grader import Criterion, Exercise, KnownError, agrees, close, normals


def wide_enough(K: int) -> tuple[float, float]:
    """Deviation of a random network of ``K`` ReLU units without biases from its limit.

    Given the units, the output is Gaussian with variance ``s``, the average of ``K`` independent
    ``relu(u)^2``. With ``E[relu(u)^2] = k/2`` and ``E[relu(u)^4] = 3 k^2/2`` one term has the
    variance ``5 k^2/4``, five times its squared mean; and ``E[f^4] = 3 E[s^2]``.

    Returns the standard deviation of ``s`` divided by its mean, and the excess kurtosis of ``f``.
    """
    return math.sqrt(5 / K), 15 / K


def step_kernel(x: Tensor, x_other: Tensor) -> Tensor:
    """``E[step(w'x) step(w'x_other)]`` for ``w ~ N(0, I)``; both inputs are ``(d,)``.

    Both pre-activations are positive for directions of ``w`` in an arc of length ``pi - psi``.
    """
    dot = x @ x_other
    sine = ((x @ x) * (x_other @ x_other) - dot**2).clamp(min=0).sqrt()
    return (math.pi - torch.atan2(sine, dot)) / (2 * math.pi)


def last_layer(
    x: Tensor, y: Tensor, x_test: Tensor, w: Tensor, b: Tensor, beta: float, tau: float
) -> tuple[Tensor, Tensor]:
    """Posterior mean and variance ``(M,)`` of a network whose output weights alone are random.

    ``x`` is ``(N, d)``, ``y`` ``(N,)``, ``x_test`` ``(M, d)``, ``w`` ``(K, d)``, ``b`` ``(K,)``.
    """
    # First mistake: the same units twice must change nothing, so Phi needs the root in (8).
    Phi = torch.relu(x @ w.T + b) / math.sqrt(len(b))
    Phi_test = torch.relu(x_test @ w.T + b) / math.sqrt(len(b))
    # Second mistake: beta is a precision, so the kernel of (9) is divided by it.
    C_noisy = Phi @ Phi.T / beta + torch.eye(len(y), dtype=y.dtype) / tau
    C_cross = Phi @ Phi_test.T / beta
    prior_var = Phi_test.square().sum(1) / beta
    # Equation (3); of the covariance only the diagonal is asked for.
    solved = torch.linalg.solve(C_noisy, C_cross)
    mean = solved.T @ y
    explained = (C_cross * solved).sum(0)
    return mean, prior_var - explained


def ahead(C: Tensor, y: Tensor, tau: float, horizon: int) -> Tensor:
    """``log p(y_n | y_0, ..., y_{n-horizon})`` for every ``n``, in nats: ``(N,)``.

    ``C`` is the kernel matrix ``(N, N)`` in the order of time, ``y`` ``(N,)``, ``horizon >= 1``.
    """
    C_noisy = C + torch.eye(len(y), dtype=y.dtype) / tau  # covariance of the targets
    log_densities = []
    for n in range(len(y)):
        # y_0 to y_{n-horizon} are known; for n < horizon nothing is, and the slice is empty.
        known = slice(0, max(0, n - horizon + 1))
        # Equation (3) with the known targets, and input n as the only test input.
        solved = torch.linalg.solve(C_noisy[known, known], C[known, n])
        mean = solved @ y[known]
        # The diagonal of C_noisy holds the noise of y_n itself.
        var = C_noisy[n, n] - C[known, n] @ solved
        log_densities.append(Normal(mean, var.sqrt()).log_prob(y[n]))
    return torch.stack(log_densities)


def _scaled(scale):
    """The last layer whose kernel has this factor, a function of beta and K, before the sum."""

    def answer(x, y, x_test, w, b, beta, tau):
        n_units = len(b)
        wrong_beta = 1 / (scale(beta, n_units) * n_units)
        return last_layer(x, y, x_test, w, b, wrong_beta, tau)

    return answer


def _variance_of_y(x, y, x_test, w, b, beta, tau):
    mean, var = last_layer(x, y, x_test, w, b, beta, tau)
    return mean, var + 1 / tau


def _mended_in_c_alone(x, y, x_test, w, b, beta, tau):
    n_units = len(b)
    Phi = torch.relu(x @ w.T + b)
    Phi_test = torch.relu(x_test @ w.T + b)
    C = Phi @ Phi.T / (n_units * beta) + torch.eye(len(y), dtype=y.dtype) / tau
    C_cross = beta * Phi @ Phi_test.T
    prior = beta * Phi_test.square().sum(1)
    solved = torch.linalg.solve(C, C_cross)
    return solved.T @ y, prior - (C_cross * solved).sum(0)


def _past_without_noise(C, y, tau, horizon):
    """Forecasts from earlier values of f, as if the targets had no noise."""
    log_densities = []
    for n in range(len(y)):
        known = slice(0, max(0, n - horizon + 1))
        solved = torch.linalg.solve(C[known, known], C[known, n])
        var = C[n, n] + 1 / tau - C[known, n] @ solved
        log_densities.append(Normal(solved @ y[known], var.sqrt()).log_prob(y[n]))
    return torch.stack(log_densities)


def _ahead_with(std):
    """Forecasts with another standard deviation: ``std`` of the variances of f and of y."""

    def answer(C, y, tau, horizon):
        identity = torch.eye(len(y), dtype=y.dtype)
        log_densities = []
        for n in range(len(y)):
            known = slice(0, max(0, n - horizon + 1))
            solved = torch.linalg.solve((C + identity / tau)[known, known], C[known, n])
            var_f = C[n, n] - C[known, n] @ solved
            forecast = Normal(solved @ y[known], std(var_f, var_f + 1 / tau))
            log_densities.append(forecast.log_prob(y[n]))
        return torch.stack(log_densities)

    return answer


_normal = normals(3)
_VECTORS = _normal(200, 4)
_X = _normal(5, 2)
_Y = _normal(5)
_X_TEST = _normal(3, 2)
_W = _normal(7, 2)
_B = _normal(7)
_ROOT = _normal(9, 9)
_C = _ROOT @ _ROOT.T / 3
_SERIES = _normal(9)


@functools.cache
def _simulated(K: int) -> tuple[float, float]:
    """Both numbers of :func:`wide_enough`, measured on 10 000 random networks."""
    s = torch.relu(normals(K)(10_000, K)).square().mean(1)
    return (s.std() / s.mean()).item(), (3 * s.square().mean() / s.mean() ** 2 - 3).item()


def _near_simulation(index: int, widths: tuple[int, ...], tolerance: float):
    def holds(answer) -> bool:
        pairs = ((float(answer(K)[index]), _simulated(K)[index]) for K in widths)
        return all(abs(given - seen) < tolerance * seen for given, seen in pairs)

    return holds


def _at_angle(answer, degrees: float, length: float = 1.0) -> Tensor:
    angle = math.radians(degrees)
    x = torch.tensor([length, 0.0], dtype=torch.float64)
    return answer(x, torch.tensor([math.cos(angle), math.sin(angle)], dtype=torch.float64))


def _psi(x: Tensor, x_other: Tensor) -> Tensor:
    return math.pi - 2 * math.pi * step_kernel(x, x_other)


def _predictions(answer, beta: float = 0.4, tau: float = 2.0, copies: int = 1) -> Tensor:
    w = _W.repeat(copies, 1)
    b = _B.repeat(copies)
    return torch.stack([torch.as_tensor(v) for v in answer(_X, _Y, _X_TEST, w, b, beta, tau)])


def _in_weight_space(beta: float, tau: float) -> Tensor:
    """Mean and variance by the posterior of the output weights, equation (16)."""
    phi, phi_test = (torch.relu(x @ _W.T + _B) / math.sqrt(7) for x in (_X, _X_TEST))
    cov = torch.linalg.inv(tau * phi.T @ phi + beta * torch.eye(7, dtype=torch.float64))
    return torch.stack([tau * phi_test @ cov @ phi.T @ _Y, (phi_test @ cov * phi_test).sum(1)])


def _joint(n: int) -> Tensor:
    """Log density of the first ``n`` targets of the series, for ``tau = 2``."""
    cov = _C[:n, :n] + torch.eye(n, dtype=torch.float64) / 2
    return MultivariateNormal(torch.zeros(n, dtype=torch.float64), cov).log_prob(_SERIES[:n])


def _changed(answer, n: int) -> Tensor:
    """Which entries change, two steps ahead, when target ``n`` does."""
    moved = _SERIES.clone()
    moved[n] += 1
    return ((answer(_C, moved, 2.0, 2) - answer(_C, _SERIES, 2.0, 2)).abs() > 1e-9).double()


EXERCISES = (
    Exercise(
        number="03.1",
        title="how wide is wide?",
        solution=wide_enough,
        probe=lambda answer: torch.tensor([float(v) for v in answer(50)]),
        criteria=(
            Criterion(
                "the first is that of simulated networks, K = 5, 50 and 500",
                _near_simulation(0, (5, 50, 500), 0.05),
                advice=(
                    "(ΦΦ')_nn is an average of K independent relu(u)². What are the mean and the "
                    "variance of one of them, and what does averaging do to both?"
                ),
            ),
            Criterion(
                "four times the units halve it",
                agrees(
                    lambda answer: 2 * float(answer(400)[0]), lambda answer: float(answer(100)[0])
                ),
                advice=(
                    "how does the standard deviation of an average depend on the number of terms?"
                ),
            ),
            Criterion(
                "the second is that of simulated networks, K = 5, 50 and 500",
                _near_simulation(1, (5, 50, 500), 0.1),
                advice=(
                    "given the units, f is Gaussian with variance s = (ΦΦ')_nn, and E[f⁴ | s] = 3s²"
                ),
            ),
        ),
        known_errors=(
            KnownError(
                lambda K: (5 / K, 15 / K),
                diagnosis=(
                    "the first number is a variance divided by the squared mean. Asked is the "
                    "standard deviation divided by the mean."
                ),
            ),
            KnownError(
                lambda K: (math.sqrt(1.25 / K), 15 / K),
                diagnosis=(
                    "the first number is the standard deviation of an average of relu(u)²/E[u²]; "
                    "divide by the mean of that, ½."
                ),
            ),
            KnownError(
                lambda K: (math.sqrt(5) / K, 15 / K),
                diagnosis=(
                    "the first number falls as 1/K. That is right for the variance of an average "
                    "of K terms; the standard deviation is its root."
                ),
            ),
            KnownError(
                lambda K: (math.sqrt(2 / K), 6 / K),
                diagnosis=(
                    "these numbers belong to linear units: E[u⁴]/E[u²]² = 3. A ReLU cuts off half "
                    "of the distribution, which halves E[u²] and E[u⁴] alike."
                ),
            ),
            KnownError(
                lambda K: (math.sqrt(5 / K), 5 / K),
                diagnosis=(
                    "the second number lacks a factor 3: the excess kurtosis is 3 E[s²]/E[s]² − 3."
                ),
            ),
            KnownError(
                lambda K: (math.sqrt(5 / K), 3 + 15 / K),
                diagnosis=(
                    "the second number is the kurtosis; the excess subtracts the 3 of a Gaussian."
                ),
            ),
        ),
        hints=(
            "Start with one unit: for u ~ N(0, k), what are E[relu(u)²] and E[relu(u)⁴]?",
            "Half of E[u²] = k and half of E[u⁴] = 3k². An average of K terms has 1/K of the "
            "variance of one.",
            "Var[relu²]/E[relu²]² = 5, and the excess kurtosis is three times the squared first "
            "number.",
        ),
        kind="predict",
    ),
    Exercise(
        number="03.2",
        title="the kernel of step units",
        solution=step_kernel,
        probe=lambda answer: _at_angle(answer, 50, 1.7),
        criteria=(
            Criterion(
                "equal inputs, also where rounding takes the cosine above 1: ½",
                agrees(
                    lambda answer: torch.stack([answer(x, x) for x in _VECTORS]),
                    torch.full((200,), 0.5, dtype=torch.float64),
                    atol=1e-6,
                ),
                advice="E[step(u)²] = P(u > 0) = 1/2",
            ),
            Criterion(
                "opposite inputs, also where rounding takes it below −1: 0",
                agrees(
                    lambda answer: torch.stack([answer(x, -3 * x) for x in _VECTORS]),
                    torch.zeros(200, dtype=torch.float64),
                    atol=1e-6,
                ),
                advice="the two are never both positive: if w'x > 0, then w'(−3x) < 0",
            ),
            Criterion(
                "perpendicular inputs: 1/4",
                lambda answer: close(_at_angle(answer, 90), 0.25, 1e-7),
                advice="perpendicular inputs have independent pre-activations",
            ),
            Criterion(
                "60° apart: 1/3",
                lambda answer: close(_at_angle(answer, 60), 1 / 3, 1e-7),
                advice=(
                    "both are positive for directions of w in an arc. How long is it, as a share "
                    "of the whole circle?"
                ),
            ),
            Criterion(
                "the lengths of the inputs do not matter",
                agrees(
                    lambda answer: _at_angle(answer, 50, 7.0),
                    lambda answer: _at_angle(answer, 50),
                    atol=1e-7,
                ),
                advice="step(7u) = step(u)",
            ),
        ),
        known_errors=(
            KnownError(
                lambda x, x_other: 2 * step_kernel(x, x_other),
                diagnosis=(
                    "this is Cho and Saul's k₀, which is defined with a factor 2 in front of the "
                    "expectation."
                ),
            ),
            KnownError(
                lambda x, x_other: _psi(x, x_other) / (2 * math.pi),
                diagnosis=(
                    "ψ/(2π) is the probability that u > 0 and u' < 0. Asked is that both are "
                    "positive."
                ),
            ),
            KnownError(
                lambda x, x_other: 1 - 2 * _psi(x, x_other) / math.pi,
                diagnosis=(
                    "this is the kernel of sign units, with values −1 and 1. Here they are 0 and 1."
                ),
            ),
            KnownError(
                lambda x, x_other: (1 + torch.cos(_psi(x, x_other))) / 4,
                diagnosis=(
                    "linear in the cosine of the angle. The probability is linear in the angle "
                    "itself."
                ),
            ),
            KnownError(
                lambda x, x_other: x.norm() * x_other.norm() * step_kernel(x, x_other),
                diagnosis=(
                    "the lengths of the inputs stand in front, as for ReLU. A step ignores the "
                    "length."
                ),
            ),
        ),
        hints=(
            "Only the direction of w in the plane of x and x_other matters, and it is uniform.",
            "w'x > 0 is a half circle around x, and w'x_other > 0 one around x_other. How much do "
            "they share?",
            "(π − ψ) / (2π), with ψ from atan2 or from acos of a clamped cosine.",
        ),
        kind="derive",
    ),
    Exercise(
        number="03.3",
        title="two mistakes in a last layer",
        solution=last_layer,
        probe=_predictions,
        criteria=(
            Criterion(
                "the same units twice change nothing",
                agrees(lambda answer: _predictions(answer, copies=2), _predictions),
                advice=(
                    "ΦΦ' must be an average over units, not a sum: what does (8) have that this "
                    "lacks?"
                ),
            ),
            Criterion(
                "a very precise prior (β → ∞) leaves f at 0",
                lambda answer: bool((_predictions(answer, beta=1e9).abs() < 1e-6).all()),
                advice="β is a precision: the larger it is, the closer the output weights are to 0",
            ),
            Criterion(
                "the mean is that of weight space",
                agrees(lambda answer: _predictions(answer)[0], _in_weight_space(0.4, 2.0)[0]),
                advice="compare with (8), (9) and (3), factor by factor",
            ),
            Criterion(
                "the variance is that of weight space",
                agrees(lambda answer: _predictions(answer)[1], _in_weight_space(0.4, 2.0)[1]),
                advice="C, C_cross and the prior variance all need the same factor",
            ),
        ),
        known_errors=(
            KnownError(
                _scaled(lambda beta, K: beta),
                diagnosis=(
                    "nothing is mended yet. Try wider layers, and a larger beta: do the "
                    "predictions move as they should?"
                ),
            ),
            KnownError(
                _scaled(lambda beta, K: 1 / beta),
                diagnosis=(
                    "one mistake is left: without sqrt(1/K) in Φ the prior variance grows with the "
                    "number of units."
                ),
            ),
            KnownError(
                _scaled(lambda beta, K: beta / K),
                diagnosis=(
                    "one mistake is left: β multiplies the kernel. It is a precision, so the prior "
                    "variance of the output weights is 1/β."
                ),
            ),
            KnownError(
                _scaled(lambda beta, K: 1 / beta / K**2),
                diagnosis="Φ is divided by K instead of sqrt(K). It enters the kernel twice.",
            ),
            KnownError(
                _mended_in_c_alone,
                diagnosis=(
                    "C is right. C_cross and prior are made of the same features and the same "
                    "weights, so they need the same two changes."
                ),
            ),
            KnownError(
                _variance_of_y,
                diagnosis="this is the variance of a new y; asked is that of f, without 1/τ.",
            ),
        ),
        hints=(
            "Change one thing at a time: the number of units, beta, tau. What should happen?",
            "One mistake shows when you repeat the same units, the other when beta grows.",
            "Divide both feature matrices by math.sqrt(len(b)), and by beta instead of "
            "multiplying, in C, C_cross and prior.",
        ),
        kind="debug",
    ),
    Exercise(
        number="03.4",
        title="forecasts several steps ahead",
        solution=ahead,
        probe=lambda answer: answer(_C, _SERIES, 2.0, 3),
        criteria=(
            Criterion(
                "horizon 1: the terms of (15), whose sum is the log evidence",
                agrees(
                    lambda answer: answer(_C, _SERIES, 2.0, 1).cumsum(0),
                    torch.stack([_joint(n) for n in range(1, 10)]),
                ),
                advice=(
                    "entry n is the density of y_n given y_0 to y_{n-1}; the first one is given "
                    "nothing"
                ),
            ),
            Criterion(
                "horizon N: every target from the prior alone",
                agrees(
                    lambda answer: answer(_C, _SERIES, 2.0, 9),
                    Normal(0.0, (_C.diagonal() + 0.5).sqrt()).log_prob(_SERIES),
                ),
                advice=(
                    "for n < horizon no earlier target is used: mean 0 and the variance of y_n "
                    "itself"
                ),
            ),
            Criterion(
                "two steps ahead, y_3 changes entry 3 and those from 5 on",
                agrees(
                    lambda answer: _changed(answer, 3),
                    torch.tensor([0, 0, 0, 1, 0, 1, 1, 1, 1], dtype=torch.float64),
                ),
                advice="entry n may use y_0 to y_{n-horizon}, and the last of these is included",
            ),
            Criterion(
                "independent targets: the horizon does not matter",
                agrees(
                    lambda answer: answer(_C.diagonal().diag(), _SERIES, 2.0, 4),
                    lambda answer: answer(_C.diagonal().diag(), _SERIES, 2.0, 1),
                ),
                advice="with C diagonal, earlier targets tell nothing",
            ),
        ),
        known_errors=(
            KnownError(
                lambda C, y, tau, horizon: ahead(C, y, tau, horizon + 1),
                diagnosis=(
                    "one step too far ahead: y_{n-horizon} itself is known when y_n is predicted."
                ),
            ),
            KnownError(
                lambda C, y, tau, horizon: ahead(C, y, tau, horizon - 1),
                diagnosis="one step too near: the last target that may be used is y_{n-horizon}.",
            ),
            KnownError(
                lambda C, y, tau, horizon: ahead(C, y, tau, 1),
                diagnosis=(
                    "every target is predicted one step ahead, whatever the horizon is: the last "
                    "target that may be used is y_{n-horizon}."
                ),
            ),
            KnownError(
                _past_without_noise,
                diagnosis=(
                    "the earlier targets are used as if they had no noise: C[known, known] needs "
                    "1/τ on its diagonal."
                ),
            ),
            KnownError(
                _ahead_with(std=lambda var_f, var_y: var_f.sqrt()),
                diagnosis=(
                    "this is the density of f at step n. The target y_n has the noise variance 1/τ "
                    "on top."
                ),
            ),
            KnownError(
                _ahead_with(std=lambda var_f, var_y: var_y),
                diagnosis="the variance is passed where Normal expects the standard deviation.",
            ),
        ),
        hints=(
            "For one n, this is equation (3) with one test input: which rows and columns of C?",
            "past = slice(0, max(0, n - horizon + 1)); the noise belongs on the diagonal of "
            "C[past, past] and on the variance of y_n.",
            "Normal(mean, (variance of f + 1 / tau) ** 0.5).log_prob(y[n]), stacked over n.",
        ),
        kind="extend",
    ),
)
