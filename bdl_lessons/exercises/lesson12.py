"""Exercises of lesson 12: which noise is penalised most, a random scale, predictions, a ridge."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from bdl_lessons.evaluation import loss_hessian, loss_increase, penalty
from bdl_lessons.exercises.grader import Criterion, Exercise, KnownError, agrees, close, normals


def penalty_range(omega: Tensor, alpha: Tensor) -> Tensor:
    """Smallest and largest ``½ tr(omega U diag(alpha) U')`` over all orthogonal U, ``(2,)``."""
    curvatures = torch.linalg.eigvalsh(omega)
    variances = alpha.sort().values  # both ascending
    smallest = 0.5 * curvatures @ variances.flip(0)
    largest = 0.5 * curvatures @ variances
    return torch.stack([smallest, largest])


def hierarchical_factors(xi: Tensor, sigma: Tensor, generator: torch.Generator) -> Tensor:
    """``g ∘ xi`` for ``xi`` ``(S, B, K)``: one g for each of the S, shared by its B examples."""
    eps = torch.randn(len(xi), 1, len(sigma), generator=generator, dtype=xi.dtype)
    g = torch.exp(sigma * eps - sigma**2 / 2)
    return g * xi


def predicted_factors() -> Tensor:
    """By which factor R changes: twice the alphas, twice the inputs, twice the inputs with half the
    weights, every input twice with half the weight, other labels."""
    return torch.tensor([2, 4, 1, 0.5, 1])


def noisy_least_squares(X: Tensor, y: Tensor, cov: Tensor) -> Tensor:
    """The minimiser of ``E ½ ||y - (X ∘ xi) w||²`` over factors with mean 1, covariance cov."""
    products = X.T @ X
    return torch.linalg.solve(products + products * cov, X.T @ y)


_ROOT = normals(4)(3, 3)
_ALPHA = torch.tensor([0.5, 0.1, 2.0], dtype=torch.float64)
_OMEGA = _ROOT @ _ROOT.T
_EIGENVALUES = torch.linalg.svdvals(_ROOT) ** 2
_PENALTIES = [  # with one alpha for each eigenvector, in every order
    0.5 * _EIGENVALUES @ torch.stack(alphas) for alphas in itertools.permutations(_ALPHA)
]
_SIGMA = torch.tensor([0.3, 0.8, 1.2], dtype=torch.float64)
_XI = 1 + 0.5 * normals(8)(6, 4, 3)
_X = normals(6)(12, 3)
_Y = normals(7)(12)
_BASIS = torch.linalg.qr(normals(3)(3, 3)).Q
_COV = _BASIS * _ALPHA @ _BASIS.T
_W = torch.tensor([1.5, -1.0, 0.7], dtype=torch.float64)


def _random_penalties(n_rotations: int = 500) -> Tensor:
    """The penalty ``(n_rotations,)`` under rotations drawn at random."""
    U = torch.linalg.qr(normals(9)(n_rotations, 3, 3)).Q
    cov = (U * _ALPHA) @ U.mT
    return 0.5 * (_OMEGA * cov).sum((1, 2))


def _holds_all_random_penalties(answer) -> bool:
    smallest, largest = answer(_OMEGA, _ALPHA)
    penalties = _random_penalties()
    return bool(smallest <= penalties.min() and largest >= penalties.max())


def _factors(answer, xi: Tensor = _XI, sigma: Tensor = _SIGMA) -> Tensor:
    return answer(xi, sigma, torch.Generator().manual_seed(8))


def _examples_share_their_scale(answer) -> bool:
    scales = _factors(answer) / _XI
    of_first_example = scales[:, :1]
    return close(scales, of_first_example.expand(6, 4, 3), 1e-5)


def _number_of_scales(answer) -> int:
    """How many different scales 6 samples and 3 units have."""
    ones = torch.ones(6, 1, 3, dtype=torch.float64)
    sigma = torch.full((3,), 0.8, dtype=torch.float64)
    return _factors(answer, ones, sigma).unique().numel()


def _log_scales(answer) -> Tensor:
    """300 × 300 values of log g for sigma = 0.8."""
    ones = torch.ones(300, 1, 300, dtype=torch.float64)
    sigma = torch.full((300,), 0.8, dtype=torch.float64)
    return _factors(answer, ones, sigma).log()


def _five_std_errors(log_g: Tensor) -> float:
    """Of the mean of ``log_g``, by the number of its different values."""
    return 5 * 0.8 / log_g.unique().numel() ** 0.5


def _has_the_right_mean(answer) -> bool:
    log_g = _log_scales(answer)
    wanted = -(0.8**2) / 2
    return bool((log_g.mean() - wanted).abs() < _five_std_errors(log_g))


def _has_the_right_std(answer) -> bool:
    log_g = _log_scales(answer)
    return bool((log_g.std(correction=0) - 0.8).abs() < _five_std_errors(log_g))


def _scale_of_each_example(xi: Tensor, sigma: Tensor, generator: torch.Generator) -> Tensor:
    """With a g for each of the S · B rows of xi."""
    as_samples = xi.flatten(0, 1)[:, None]
    return hierarchical_factors(as_samples, sigma, generator).view_as(xi)


def _scale_of_all_samples(xi: Tensor, sigma: Tensor, generator: torch.Generator) -> Tensor:
    """With one g for all S · B rows of xi."""
    as_one_sample = xi.flatten(0, 1)[None]
    return hierarchical_factors(as_one_sample, sigma, generator).view_as(xi)


def _noise_of_all_units(xi: Tensor, sigma: Tensor, generator: torch.Generator) -> Tensor:
    """With one normal number for all units of a sample."""
    eps = torch.randn(len(xi), 1, 1, generator=generator, dtype=xi.dtype)
    return torch.exp(sigma * eps - sigma**2 / 2) * xi


def _measured(alphas: float = 1.0, inputs: float = 1.0, weights: float = 1.0, copies: int = 1):
    """What noise adds to the squared loss of a linear unit, by Monte Carlo.

    ``alphas``, ``inputs`` and ``weights`` are factors; every input is repeated ``copies`` times.
    """
    h = inputs * _X.repeat(1, copies)
    w = weights * _W.repeat(copies)
    alpha = alphas * _ALPHA.repeat(copies)
    root = alpha.sqrt().diag()
    return loss_increase(
        lambda h, y: 0.5 * (y - h @ w) ** 2,
        h,
        root,
        _Y,
        n_samples=4000,
        generator=torch.Generator().manual_seed(1),
    ).value.mean()


def _softmax_penalty(labels: Tensor) -> Tensor:
    theta = normals(10)(3, 4)
    hessian = loss_hessian(lambda h, label: cross_entropy(h @ theta, label), _X, labels)
    return penalty(hessian, _X, _COV).mean()


def _changes_by(index: int, **change: float):
    """The test of the prediction at ``index`` by the measured ratio."""
    return agrees(
        lambda answer: answer()[index],
        lambda answer: _measured(**change) / _measured(),
        atol=0.08,
    )


def _expected_loss(w: Tensor) -> Tensor:
    """The mean squared loss under the noise, by its two moments."""
    without_noise = 0.5 * (_Y - _X @ w).square().sum()
    contributions = _X * w
    variances = ((contributions @ _COV) * contributions).sum(1)
    return without_noise + 0.5 * variances.sum()


def _slope_of_expected_loss(answer) -> Tensor:
    w = answer(_X, _Y, _COV).detach().requires_grad_()
    (slope,) = torch.autograd.grad(_expected_loss(w), w)
    return slope


EXERCISES = (
    Exercise(
        number="12.1",
        title="which structure is penalised least, and which most",
        kind="derive",
        solution=penalty_range,
        probe=lambda answer: answer(_OMEGA, _ALPHA),
        criteria=(
            Criterion(
                "no rotation of 500 random ones leaves the range",
                _holds_all_random_penalties,
                advice=(
                    "the penalty is ½ Σ_j α_j u_j' Ω u_j with orthonormal u_j: where should the "
                    "largest α go?"
                ),
            ),
            Criterion(
                "both ends are reached, by noise along the eigenvectors of omega",
                agrees(
                    lambda answer: answer(_OMEGA, _ALPHA),
                    torch.stack([min(_PENALTIES), max(_PENALTIES)]),
                ),
                advice=(
                    "give each eigenvector one of the alphas, in the best and in the worst order"
                ),
            ),
            Criterion(
                "with equal alphas the rotation does not matter",
                agrees(
                    lambda answer: answer(_OMEGA, torch.full((3,), 0.3, dtype=torch.float64)),
                    (0.15 * _OMEGA.trace()).expand(2),
                ),
                advice="U I U' = I, and the penalty is ½ α tr(Ω)",
            ),
            Criterion(
                "a linear unit: omega has rank one",
                agrees(
                    lambda answer: answer(torch.outer(_W, _W), _ALPHA),
                    0.5 * (_W @ _W) * torch.tensor([0.1, 2.0], dtype=torch.float64),
                ),
                advice=(
                    "only one eigenvalue is not zero: it meets the smallest or the largest alpha"
                ),
            ),
        ),
        known_errors=(
            KnownError(
                lambda omega, alpha: 2 * penalty_range(omega, alpha),
                diagnosis="the ½ of Taylor's second-order term is missing.",
            ),
            KnownError(
                lambda omega, alpha: penalty_range(omega, alpha).flip(0),
                diagnosis="the smallest value comes first.",
            ),
            KnownError(
                lambda omega, alpha: 0.5 * torch.linalg.eigvalsh(omega)[[0, -1]] * alpha.sum(),
                diagnosis=(
                    "these are bounds, ½ λ Σα with the smallest and the largest eigenvalue. They "
                    "put all the noise along one eigenvector; U moves the alphas to orthogonal "
                    "ones."
                ),
            ),
            KnownError(
                lambda omega, alpha: (
                    0.5 * torch.linalg.eigvalsh(omega).sum() * torch.stack([*alpha.aminmax()])
                ),
                diagnosis=(
                    "here all eigenvectors have the smallest, or the largest alpha. There is one "
                    "of each alpha."
                ),
            ),
            KnownError(
                lambda omega, alpha: penalty_range(omega.diagonal().diag(), alpha),
                diagnosis=(
                    "this permutes the alphas among the units. A rotation can also use directions "
                    "that are no unit: the eigenvectors of omega."
                ),
            ),
        ),
        hints=(
            "Take two units first: Ω diagonal with 1 and 3, alphas 0.1 and 0.4.",
            "Swapping two alphas between eigenvectors changes R by ½ (α − α')(λ' − λ).",
            "Sort the eigenvalues and the alphas: the same order is the worst, opposite the best.",
        ),
    ),
    Exercise(
        number="12.2",
        title="one scale for all examples, with mean one",
        kind="implement",
        solution=hierarchical_factors,
        probe=_factors,
        criteria=(
            Criterion(
                "examples of one sample share their scale",
                _examples_share_their_scale,
                advice="draw eps with one row for all examples: shape (S, 1, K)",
            ),
            Criterion(
                "samples and units have scales of their own",
                lambda answer: _number_of_scales(answer) == 6 * 3,
                advice="S functions are S draws of g, and every one of the K units has its own",
            ),
            Criterion(
                "the scales multiply xi",
                agrees(
                    lambda answer: _factors(answer, 3 * _XI**2),
                    lambda answer: 3 * _XI * _factors(answer),
                    atol=1e-5,
                ),
                advice=(
                    "with the same random numbers, three times the xi gives three times the result"
                ),
            ),
            Criterion(
                "log g has the mean −sigma²/2, so that E[g] = 1",
                _has_the_right_mean,
                advice="E[exp(sigma eps)] is exp(sigma²/2), not 1",
            ),
            Criterion(
                "log g has the standard deviation sigma",
                _has_the_right_std,
                advice="log g = sigma eps + location",
            ),
        ),
        known_errors=(
            KnownError(
                lambda xi, sigma, generator: (
                    hierarchical_factors(xi, sigma, generator) * (sigma**2 / 2).exp()
                ),
                diagnosis="E[g] is exp(sigma²/2) here: the layer's mean is not its mean weights.",
            ),
            KnownError(
                lambda xi, sigma, generator: (
                    hierarchical_factors(xi, sigma, generator) / (sigma**2 / 2).exp()
                ),
                diagnosis="this subtracts sigma², twice too much: E[g] is exp(−sigma²/2).",
            ),
            KnownError(
                _scale_of_each_example,
                diagnosis=(
                    "every example has a g of its own. g is global: one draw for all examples."
                ),
            ),
            KnownError(
                _scale_of_all_samples,
                diagnosis=(
                    "all S samples have one g. Then the S functions do not differ in their scales."
                ),
            ),
            KnownError(
                _noise_of_all_units,
                diagnosis=(
                    "all K units share one normal number. Draw (S, 1, K) of them: one for each."
                ),
            ),
            KnownError(
                lambda xi, sigma, generator: (
                    hierarchical_factors(torch.ones_like(xi), sigma, generator) + xi
                ),
                diagnosis="the scale is added to xi; it multiplies it.",
            ),
            KnownError(
                lambda xi, sigma, generator: hierarchical_factors(xi, sigma.sqrt(), generator),
                diagnosis="sigma is the standard deviation of log g, and here it is its variance.",
            ),
        ),
        hints=(
            "How many different g are there in a tensor (S, B, K)?",
            "eps = torch.randn(S, 1, K, ...), and log g = sigma * eps + location.",
            "The location that makes E[g] = 1 is −sigma²/2.",
        ),
    ),
    Exercise(
        number="12.3",
        title="predict how the penalty changes",
        kind="predict",
        solution=predicted_factors,
        probe=lambda answer: answer(),
        criteria=(
            Criterion(
                "measured: twice the alphas",
                _changes_by(0, alphas=2),
                advice="R = ½ Σ α_i h_i² w_i² for independent noise on a linear unit",
            ),
            Criterion(
                "measured: twice the inputs",
                _changes_by(1, inputs=2),
                advice="R = ½ Σ α_i h_i² w_i² for independent noise on a linear unit",
            ),
            Criterion(
                "measured: twice the inputs with half the weights",
                _changes_by(2, inputs=2, weights=0.5),
                advice="R = ½ Σ α_i h_i² w_i² for independent noise on a linear unit",
            ),
            Criterion(
                "measured: every input twice, with half the weight",
                _changes_by(3, weights=0.5, copies=2),
                advice="R = ½ Σ α_i h_i² w_i² for independent noise on a linear unit",
            ),
            Criterion(
                "exact Hessian of a softmax layer: other labels",
                agrees(
                    lambda answer: answer()[4],
                    _softmax_penalty(torch.arange(12) % 4) / _softmax_penalty(torch.arange(12) % 3),
                ),
                advice="H_out = diag(p) − pp': is a label in it?",
            ),
        ),
        known_errors=(
            KnownError(
                lambda: torch.tensor([4, 4, 1, 0.5, 1]),
                diagnosis="alpha is a variance already: it enters R to the first power.",
            ),
            KnownError(
                lambda: torch.tensor([2, 2, 1, 0.5, 1]),
                diagnosis="the noise is relative, h ∘ (xi − 1), and R is quadratic in it.",
            ),
            KnownError(
                lambda: torch.tensor([2, 2, 1, 1, 1]),
                diagnosis="this is linear in h ∘ w, and R is quadratic in it.",
            ),
            KnownError(
                lambda: torch.tensor([2, 4, 4, 2, 1]),
                diagnosis="this leaves the weights out: R contains h ∘ w, not h alone.",
            ),
            KnownError(
                lambda: torch.tensor([2, 4, 4, 0.5, 1]),
                diagnosis="R contains h ∘ w only: what the inputs gain the weights lose.",
            ),
            KnownError(
                lambda: torch.tensor([2, 4, 1, 1, 1]),
                diagnosis=(
                    "the two copies have noise of their own, and independent variances add: twice "
                    "(½)² is ½. This is why a network under noise spreads its weights."
                ),
            ),
            KnownError(
                lambda: torch.tensor([2, 4, 1, 0.25, 1]),
                diagnosis="there are two copies: add their penalties.",
            ),
        ),
        hints=(
            "Write R for a linear unit with independent noise, as in the section by hand.",
            "R = ½ Σ α_i h_i² w_i².",
            "For a softmax layer look for the label in the Gauss–Newton form.",
        ),
    ),
    Exercise(
        number="12.4",
        title="least squares under structured noise",
        kind="derive",
        solution=noisy_least_squares,
        probe=lambda answer: answer(_X, _Y, _COV),
        criteria=(
            Criterion(
                "without noise it is least squares",
                agrees(
                    lambda answer: answer(_X, _Y, torch.zeros(3, 3).double()),
                    torch.linalg.lstsq(_X, _Y[:, None]).solution[:, 0],
                    atol=1e-8,
                ),
                advice="covariance 0 leaves X'X w = X'y",
            ),
            Criterion(
                "the gradient of the expected loss is 0 there",
                lambda answer: close(_slope_of_expected_loss(answer), torch.zeros(3), atol=1e-8),
                advice="R = ½ w' (X'X ∘ cov) w: add its gradient to X'(Xw − y)",
            ),
            Criterion(
                "with the covariance alpha I it is a ridge weighted by the size of each input",
                agrees(
                    lambda answer: answer(_X, _Y, 0.3 * torch.eye(3).double()),
                    torch.linalg.solve(_X.T @ _X + 0.3 * torch.diag((_X**2).sum(0)), _X.T @ _Y),
                    atol=1e-8,
                ),
                advice="relative noise on a large input is large noise",
            ),
        ),
        known_errors=(
            KnownError(
                lambda X, y, cov: torch.linalg.solve(X.T @ X + cov, X.T @ y),
                diagnosis=(
                    "this is the ridge of additive noise. Here the noise is relative: cov meets "
                    "X'X element by element."
                ),
            ),
            KnownError(
                lambda X, y, cov: torch.linalg.solve(X.T @ X + (X.T @ X) @ cov, X.T @ y),
                diagnosis=(
                    "X'X and cov are multiplied as matrices. The sum over examples of x_i x_j "
                    "cov_ij is an elementwise product."
                ),
            ),
            KnownError(
                lambda X, y, cov: torch.linalg.solve(X.T @ X + 0.5 * (X.T @ X) * cov, X.T @ y),
                diagnosis=(
                    "there is a ½ too much: the squared loss has one as well, and both go in the "
                    "gradient."
                ),
            ),
            KnownError(
                lambda X, y, cov: noisy_least_squares(X, y, torch.diag(cov.diagonal())),
                diagnosis="only the diagonal of cov is used: the noise of two inputs correlates.",
            ),
            KnownError(
                lambda X, y, cov: torch.linalg.solve(X.T @ X - (X.T @ X) * cov, X.T @ y),
                diagnosis="the penalty has the wrong sign: it rewards large weights.",
            ),
        ),
        hints=(
            "For squared loss Taylor's second order is exact. What is H for one example?",
            "Sum R over examples: ½ Σ_n Σ_ij w_i w_j x_ni x_nj cov_ij.",
            "Solve (X'X + X'X ∘ cov) w = X'y.",
        ),
    ),
)
