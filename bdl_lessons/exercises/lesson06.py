"""Exercises of lesson 06: a local draw, its gradient, the minibatch, variance of what."""

from __future__ import annotations

import torch
from torch import Tensor

from bdl_lessons.exercises.engine import Exercise, Mistake, Property, close


def local_draw(a: Tensor, mu: Tensor, sigma2: Tensor, zeta: Tensor) -> Tensor:
    """One draw of the activations of a layer with independent Gaussian weights, equation (7).

    ``a`` is ``(M, K)``, ``mu`` and ``sigma2`` are ``(K, L)``, ``zeta`` is ``(M, L)`` standard
    normal noise. Returns b ``(M, L)``.
    """
    gamma = a @ mu
    delta = a**2 @ sigma2
    return gamma + delta.sqrt() * zeta


def local_gradient(g: Tensor, a: Tensor, sigma2: Tensor, zeta: Tensor) -> Tensor:
    """The gradient of a summed loss for ``sigma2`` by the local trick, equation (9).

    ``g[m, j]`` is dL/db_mj, ``(M, L)``; ``a`` is ``(M, K)``, ``sigma2`` ``(K, L)``, ``zeta``
    ``(M, L)``. Returns ``(K, L)``.
    """
    delta = a**2 @ sigma2
    return (a**2).T @ (g * zeta / (2 * delta.sqrt()))


def minibatch_variance(var: float, cov: float, n_train: int, batch_size: int) -> float:
    """Equation (3): the variance of the minibatch estimate of a sum over ``n_train`` examples.

    ``var`` is Var[L_i], ``cov`` is Cov[L_i, L_j].
    """
    return n_train**2 * (var + (batch_size - 1) * cov) / batch_size


def variance_of_gradient(gradients: Tensor) -> Tensor:
    """How much a gradient estimator varies: ``(S, P)``, S draws of P parameters, to one number."""
    return gradients.var(0).mean()


_generator = torch.Generator().manual_seed(6)


def _normal(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=_generator, dtype=torch.float64)


_A, _MU, _ZETA, _G = _normal(5, 3), _normal(3, 2), _normal(5, 2), _normal(5, 2)
_SIGMA2 = _normal(3, 2).exp()
_ZEROS = torch.zeros(5, 2, dtype=torch.float64)
_GRADIENTS = torch.tensor([1.0, -30.0, 5.0]).double() + _normal(40, 3) * torch.tensor([1, 2, 3])


def _delta(a: Tensor, sigma2: Tensor) -> Tensor:
    return a**2 @ sigma2


def _autograd(a: Tensor, sigma2: Tensor, zeta: Tensor, g: Tensor) -> Tensor:
    """The same gradient by automatic differentiation of sum(g * b)."""
    sigma2 = sigma2.clone().requires_grad_()
    b = _delta(a, sigma2).sqrt() * zeta
    return torch.autograd.grad((g * b).sum(), sigma2)[0]


EXERCISES = (
    Exercise(
        number="06.1",
        title="a draw of the activations",
        solution=local_draw,
        trial=lambda answer: answer(_A, _MU, _SIGMA2, _ZETA),
        properties=(
            Property(
                "without noise it is the mean activation",
                lambda answer: close(answer(_A, _MU, _SIGMA2, _ZEROS), _A @ _MU),
                "with zeta = 0 only gamma = a @ mu is left",
            ),
            Property(
                "its variance is that of a sum of independent weights",
                lambda answer: close(
                    (answer(_A, _MU, _SIGMA2, _ZEROS + 1) - _A @ _MU) ** 2,
                    torch.einsum("mk,kl->ml", _A**2, _SIGMA2),
                ),
                "Var[a_1 w_1 + a_2 w_2] = a_1² Var[w_1] + a_2² Var[w_2]; zeta multiplies its root",
            ),
            Property(
                "every row has its own noise",
                lambda answer: (
                    not close(
                        answer(_A[[0, 0]], _MU, _SIGMA2, _ZETA[:2])[0],
                        answer(_A[[0, 0]], _MU, _SIGMA2, _ZETA[:2])[1],
                    )
                ),
                "the same input twice must give two activations: use zeta[m, j] for row m",
            ),
            Property(
                "twice the input, twice the deviation",
                lambda answer: close(
                    answer(2 * _A, _MU, _SIGMA2, _ZETA), 2 * answer(_A, _MU, _SIGMA2, _ZETA)
                ),
                "delta is quadratic in a, its square root is linear",
            ),
        ),
        mistakes=(
            Mistake(
                lambda a, mu, sigma2, zeta: a @ mu + _delta(a, sigma2) * zeta,
                "delta is a variance. The noise is multiplied by its square root.",
            ),
            Mistake(
                lambda a, mu, sigma2, zeta: a @ mu + (a @ sigma2.sqrt()) * zeta,
                "standard deviations were added. Of independent terms the variances add: "
                "a² @ sigma2, then the root.",
            ),
            Mistake(
                lambda a, mu, sigma2, zeta: a @ mu + _delta(a, sigma2).sqrt() * zeta[:1],
                "all rows share one draw of the noise. That is the covariance the trick removes.",
            ),
            Mistake(
                lambda a, mu, sigma2, zeta: a @ mu + (a.abs() @ sigma2).sqrt() * zeta,
                "the inputs enter the variance squared: Var[a w] = a² Var[w].",
            ),
        ),
        hints=(
            "b_mj is Gaussian. Which mean, which variance?",
            "gamma = a @ mu and delta = a**2 @ sigma2.",
            "gamma + delta.sqrt() * zeta",
        ),
    ),
    Exercise(
        number="06.2",
        title="the gradient through a local draw",
        solution=local_gradient,
        trial=lambda answer: answer(_G, _A, _SIGMA2, _ZETA),
        properties=(
            Property(
                "it is what automatic differentiation gives",
                lambda answer: close(
                    answer(_G, _A, _SIGMA2, _ZETA), _autograd(_A, _SIGMA2, _ZETA, _G)
                ),
                "b_mj = gamma_mj + sqrt(delta_mj) zeta_mj; use the chain rule through delta",
            ),
            Property(
                "there is one entry for each weight",
                lambda answer: answer(_G, _A, _SIGMA2, _ZETA).shape == (3, 2),
                "sigma2 is (K, L), and so is its gradient; the rows are summed over",
            ),
            Property(
                "a batch given twice has twice the gradient",
                lambda answer: close(
                    answer(
                        torch.cat([_G, _G]),
                        torch.cat([_A, _A]),
                        _SIGMA2,
                        torch.cat([_ZETA, _ZETA]),
                    ),
                    2 * answer(_G, _A, _SIGMA2, _ZETA),
                ),
                "the loss is a sum over rows: do not divide by M",
            ),
            Property(
                "an input that is zero has no say",
                lambda answer: close(
                    answer(_G, _A * torch.tensor([1.0, 0.0, 1.0]), _SIGMA2, _ZETA)[1],
                    torch.zeros(2),
                ),
                "a_mi² is a factor of term m",
            ),
        ),
        mistakes=(
            Mistake(
                lambda g, a, sigma2, zeta: (a**2).T @ (g * zeta / _delta(a, sigma2).sqrt()),
                "a factor ½ is missing: the derivative of √δ is 1/(2√δ).",
            ),
            Mistake(
                lambda g, a, sigma2, zeta: a.T @ (g * zeta / (2 * _delta(a, sigma2).sqrt())),
                "∂δ_mj/∂σ²_ij is a_mi², not a_mi.",
            ),
            Mistake(
                lambda g, a, sigma2, zeta: (
                    (a**2).T @ (g * zeta / (2 * _delta(a, sigma2).sqrt())) / len(a)
                ),
                "this is the mean over rows; the loss is a sum.",
            ),
            Mistake(
                lambda g, a, sigma2, zeta: a.T @ (g * zeta) / (2 * sigma2.sqrt()),
                "this is the form for sampled weights, with ζ in the place of ε. Here the noise "
                "enters through √δ.",
            ),
        ),
        hints=(
            "σ² enters b only through δ. Three factors: ∂L/∂b, ∂b/∂δ, ∂δ/∂σ².",
            "∂b/∂δ = ζ/(2√δ) and ∂δ_mj/∂σ²_ij = a_mi².",
            "(a**2).T @ (g * zeta / (2 * delta.sqrt()))",
        ),
    ),
    Exercise(
        number="06.3",
        title="what a minibatch removes",
        solution=minibatch_variance,
        trial=lambda answer: torch.tensor([answer(3.0, 0.5, 100, m) for m in (1, 4, 50)]),
        properties=(
            Property(
                "one row: only Var[L_i] counts",
                lambda answer: close(answer(3.0, 0.5, 10, 1), 300.0),
                "with M = 1 there is no second row to covary with",
            ),
            Property(
                "independent terms: it falls as 1/M",
                lambda answer: close(answer(3.0, 0.0, 10, 6), 50.0),
                "the variance of a mean of M independent terms is Var/M",
            ),
            Property(
                "the covariance stays",
                lambda answer: close(answer(3.0, 0.5, 10, 10**15), 50.0),
                "as M grows the estimate keeps N² Cov",
            ),
            Property(
                "two rows, by hand",
                lambda answer: close(answer(3.0, 0.5, 2, 2), 7.0),
                "Var[L_1 + L_2] = 2 Var + 2 Cov",
            ),
        ),
        mistakes=(
            Mistake(
                lambda var, cov, n, m: n**2 * (var / m + cov),
                "M rows make M (M − 1) pairs, not M²: the covariance has the factor (M − 1)/M.",
            ),
            Mistake(
                lambda var, cov, n, m: (var + (m - 1) * cov) / m,
                "this is the variance of a mean over rows. The estimator is N times that.",
            ),
            Mistake(
                lambda var, cov, n, m: n * (var + (m - 1) * cov) / m,
                "a factor N multiplies the estimate, so N² multiplies its variance.",
            ),
            Mistake(
                lambda var, cov, n, m: n**2 * (var + cov) / m,
                "the covariance does not fall with M: there are M (M − 1) pairs over M².",
            ),
        ),
        hints=(
            "The variance of a sum is the sum of all entries of the covariance matrix.",
            "M entries are Var, M (M − 1) are Cov; divide by M², multiply by N².",
            "n_train**2 * (var + (batch_size - 1) * cov) / batch_size",
        ),
    ),
    Exercise(
        number="06.4",
        title="variance of what",
        solution=variance_of_gradient,
        trial=lambda answer: answer(_GRADIENTS),
        properties=(
            Property(
                "the same gradient every time has no variance",
                lambda answer: close(answer(_GRADIENTS[:1].expand(40, 3)), 0.0),
                "parameters may have different gradients; an estimator that never moves has "
                "variance 0",
            ),
            Property(
                "two like parameters: the variance of either",
                lambda answer: close(answer(_GRADIENTS[:, [0, 0]]), _GRADIENTS[:, 0].var()),
                "the sample variance over draws of one parameter, averaged over parameters",
            ),
            Property(
                "adding a constant to one parameter's gradient changes nothing",
                lambda answer: close(
                    answer(_GRADIENTS + torch.tensor([0.0, 100.0, 0.0])), answer(_GRADIENTS)
                ),
                "where the gradient points is not how much it varies",
            ),
            Property(
                "two parameters that move against each other do not cancel",
                lambda answer: close(
                    answer(_GRADIENTS[:, :1] * torch.tensor([1.0, -1.0])), _GRADIENTS[:, 0].var()
                ),
                "take each parameter's variance first, then average the variances",
            ),
        ),
        mistakes=(
            Mistake(
                lambda gradients: gradients.var(1).mean(),
                "this is the variance over the entries of one gradient. It says how different the "
                "parameters are, not how much the estimate varies.",
            ),
            Mistake(
                lambda gradients: gradients.var(),
                "all numbers in one pot: the spread between parameters is counted as noise.",
            ),
            Mistake(
                lambda gradients: gradients.mean(1).var(),
                "the parameters were averaged first; their noise cancels, and so does the answer.",
            ),
            Mistake(
                lambda gradients: gradients.var(0).sum(),
                "right up to the last step: average over the parameters, do not add.",
            ),
        ),
        hints=(
            "Repeat the estimate many times and look at one parameter. Which axis moves?",
            "gradients.var(0) has one variance for each parameter.",
            "gradients.var(0).mean()",
        ),
    ),
)
