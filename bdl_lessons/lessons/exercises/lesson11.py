"""Exercises of lesson 11: the KL of a scale, hierarchical noise, the penalty, its ridge."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from bdl_lessons.lessons.exercises.grader import Check, Exercise, KnownError, agrees, close, normals


def gamma_price(mu: Tensor, sigma2: Tensor, a: float, b: float) -> Tensor:
    """(8): ``KL(LogNormal(mu, sigma2) || Gamma(a, b))``, summed over scales, in nats."""
    entropy = 0.5 * torch.log(2 * math.pi * math.e * sigma2) + mu
    mean_z = torch.exp(mu + sigma2 / 2)
    mean_log_p = a * math.log(b) - math.lgamma(a) + (a - 1) * mu - b * mean_z
    return (-entropy - mean_log_p).sum()


def hierarchical_factors(xi: Tensor, sigma: Tensor, generator: torch.Generator) -> Tensor:
    """``z ∘ xi`` for ``xi`` ``(S, B, K)``: one z for each of the S, shared by its B rows."""
    eps = torch.randn(len(xi), 1, len(sigma), generator=generator, dtype=xi.dtype)
    return torch.exp(sigma * eps - sigma**2 / 2) * xi


def penalty(H: Tensor, h: Tensor, alpha: Tensor, U: Tensor) -> Tensor:
    """(13): ``½ tr(H diag(h) U diag(alpha) U' diag(h))`` for one row."""
    Q = torch.diag(h) @ U @ torch.diag(alpha) @ U.T @ torch.diag(h)
    return 0.5 * torch.trace(H @ Q)


def noisy_least_squares(X: Tensor, y: Tensor, C: Tensor) -> Tensor:
    """The minimiser of ``E ½ ||y - (X ∘ xi) w||²`` over factors with mean 1, covariance C."""
    S = X.T @ X
    return torch.linalg.solve(S + S * C, X.T @ y)


_MU, _SIGMA2 = normals(1)(4), normals(2)(4).exp()
_SIGMA = torch.tensor([0.3, 0.8], dtype=torch.float64)
_BASIS = torch.linalg.qr(normals(3)(3, 3)).Q
_ALPHA = torch.tensor([0.1, 0.5, 2.0], dtype=torch.float64)
_ROOT, _H = normals(4)(3, 3), normals(5)(3)
_HESSIAN = _ROOT @ _ROOT.T
_X, _Y = normals(6)(12, 3), normals(7)(12)
_COV = _BASIS * _ALPHA @ _BASIS.T


def _gamma_by_quadrature(mu: Tensor, sigma2: Tensor, a: float, b: float) -> Tensor:
    """The definition on a fine grid of u = log z, trapezoidal: exact to many digits."""
    u = mu[:, None] + sigma2.sqrt()[:, None] * torch.linspace(-10, 10, 2001, dtype=torch.float64)
    log_q = -((u - mu[:, None]) ** 2) / (2 * sigma2[:, None])
    log_q = log_q - 0.5 * torch.log(2 * math.pi * sigma2[:, None]) - u
    log_p = a * math.log(b) - math.lgamma(a) + (a - 1) * u - b * u.exp()
    return torch.trapezoid((log_q + u).exp() * (log_q - log_p), u).sum()


def _slope_at_prior_mean(answer) -> Tensor:
    mu = (math.log(3 / 2) - _SIGMA2 / 2).requires_grad_()
    (slope,) = torch.autograd.grad(answer(mu, _SIGMA2, 3.0, 2.0), mu)
    return slope


def _factors(answer, n_samples: int = 6, n_rows: int = 3) -> Tensor:
    ones = torch.ones(n_samples, n_rows, 2, dtype=torch.float64)
    return answer(ones, _SIGMA, torch.Generator().manual_seed(8))


def _expected_loss(w: Tensor) -> Tensor:
    """The mean squared loss under the noise, by its two moments."""
    residual = 0.5 * (_Y - _X @ w).square().sum()
    return residual + 0.5 * sum((x * w) @ _COV @ (x * w) for x in _X)


def _slope_of_expected_loss(answer) -> Tensor:
    w = answer(_X, _Y, _COV).detach().requires_grad_()
    return torch.autograd.grad(_expected_loss(w), w)[0]


EXERCISES = (
    Exercise(
        number="11.1",
        title="the price of a scale under a Gamma prior",
        solution=gamma_price,
        probe=lambda answer: answer(_MU, _SIGMA2, 3.0, 2.0),
        checks={
            "it is E[log q(z) − log p(z)], integrated numerically": agrees(
                lambda answer: answer(_MU, _SIGMA2, 3.0, 2.0),
                _gamma_by_quadrature(_MU, _SIGMA2, 3.0, 2.0),
                "minus the entropy of q, minus the mean of log p; E[z] and E[log z] differ",
                atol=1e-7,
            ),
            "its slope in mu is 0 where E[z] is the prior's mean a/b": Check(
                lambda answer: close(_slope_at_prior_mean(answer), torch.zeros(4), atol=1e-9),
                "mu appears in the entropy, in (a − 1) E[log z] and in b E[z]",
            ),
            "scales add up": agrees(
                lambda answer: answer(_MU, _SIGMA2, 3.0, 2.0),
                lambda answer: sum(
                    answer(m.view(1), s.view(1), 3.0, 2.0)
                    for m, s in zip(_MU, _SIGMA2, strict=True)
                ),
                "the KL of independent scales is a sum",
            ),
        },
        known_errors=(
            KnownError(
                lambda mu, sigma2, a, b: gamma_price(mu, sigma2, a, b) + mu.sum(),
                "the entropy is that of log z. A log-normal z has + mu more: the density of z is "
                "the density of log z divided by z.",
            ),
            KnownError(
                lambda mu, sigma2, a, b: (
                    gamma_price(mu, sigma2, a, b)
                    - b * (torch.exp(mu + sigma2 / 2) - torch.exp(mu)).sum()
                ),
                "exp(mu) is the median of z. Its mean is exp(mu + sigma2/2).",
            ),
            KnownError(
                lambda mu, sigma2, a, b: (
                    gamma_price(mu, sigma2, a, b) + 2 * len(mu) * (a * math.log(b) - math.lgamma(a))
                ),
                "the normaliser of the Gamma density, b**a / Gamma(a), has the wrong sign.",
            ),
            KnownError(
                lambda mu, sigma2, a, b: gamma_price(mu, sigma2, a, b) / len(mu),
                "this is the mean over scales. The KL of independent scales is a sum.",
            ),
        ),
        hints=(
            "KL = −H(q) − E_q[log p(z)]. Which two moments of z does log p need?",
            "H(q) = ½ log(2πe sigma2) + mu, E[log z] = mu, E[z] = exp(mu + sigma2/2).",
            "log p(z) = a log b − lgamma(a) + (a − 1) log z − b z.",
        ),
    ),
    Exercise(
        number="11.2",
        title="one scale for all rows, with mean one",
        solution=hierarchical_factors,
        probe=_factors,
        checks={
            "the mean factor is 1": Check(
                lambda answer: close(
                    _factors(answer, 200_000, 1).mean((0, 1)), torch.ones(2), atol=0.01
                ),
                "E[exp(sigma eps)] is exp(sigma²/2), not 1",
            ),
            "rows of one sample share their scale": Check(
                lambda answer: close(_factors(answer), _factors(answer)[:, :1].expand(6, 3, 2)),
                "draw eps with one row: shape (S, 1, K)",
            ),
            "samples and units have scales of their own": Check(
                lambda answer: bool(
                    _factors(answer)[:, 0].std(0).gt(0.01).all()
                    and (_factors(answer)[0, 0, 0] - _factors(answer)[0, 0, 1]).abs() > 1e-6
                ),
                "S functions are S draws of z, and every one of the K units has its own",
            ),
            "log z has standard deviation sigma": Check(
                lambda answer: close(_factors(answer, 50_000, 1).log().std((0, 1)), _SIGMA, 0.02),
                "log z = sigma eps + location",
            ),
        },
        known_errors=(
            KnownError(
                lambda xi, sigma, g: hierarchical_factors(xi, sigma, g) * (sigma**2 / 2).exp(),
                "E[z] is exp(sigma²/2) here: the layer would be louder than its mean weights say.",
            ),
            KnownError(
                lambda xi, sigma, g: hierarchical_factors(xi, sigma, g) / (sigma**2 / 2).exp(),
                "this subtracts sigma², twice too much: E[z] is exp(−sigma²/2).",
            ),
            KnownError(
                lambda xi, s, g: hierarchical_factors(xi.flatten(0, 1)[:, None], s, g).view_as(xi),
                "every row has a z of its own. z is global: one draw for all rows.",
            ),
            KnownError(
                lambda xi, s, g: hierarchical_factors(xi.flatten(0, 1)[None], s, g).view_as(xi),
                "all S samples have one z. Then the spread over samples does not contain q(z).",
            ),
        ),
        hints=(
            "How many different z are there in a tensor (S, B, K)?",
            "eps = torch.randn(S, 1, K, ...), and log z = sigma * eps + location.",
            "The location that makes E[z] = 1 is −sigma²/2.",
        ),
    ),
    Exercise(
        number="11.3",
        title="the penalty",
        solution=penalty,
        probe=lambda answer: answer(_HESSIAN, _H, _ALPHA, _BASIS),
        checks={
            "for ½ x'Ax it is what Gaussian noise adds, from exact moments": agrees(
                lambda answer: answer(_HESSIAN, _H, _ALPHA, _BASIS),
                0.5 * ((_ROOT.T * _H) @ _BASIS * _ALPHA.sqrt()).square().sum(),
                "Cov(h ∘ eta) = diag(h) U diag(alpha) U' diag(h), and there is a ½",
            ),
            "with equal alphas the rotation does not matter": agrees(
                lambda answer: answer(_HESSIAN, _H, torch.ones(3).double(), _BASIS),
                lambda answer: answer(_HESSIAN, _H, torch.ones(3).double(), torch.eye(3).double()),
                "U I U' = I",
            ),
            "noise of twice the standard deviation costs four times as much": agrees(
                lambda answer: answer(_HESSIAN, _H, 4 * _ALPHA, _BASIS),
                lambda answer: 4 * answer(_HESSIAN, _H, _ALPHA, _BASIS),
                "alpha is a variance and enters to the first power",
            ),
        },
        known_errors=(
            KnownError(
                lambda H, h, alpha, U: 2 * penalty(H, h, alpha, U),
                "the ½ of Taylor's second-order term is missing.",
            ),
            KnownError(
                lambda H, h, alpha, U: penalty(H, h, alpha, U.T),
                "this is U' diag(alpha) U. The noise is U eta, so its covariance is "
                "U diag(alpha) U'.",
            ),
            KnownError(
                lambda H, h, alpha, U: penalty(H, torch.ones_like(h), alpha, U),
                "h is missing: the noise is relative, h ∘ eta.",
            ),
            KnownError(
                lambda H, h, alpha, U: penalty(H, h, alpha**2, U),
                "alpha is squared: it is a variance already.",
            ),
            KnownError(
                lambda H, h, alpha, U: penalty(H, h.abs().sqrt(), alpha, U),
                "h enters once on each side of U diag(alpha) U'.",
            ),
        ),
        hints=(
            "Write Q first: the covariance of h ∘ (U eta).",
            "torch.diag(h) on both sides of U @ torch.diag(alpha) @ U.T.",
            "½ tr(H Q), and nothing else.",
        ),
    ),
    Exercise(
        number="11.4",
        title="least squares under structured noise",
        solution=noisy_least_squares,
        probe=lambda answer: answer(_X, _Y, _COV),
        checks={
            "without noise it is least squares": agrees(
                lambda answer: answer(_X, _Y, torch.zeros(3, 3).double()),
                torch.linalg.lstsq(_X, _Y[:, None]).solution[:, 0],
                "C = 0 leaves X'X w = X'y",
                atol=1e-8,
            ),
            "the gradient of the expected loss is 0 there": Check(
                lambda answer: close(_slope_of_expected_loss(answer), torch.zeros(3), atol=1e-8),
                "R = ½ w' (X'X ∘ C) w: add its gradient to X'(Xw − y)",
            ),
            "with C = alpha I it is a ridge weighted by the size of each input": agrees(
                lambda answer: answer(_X, _Y, 0.3 * torch.eye(3).double()),
                torch.linalg.solve(_X.T @ _X + 0.3 * torch.diag((_X**2).sum(0)), _X.T @ _Y),
                "relative noise on a large input is large noise",
                atol=1e-8,
            ),
        },
        known_errors=(
            KnownError(
                lambda X, y, C: torch.linalg.solve(X.T @ X + C, X.T @ y),
                "this is the ridge of additive noise. Here the noise is relative: C meets X'X "
                "element by element.",
            ),
            KnownError(
                lambda X, y, C: torch.linalg.solve(X.T @ X + (X.T @ X) @ C, X.T @ y),
                "X'X and C are multiplied as matrices. The sum over rows of x_i x_j C_ij is an "
                "elementwise product.",
            ),
            KnownError(
                lambda X, y, C: torch.linalg.solve(X.T @ X + 0.5 * (X.T @ X) * C, X.T @ y),
                "there is a ½ too much: the squared loss has one as well, and both go in the "
                "gradient.",
            ),
            KnownError(
                lambda X, y, C: noisy_least_squares(X, y, torch.diag(C.diagonal())),
                "only the diagonal of C is used. Then structure would change nothing.",
            ),
        ),
        hints=(
            "For squared loss Taylor's second order is exact. What is H for one row?",
            "Sum R over rows: ½ Σ_n Σ_ij w_i w_j x_ni x_nj C_ij.",
            "Solve (X'X + X'X ∘ C) w = X'y.",
        ),
    ),
)
