"""Exercises of lesson 03: random features, the ReLU kernel, GP regression, the recursion."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from bdl_lessons.lessons.exercises.grader import Check, Exercise, KnownError, agrees, close, normals
from bdl_lessons.reference import relu_expectation


def relu_features(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The feature map of equation (5) for ReLU units.

    ``x`` is ``(N, d)``, ``weight`` ``(K, d)``, ``bias`` ``(K,)``. Returns ``Phi``, ``(N, K)``.
    """
    return torch.relu(x @ weight.T + bias) / math.sqrt(len(bias))


def relu_kernel(x: Tensor, y: Tensor) -> Tensor:
    """``E[relu(w'x) relu(w'y)]`` for ``w ~ N(0, I)``, equation (14); both inputs are ``(d,)``."""
    norms = x.norm() * y.norm()
    theta = torch.acos((x @ y / norms).clamp(-1, 1))
    return norms / (2 * math.pi) * (theta.sin() + (math.pi - theta) * theta.cos())


def gp_predict(
    k_train: Tensor, k_cross: Tensor, k_test: Tensor, y: Tensor, tau: float
) -> tuple[Tensor, Tensor]:
    """Mean and variance of ``f`` at M test inputs, equation (3).

    ``k_train`` is ``(N, N)``, ``k_cross`` ``(N, M)``, ``k_test`` ``(M, M)``, ``y`` ``(N,)``;
    ``tau`` is the noise precision. Returns mean ``(M,)`` and variance ``(M,)``.
    """
    solved = torch.linalg.solve(k_train + torch.eye(len(y), dtype=y.dtype) / tau, k_cross)
    mean = solved.T @ y
    cov = k_test - k_cross.T @ solved
    return mean, cov.diagonal()


def deep_relu(
    kxx: Tensor, kyy: Tensor, kxy: Tensor, depth: int, weight_var: float, bias_var: float
) -> Tensor:
    """The recursion (18): covariance after ``depth`` hidden layers, from the values at the input.

    ``relu_expectation(kxx, kyy, kxy)`` is F. Returns the covariance of the outputs at x and x'.
    """
    for _ in range(depth):
        kxx, kyy, kxy = (
            bias_var + weight_var * relu_expectation(a, b, c)
            for a, b, c in ((kxx, kxx, kxx), (kyy, kyy, kyy), (kxx, kyy, kxy))
        )
    return kxy


_normal = normals(3)
_X = _normal(5, 2)
_WEIGHT = _normal(7, 2)
_BIAS = _normal(7)
_ROOT = _normal(6, 6)
_K = _ROOT @ _ROOT.T
_Y = _normal(4)
_PARTS = (_K[:4, :4], _K[:4, 4:], _K[4:, 4:], _Y)
_ONE = torch.ones((), dtype=torch.float64)


def _gram(features: Tensor) -> Tensor:
    return features @ features.T


def _kernel_by_angle(answer, degrees: float, length: float = 1.0) -> Tensor:
    angle = math.radians(degrees)
    x = torch.tensor([length, 0.0], dtype=torch.float64)
    y = torch.tensor([math.cos(angle), math.sin(angle)], dtype=torch.float64)
    return answer(x, y)


def _predict(answer, tau: float = 2.0) -> Tensor:
    return torch.stack([torch.as_tensor(part) for part in answer(*_PARTS, tau)])


def _wrong_noise(noise):
    def answer(k_train, k_cross, k_test, y, tau):
        solved = torch.linalg.solve(k_train + noise(len(y), tau), k_cross)
        return solved.T @ y, (k_test - k_cross.T @ solved).diagonal()

    return answer


def _conditioned_by_hand(tau: float) -> Tensor:
    """Mean and variance of the last two of six jointly Gaussian numbers, by the precision."""
    joint = _K.clone()
    joint[:4, :4] += torch.eye(4, dtype=torch.float64) / tau
    precision = torch.linalg.inv(joint)
    cov = torch.linalg.inv(precision[4:, 4:])
    return torch.stack([-cov @ precision[4:, :4] @ _Y, cov.diagonal()])


def _deep(answer, depth: int, weight_var: float = 2.0, bias_var: float = 0.3) -> Tensor:
    return answer(1.3 * _ONE, 0.8 * _ONE, 0.5 * _ONE, depth, weight_var, bias_var)


def _frozen_diagonal(kxx, kyy, kxy, depth, weight_var, bias_var):
    for _ in range(depth):
        kxy = bias_var + weight_var * relu_expectation(kxx, kyy, kxy.clamp(max=(kxx * kyy).sqrt()))
    return kxy


def _bias_once(kxx, kyy, kxy, depth, weight_var, bias_var):
    return bias_var + deep_relu(kxx, kyy, kxy, depth, weight_var, 0.0)


EXERCISES = (
    Exercise(
        number="03.1",
        title="random features",
        solution=relu_features,
        probe=lambda answer: answer(_X, _WEIGHT, _BIAS),
        checks={
            "one row for each input, one column for each unit": Check(
                lambda answer: answer(_X, _WEIGHT, _BIAS).shape == (5, 7),
                "x is (N, d) and weight (K, d): which product gives (N, K)?",
            ),
            "twice the same units give the same kernel": agrees(
                lambda answer: _gram(answer(_X, _WEIGHT.repeat(2, 1), _BIAS.repeat(2))),
                lambda answer: _gram(answer(_X, _WEIGHT, _BIAS)),
                "ΦΦ' must be an average over units, not a sum: where does K come in?",
            ),
            "the kernel is the average over units of relu(h) relu(h')": agrees(
                lambda answer: _gram(answer(_X, _WEIGHT, _BIAS)),
                _gram(torch.relu(_X @ _WEIGHT.T + _BIAS)) / 7,
                "compare entry by entry with equation (4)",
            ),
            "no feature is negative, and some are zero": Check(
                lambda answer: bool(
                    (answer(_X, _WEIGHT, _BIAS) >= 0).all()
                    and (answer(_X, _WEIGHT, _BIAS) == 0).any()
                ),
                "the ReLU comes after the bias",
            ),
        },
        known_errors=(
            KnownError(
                lambda x, weight, bias: torch.relu(x @ weight.T + bias),
                "the factor sqrt(1/K) is missing: this kernel is a sum and grows with the width.",
            ),
            KnownError(
                lambda x, weight, bias: torch.relu(x @ weight.T + bias) / len(bias),
                "divided by K instead of sqrt(K). Φ enters the kernel twice, so this kernel is "
                "the average divided by K once more: it vanishes for wide layers.",
            ),
            KnownError(
                lambda x, weight, bias: torch.relu(x @ weight.T) / math.sqrt(len(bias)) + bias,
                "the bias is added after the ReLU; it belongs inside.",
            ),
            KnownError(
                lambda x, weight, bias: torch.relu(x @ weight.T + bias) / math.sqrt(x.shape[1]),
                "divided by the root of the number of inputs. K is the number of units, the rows "
                "of weight.",
            ),
        ),
        hints=(
            "Compute the K pre-activations of each input first.",
            "Equation (4) has 1/K in front of the sum. Φ Φ' multiplies two features.",
            "torch.relu(x @ weight.T + bias), divided by math.sqrt(K).",
        ),
    ),
    Exercise(
        number="03.2",
        title="the ReLU kernel",
        solution=relu_kernel,
        probe=lambda answer: _kernel_by_angle(answer, 50, 1.7),
        checks={
            "at equal inputs it is half the squared length": Check(
                lambda answer: close(answer(_X[0], _X[0]), _X[0] @ _X[0] / 2, 1e-7),
                "E[relu(u)²] is half of E[u²], because u is positive half of the time",
            ),
            "opposite inputs never fire together": Check(
                lambda answer: close(answer(_X[0], -_X[0]), 0.0, 1e-7),
                "at θ = π both terms must vanish",
            ),
            "perpendicular inputs: E[relu(u)] E[relu(v)] = 1/(2π)": Check(
                lambda answer: close(_kernel_by_angle(answer, 90), 1 / (2 * math.pi)),
                "perpendicular inputs give independent pre-activations",
            ),
            "twice the input, twice the kernel": agrees(
                lambda answer: _kernel_by_angle(answer, 50, 2.0),
                lambda answer: 2 * _kernel_by_angle(answer, 50),
                "relu(2u) = 2 relu(u): the lengths come out as factors",
            ),
        },
        known_errors=(
            KnownError(
                lambda x, y: 2 * relu_kernel(x, y),
                "this is Cho and Saul's k₁, which is defined with a factor 2 in front of the "
                "expectation.",
            ),
            KnownError(
                lambda x, y: (
                    x.norm()
                    * y.norm()
                    / (2 * math.pi)
                    * (torch.sin(_angle(x, y)) + _angle(x, y) * torch.cos(_angle(x, y)))
                ),
                "θ stands where π − θ should: the units that see both inputs fill the angle π − θ.",
            ),
            KnownError(
                lambda x, y: relu_kernel(x / x.norm(), y / y.norm()),
                "the lengths of x and y are missing in front.",
            ),
            KnownError(
                lambda x, y: relu_expectation(x @ x, y @ y, x @ y) / len(x),
                "divided by the input dimension. Here w ~ N(0, I); the 1/d belongs to the networks "
                "of equation (17).",
            ),
        ),
        hints=(
            "Only the two lengths and the angle θ between x and y matter.",
            "θ = acos(x'y / (|x||y|)); clamp the cosine to [−1, 1] first.",
            "|x||y| / (2π) · (sin θ + (π − θ) cos θ).",
        ),
    ),
    Exercise(
        number="03.3",
        title="GP regression",
        solution=gp_predict,
        probe=_predict,
        checks={
            "it conditions the joint Gaussian": Check(
                lambda answer: close(_predict(answer), _conditioned_by_hand(2.0)),
                "compare with equation (3), term by term",
            ),
            "data without value (τ → 0) leave the prior": agrees(
                lambda answer: _predict(answer, 1e-12),
                torch.stack([torch.zeros(2).double(), _PARTS[2].diagonal()]),
                "tau is a precision: small tau means much noise",
                atol=1e-6,
            ),
            "noise-free data (τ → ∞) are interpolated": agrees(
                lambda answer: torch.stack(answer(_PARTS[0], _PARTS[0], _PARTS[0], _Y, 1e12)),
                torch.stack([_Y, torch.zeros(4).double()]),
                "with no noise the mean must go through the targets and the variance must vanish",
                atol=1e-6,
            ),
            "an input that covaries with no training input keeps its prior": agrees(
                lambda answer: torch.stack(answer(_PARTS[0], 0 * _PARTS[1], _PARTS[2], _Y, 2.0)),
                torch.stack([torch.zeros(2).double(), _PARTS[2].diagonal()]),
                "with C* = 0 the mean is 0 and the variance is that of C**",
            ),
        },
        known_errors=(
            KnownError(
                _wrong_noise(lambda n, tau: tau * torch.eye(n, dtype=torch.float64)),
                "tau is added to the diagonal. It is a precision; the noise variance is 1/tau.",
            ),
            KnownError(
                _wrong_noise(lambda n, tau: 1 / tau),
                "C + 1/tau adds the noise to every entry, as if all targets shared one error. "
                "Independent noise goes on the diagonal: multiply by the identity.",
            ),
            KnownError(
                _wrong_noise(lambda n, tau: torch.eye(n, dtype=torch.float64) / tau**2),
                "1/tau² is added. tau is already the reciprocal of a variance.",
            ),
            KnownError(
                lambda *parts: (gp_predict(*parts)[0], gp_predict(*parts)[1] + 1 / parts[-1]),
                "this is the variance of a new target y, noise included; asked is that of f.",
            ),
            KnownError(
                lambda *parts: (gp_predict(*parts)[0], gp_predict(*parts)[1].sqrt()),
                "this is the standard deviation; asked is the variance.",
            ),
        ),
        hints=(
            "Equation (3) has one matrix to invert; solve against it instead.",
            "torch.linalg.solve(A, k_cross) is A⁻¹ C*. The mean and the covariance both use it.",
            "A = k_train + torch.eye(len(y)) / tau; the variance is diag(C** − C*' A⁻¹ C*).",
        ),
    ),
    Exercise(
        number="03.4",
        title="the recursion over depth",
        solution=deep_relu,
        probe=lambda answer: _deep(answer, 3),
        checks={
            "one layer is bias_var + weight_var · F": agrees(
                lambda answer: _deep(answer, 1),
                0.3 + 2 * relu_expectation(1.3 * _ONE, 0.8 * _ONE, 0.5 * _ONE),
                "equation (18) with l = 1",
            ),
            "depth 3 is depth 1 on top of depth 2": agrees(
                lambda answer: _deep(answer, 3),
                lambda answer: answer(
                    *(answer(k * _ONE, k * _ONE, k * _ONE, 2, 2.0, 0.3) for k in (1.3, 0.8)),
                    _deep(answer, 2),
                    1,
                    2.0,
                    0.3,
                ),
                "F needs the variances of the layer below as well: update all three numbers",
            ),
            "weight_var = 2, bias_var = 0 keeps the variance": Check(
                lambda answer: close(answer(1.3 * _ONE, 1.3 * _ONE, 1.3 * _ONE, 9, 2.0, 0.0), 1.3),
                "F(k, k, k) = k/2 for ReLU units",
            ),
            "depth 0 changes nothing": Check(
                lambda answer: close(_deep(answer, 0), 0.5),
                "count the layers: depth 0 means no hidden layer",
            ),
        },
        known_errors=(
            KnownError(
                _frozen_diagonal,
                "only the covariance is carried on. F takes the variances of the layer below, and "
                "those change from layer to layer too.",
            ),
            KnownError(
                _bias_once, "the bias variance is added once, at the end. Every layer has biases."
            ),
            KnownError(
                lambda kxx, kyy, kxy, depth, *var: deep_relu(kxx, kyy, kxy, depth - 1, *var),
                "one layer short: depth counts the hidden layers, and each applies F once.",
            ),
            KnownError(
                lambda kxx, kyy, kxy, depth, w, b: deep_relu(kxx, kyy, kxy, depth, 2 * w, b),
                "weight_var is doubled: relu_expectation is the expectation itself, without Cho "
                "and Saul's factor 2.",
            ),
        ),
        hints=(
            "One step maps three numbers to three numbers.",
            "The variance at x follows from relu_expectation(kxx, kxx, kxx).",
            "Compute all three new values before you overwrite the old ones.",
        ),
    ),
)


def _angle(x: Tensor, y: Tensor) -> Tensor:
    return torch.acos((x @ y / (x.norm() * y.norm())).clamp(-1, 1))
