"""Exercises of lesson 14: a ratio of variances, the best scale, a telling input, which shifts."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import MultivariateNormal, kl_divergence

from bdl_lessons.exercises.grader import Criterion, Exercise, KnownError, agrees, close, normals


def variance_ratio(rho: float, angle: float) -> float:
    """Var[f] under the best independent q over that under the posterior, at an angle in radians.

    The posterior of two weights has variances 1 and correlation ``rho``.
    """
    independent = 1 - rho**2
    posterior = 1 + 2 * rho * math.cos(angle) * math.sin(angle)
    return independent / posterior


def best_scale(cov: Tensor, precision: Tensor) -> Tensor:
    """The best factor on ``cov``, and the nats that it saves; ``(2,)``."""
    n_weights = len(cov)
    trace = torch.trace(precision @ cov)
    scale = n_weights / trace
    saved = (trace - n_weights + n_weights * torch.log(scale)) / 2
    return torch.stack([scale, saved])


def telling_input(cov: Tensor, other_cov: Tensor) -> Tensor:
    """An input ``(K,)`` of length 1 with the largest ratio of variances."""
    L = torch.linalg.cholesky(other_cov)
    inverse = torch.linalg.inv(L)
    _, directions = torch.linalg.eigh(inverse @ cov @ inverse.T)
    x = inverse.T @ directions[:, -1]
    return x / x.norm()


def shows_structure(shift: str) -> bool:
    """Whether the mean variances of a correlated and an independent posterior part."""
    return shift in {"columns", "negate one", "swap"}


SHIFTS = ("double", "rows", "columns", "negate all", "negate one", "swap")

_normal = normals(14)
_FACTOR = _normal(4, 4) + torch.eye(4, dtype=torch.float64)
_PRECISION = _FACTOR @ _FACTOR.T + torch.eye(4, dtype=torch.float64)
_ROOT = _normal(4, 4)
_COV = 0.3 * _ROOT @ _ROOT.T + 0.1 * torch.eye(4, dtype=torch.float64)
_RIDGE = torch.tensor([[1.0, -0.9], [-0.9, 1.0]], dtype=torch.float64)
_CASES = ((-0.9, math.pi / 4), (-0.9, -math.pi / 4), (-0.9, 0.0), (0.5, 1.1))


def _ratio_by_matrices(rho: float, angle: float) -> float:
    posterior = torch.tensor([[1, rho], [rho, 1]], dtype=torch.float64)
    independent = torch.diag(1 / torch.linalg.inv(posterior).diagonal())
    x = torch.tensor([math.cos(angle), math.sin(angle)], dtype=torch.float64)
    return float((x @ independent @ x) / (x @ posterior @ x))


def _kl(cov: Tensor, precision: Tensor) -> Tensor:
    zeros = torch.zeros(len(cov), dtype=torch.float64)
    q = MultivariateNormal(zeros, cov)
    posterior = MultivariateNormal(zeros, precision_matrix=precision)
    return kl_divergence(q, posterior)


def _kl_of_scaled(scale: float) -> float:
    return float(_kl(scale * _COV, _PRECISION))


def _has_the_smallest_kl(answer) -> bool:
    scale = float(answer(_COV, _PRECISION)[0])
    smallest = _kl_of_scaled(scale)
    return smallest < _kl_of_scaled(0.97 * scale) and smallest < _kl_of_scaled(1.03 * scale)


def _saves_what_it_says(answer) -> bool:
    scale, saved = answer(_COV, _PRECISION)
    return close(saved, _kl_of_scaled(1.0) - _kl_of_scaled(float(scale)))


def _wrong_scale(cov: Tensor, precision: Tensor, scale: Tensor) -> Tensor:
    """With another factor, and the right number of nats."""
    _, saved = best_scale(cov, precision)
    return torch.stack([scale, saved])


def _ratio_at(x: Tensor, cov: Tensor, other_cov: Tensor) -> Tensor:
    return (x @ cov @ x) / (x @ other_cov @ x)


def _largest_ratio(cov: Tensor, other_cov: Tensor) -> float:
    """From the eigenvalues of a matrix that is not symmetric, so by another way."""
    eigenvalues = torch.linalg.eigvals(torch.linalg.solve(other_cov, cov))
    return float(eigenvalues.real.max())


def _correlated_inputs() -> Tensor:
    """Standardised inputs ``(400, 5)``; the last one falls where the others rise."""
    draw = normals(15)
    common = draw(400, 1)
    x = common + 0.5 * draw(400, 5)
    x[:, -1] = -x[:, -1]
    return (x - x.mean(0)) / x.std(0)


def _shifted(x: Tensor, shift: str) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    if shift == "double":
        return 2 * x
    if shift == "rows":
        return x[torch.randperm(len(x), generator=generator)]
    if shift == "columns":
        columns = [column[torch.randperm(len(x), generator=generator)] for column in x.T]
        return torch.stack(columns, dim=1)
    if shift == "negate all":
        return -x
    if shift == "negate one":
        return torch.cat([-x[:, :1], x[:, 1:]], dim=1)
    return x[:, [4, 1, 2, 3, 0]]  # swap


def _mean_variance(x: Tensor, cov: Tensor) -> Tensor:
    """The mean over inputs of the variance of ``x @ w``, where the weights have this covariance."""
    return ((x @ cov) * x).sum(1).mean()


def _measured(shift: str) -> bool:
    """Whether the mean variances of an exact and an independent posterior part, by a fifth."""
    x = _correlated_inputs()
    precision = x.T @ x + torch.eye(5, dtype=torch.float64)
    exact = torch.linalg.inv(precision)
    independent = torch.diag(1 / precision.diagonal())
    shifted = _shifted(x, shift)
    ratio = _mean_variance(shifted, exact) / _mean_variance(shifted, independent)
    return not 0.8 < float(ratio) < 1.25


def _predictions(answer, shifts=SHIFTS) -> list[float]:
    return [float(answer(shift)) for shift in shifts]


def _main_direction(matrix: Tensor) -> Tensor:
    """The eigenvector of the largest eigenvalue."""
    _, directions = torch.linalg.eigh(matrix)
    return directions[:, -1]


def _without_going_back(cov: Tensor, other_cov: Tensor) -> Tensor:
    L = torch.linalg.cholesky(other_cov)
    inverse = torch.linalg.inv(L)
    return _main_direction(inverse @ cov @ inverse.T)


EXERCISES = (
    Exercise(
        number="14.1",
        title="by how much is independent noise wrong?",
        kind="predict",
        solution=variance_ratio,
        probe=lambda answer: [answer(rho, angle) for rho, angle in _CASES],
        criteria=(
            Criterion(
                "it is that of the matrices, for four inputs",
                agrees(
                    lambda answer: [answer(rho, angle) for rho, angle in _CASES],
                    [_ratio_by_matrices(rho, angle) for rho, angle in _CASES],
                ),
                advice="write both variances of w₁ cos(angle) + w₂ sin(angle), then divide",
            ),
            Criterion(
                "without correlation the two agree at every angle",
                agrees(lambda answer: [answer(0.0, angle) for angle in (0.2, 1.0)], [1.0, 1.0]),
                advice="for ρ = 0 the posterior is independent itself",
            ),
            Criterion(
                "along one weight alone, independent noise has 1 − ρ² of the variance",
                agrees(lambda answer: [answer(0.8, 0.0), answer(-0.6, math.pi / 2)], [0.36, 0.64]),
                advice="1/Λ_ii for a 2 × 2 matrix with ones on its diagonal is 1 − ρ²",
            ),
        ),
        known_errors=(
            KnownError(
                lambda rho, angle: 1 / variance_ratio(rho, angle),
                diagnosis="this is the posterior's variance over that of q: turn the ratio round.",
            ),
            KnownError(
                lambda rho, angle: 1 / (1 + rho * math.sin(2 * angle)),
                diagnosis="q has the variances 1/Λ_ii here, not those of the posterior, which are "
                "1: the best independent q is narrower (lesson 02).",
            ),
            KnownError(
                lambda rho, angle: (1 - rho**2) / (1 - rho * math.sin(2 * angle)),
                diagnosis="the sign of the covariance: Var[w₁ + w₂] has + 2 Cov.",
            ),
            KnownError(
                lambda rho, angle: variance_ratio(rho, angle) ** 0.5,
                diagnosis="this is the ratio of the standard deviations.",
            ),
            KnownError(
                lambda rho, angle: (1 - rho**2) / (1 + rho * math.cos(angle) * math.sin(angle)),
                diagnosis="the covariance counts twice: Var[a + b] has 2 Cov[a, b].",
            ),
        ),
        hints=(
            "Under q the two terms of f are independent. What is left of Var[f]?",
            "Under the posterior Var[f] = cos² + sin² + 2 ρ cos sin. Under q the variances are "
            "1/Λ_ii = 1 − ρ².",
            "(1 − ρ²) / (1 + ρ sin(2 angle)).",
        ),
    ),
    Exercise(
        number="14.2",
        title="the best scale of a covariance",
        kind="derive",
        solution=best_scale,
        probe=lambda answer: answer(_COV, _PRECISION),
        criteria=(
            Criterion(
                "no other factor has a smaller KL",
                _has_the_smallest_kl,
                advice="put scale · Σ into the KL of two Gaussians and set its derivative to zero",
            ),
            Criterion(
                "the nats are those that PyTorch's KL falls by",
                _saves_what_it_says,
                advice="take the KL without the factor minus the KL with it",
            ),
            Criterion(
                "the posterior itself needs no factor, and saves nothing",
                agrees(lambda answer: answer(torch.linalg.inv(_PRECISION), _PRECISION), [1.0, 0.0]),
                advice="there tr(ΛΣ) = K already",
            ),
            Criterion(
                "a covariance four times as large gets a quarter of the factor",
                agrees(
                    lambda answer: 4 * answer(4 * _COV, _PRECISION)[0],
                    lambda answer: answer(_COV, _PRECISION)[0],
                ),
                advice="the product of factor and covariance is the same",
            ),
        ),
        known_errors=(
            KnownError(
                lambda cov, precision: best_scale(cov, precision) * torch.tensor([1.0, 2.0]),
                diagnosis="the nats are twice too many: the KL of two Gaussians has a ½ in front.",
            ),
            KnownError(
                lambda cov, precision: best_scale(cov, precision) * torch.tensor([1.0, -1.0]),
                diagnosis="the sign of the nats: the best factor lowers the KL, and what it saves "
                "is positive.",
            ),
            KnownError(
                lambda cov, precision: _wrong_scale(
                    cov, precision, scale=torch.trace(precision @ cov) / len(cov)
                ),
                diagnosis="tr(ΛΣ)/K says by how much Σ is too large: divide by it.",
            ),
            KnownError(
                lambda cov, precision: _wrong_scale(
                    cov, precision, scale=1 / torch.trace(precision @ cov)
                ),
                diagnosis="log |scale · Σ| is K log scale + log |Σ|: K of them, not one.",
            ),
        ),
        hints=(
            "KL(N(m, Σ) ‖ N(m, Λ⁻¹)) = ½ (tr(ΛΣ) − K − log |Λ| − log |Σ|).",
            "With scale · Σ: ½ (scale · tr(ΛΣ) − K log scale) + const.",
            "scale = K/tr(ΛΣ). Put it in, and subtract from the KL at scale 1.",
        ),
    ),
    Exercise(
        number="14.3",
        title="the input that tells two posteriors apart",
        kind="design",
        solution=telling_input,
        probe=lambda answer: _ratio_at(answer(_COV, _PRECISION), _COV, _PRECISION),
        criteria=(
            Criterion(
                "no input has a larger ratio of variances",
                agrees(
                    lambda answer: _ratio_at(answer(_COV, _PRECISION), _COV, _PRECISION),
                    _largest_ratio(_COV, _PRECISION),
                    atol=1e-5,
                ),
                advice="with u = L'x and other_cov = L L' the ratio is u'Mu / u'u: which M?",
            ),
            Criterion(
                "the input has length 1",
                agrees(lambda answer: answer(_COV, _PRECISION).norm(), 1.0, atol=1e-5),
                advice="the ratio does not depend on the length, so divide by it at the end",
            ),
            Criterion(
                "by hand: across the ridge for the two weights of the lesson",
                agrees(
                    lambda answer: answer(_RIDGE, 0.19 * torch.eye(2)).prod(),
                    -0.5,
                    atol=1e-5,
                ),
                advice="there (1, −1)/√2 has the ratio 10",
            ),
        ),
        known_errors=(
            KnownError(
                lambda cov, other_cov: _main_direction(cov),
                diagnosis="this input has the largest variance under cov alone. Where other_cov is "
                "large as well, the ratio is small.",
            ),
            KnownError(
                lambda cov, other_cov: telling_input(other_cov, cov),
                diagnosis="here the ratio is smallest: cov and other_cov are exchanged.",
            ),
            KnownError(
                lambda cov, other_cov: _main_direction(cov - other_cov),
                diagnosis="this makes the *difference* of the variances largest, not their ratio.",
            ),
            KnownError(
                _without_going_back,
                diagnosis="this is u = L'x, not x: solve L'x = u, then divide by the length.",
            ),
        ),
        hints=(
            "If other_cov were I, the answer would be an eigenvector of cov. Which one?",
            "Write other_cov = L L' and u = L'x. Then the ratio is u' L⁻¹ cov L⁻ᵀ u / u'u.",
            "u is the eigenvector of L⁻¹ cov L⁻ᵀ with the largest eigenvalue; x = L⁻ᵀ u, divided "
            "by its length.",
        ),
    ),
    Exercise(
        number="14.4",
        title="which shifts show structure?",
        kind="predict",
        solution=shows_structure,
        probe=_predictions,
        criteria=(
            Criterion(
                "measured: twice as large, other rows, all signs changed",
                agrees(
                    lambda answer: _predictions(answer, ("double", "rows", "negate all")),
                    [float(_measured(shift)) for shift in ("double", "rows", "negate all")],
                ),
                advice="what do these do to the products x_i x_j, on average over the inputs?",
            ),
            Criterion(
                "measured: every column in an order of its own",
                agrees(
                    lambda answer: _predictions(answer, ("columns",)),
                    [float(_measured("columns"))],
                ),
                advice="see (4): what becomes of the mean of x_i x_j?",
            ),
            Criterion(
                "measured: one sign changed, two columns exchanged",
                agrees(
                    lambda answer: _predictions(answer, ("negate one", "swap")),
                    [float(_measured(shift)) for shift in ("negate one", "swap")],
                ),
                advice="the columns are correlated, one of them negatively: which of the products "
                "x_i x_j keep their mean?",
            ),
        ),
        known_errors=(
            KnownError(
                lambda shift: shift != "rows",
                diagnosis="doubled inputs have four times the variance under *both* posteriors, "
                "and x and −x have the same: only broken correlations tell them apart.",
            ),
            KnownError(
                lambda shift: shift == "columns",
                diagnosis="a changed sign and exchanged columns break correlations as well: the "
                "mean of x_i x_j changes for some pair.",
            ),
            KnownError(
                lambda shift: shift in {"columns", "swap"},
                diagnosis="negate one: the mean of x_i x_j changes its sign for every pair with "
                "this column.",
            ),
            KnownError(
                lambda shift: shift in {"columns", "negate one"},
                diagnosis="swap: a column that falls now stands where one that rises stood.",
            ),
            KnownError(
                lambda shift: shift in {"columns", "negate one", "negate all", "swap"},
                diagnosis="negate all: x'Σx is the same for x and −x.",
            ),
            KnownError(
                lambda shift: not shows_structure(shift),
                diagnosis="True and False are exchanged.",
            ),
        ),
        hints=(
            "The mean of x'Σx is the sum of Σ_ij times the mean of x_i x_j. Which shifts change "
            "these means?",
            "A factor on all of them acts on both posteriors alike.",
            "Means of x_i x_j: double, times 4; rows and negate all, unchanged. The other three "
            "change some of those with i ≠ j.",
        ),
    ),
)
