"""Exercises of lesson 06: a local draw, its gradient, the minibatch, variance of what."""

from __future__ import annotations

import torch
from torch import Tensor

from bdl_lessons.lessons.exercises.grader import Check, Exercise, KnownError, agrees, close, normals


def local_draw(
    a: Tensor, mu: Tensor, sigma2: Tensor, bias_mu: Tensor, bias_sigma2: Tensor, zeta: Tensor
) -> Tensor:
    """One draw of the activations of a layer whose weights *and* biases are Gaussian.

    ``a`` is ``(M, K)``, ``mu`` and ``sigma2`` are ``(K, L)``, ``bias_mu`` and ``bias_sigma2``
    ``(L,)``, ``zeta`` is ``(M, L)`` standard normal noise. Returns b ``(M, L)``. A bias is the
    weight of an input that is always 1.
    """
    gamma = a @ mu + bias_mu
    delta = a**2 @ sigma2 + bias_sigma2
    return gamma + delta.sqrt() * zeta


def input_gradient(g: Tensor, a: Tensor, mu: Tensor, sigma2: Tensor, zeta: Tensor) -> Tensor:
    """The gradient for the inputs of a layer, through a local draw.

    ``g[m, j]`` is dL/db_mj, ``(M, L)``; ``a`` is ``(M, K)``, ``mu`` and ``sigma2`` are ``(K, L)``,
    ``zeta`` is ``(M, L)``. Returns ``(M, K)``. The second term is the mean of the weights' noise
    given the activations: the weights themselves were never drawn.
    """
    delta = a**2 @ sigma2
    return g @ mu.T + a * ((g * zeta / delta.sqrt()) @ sigma2.T)


def minibatch_variance(var: float, cov: float, n_train: int, batch_size: int) -> float:
    """Equation (3): the variance of the minibatch estimate of a sum over ``n_train`` examples.

    ``var`` is Var[L_i], ``cov`` is Cov[L_i, L_j].
    """
    return n_train**2 * (var + (batch_size - 1) * cov) / batch_size


def variance_of_gradient(gradients: Tensor) -> Tensor:
    """How much a gradient estimator varies: ``(S, P)``, S draws of P parameters, to one number."""
    return gradients.var(0).mean()


_normal = normals(6)
_A, _MU, _ZETA, _G = _normal(5, 3), _normal(3, 2), _normal(5, 2), _normal(5, 2)
_SIGMA2, _BIAS_MU, _BIAS_SIGMA2 = _normal(3, 2).exp(), _normal(2), _normal(2).exp()
_LAYER = (_MU, _SIGMA2, _BIAS_MU, _BIAS_SIGMA2)
_ZEROS = torch.zeros(5, 2, dtype=torch.float64)
_GRADIENTS = torch.tensor([1.0, -30.0, 5.0]).double() + _normal(40, 3) * torch.tensor([1, 2, 3])


def _wrong_noise(noise):
    """``local_draw`` whose noise is ``noise(a, sigma2, bias_sigma2, zeta)``."""
    return lambda a, mu, sigma2, bias_mu, bias_sigma2, zeta: (
        a @ mu + bias_mu + noise(a, sigma2, bias_sigma2, zeta)
    )


def _autograd(a: Tensor, g: Tensor, zeta: Tensor) -> Tensor:
    """The same gradient by automatic differentiation of sum(g * b)."""
    a = a.clone().requires_grad_()
    b = a @ _MU + (a**2 @ _SIGMA2).sqrt() * zeta
    return torch.autograd.grad((g * b).sum(), a)[0]


EXERCISES = (
    Exercise(
        number="06.1",
        title="a local draw with a noisy bias",
        solution=local_draw,
        probe=lambda answer: answer(_A, *_LAYER, _ZETA),
        checks={
            "without noise it is the mean activation": Check(
                lambda answer: close(answer(_A, *_LAYER, _ZEROS), _A @ _MU + _BIAS_MU),
                "with zeta = 0 only gamma = a @ mu + bias_mu is left",
            ),
            "its variance is that of a sum of independent weights": agrees(
                lambda answer: (answer(_A, *_LAYER, _ZEROS + 1) - _A @ _MU - _BIAS_MU) ** 2,
                torch.einsum("mk,kl->ml", _A**2, _SIGMA2) + _BIAS_SIGMA2,
                "Var[a_1 w_1 + a_2 w_2] = a_1² Var[w_1] + a_2² Var[w_2]; zeta multiplies its root",
            ),
            "every row has its own noise": Check(
                lambda answer: (
                    answer(_A[[0, 0]], *_LAYER, _ZETA[:2]).diff(dim=0).abs().max() > 1e-9
                ),
                "the same input twice must give two activations: use zeta[m, j] for row m",
            ),
            "a row of zeros still has the noise of the bias": agrees(
                lambda answer: answer(0 * _A, *_LAYER, _ZEROS + 1) - _BIAS_MU,
                _BIAS_SIGMA2.sqrt().expand(5, 2),
                "the bias is the weight of an input that is always 1",
            ),
        },
        known_errors=(
            KnownError(
                _wrong_noise(lambda a, s2, bias_s2, zeta: (a**2 @ s2 + bias_s2) * zeta),
                "delta is a variance. The noise is multiplied by its square root.",
            ),
            KnownError(
                _wrong_noise(
                    lambda a, s2, bias_s2, zeta: ((a**2 @ s2).sqrt() + bias_s2.sqrt()) * zeta
                ),
                "standard deviations were added. Of independent terms the variances add; take the "
                "root of the sum.",
            ),
            KnownError(
                _wrong_noise(
                    lambda a, s2, bias_s2, zeta: (
                        (a**2 @ s2).sqrt() * zeta + bias_s2.sqrt() * zeta[:1]
                    )
                ),
                "the bias has one draw for all rows. That is the covariance which the trick "
                "removes; let its variance enter delta.",
            ),
            KnownError(
                _wrong_noise(lambda a, s2, bias_s2, zeta: (a.abs() @ s2 + bias_s2).sqrt() * zeta),
                "the inputs enter the variance squared: Var[a w] = a² Var[w].",
            ),
        ),
        hints=(
            "b_mj is Gaussian. Which mean, which variance? Append a column of ones to a.",
            "gamma = a @ mu + bias_mu, and bias_sigma2 adds to delta.",
            "delta = a**2 @ sigma2 + bias_sigma2; return gamma + delta.sqrt() * zeta",
        ),
    ),
    Exercise(
        number="06.2",
        title="the gradient for the layer below",
        solution=input_gradient,
        probe=lambda answer: answer(_G, _A, _MU, _SIGMA2, _ZETA),
        checks={
            "it is what automatic differentiation gives": Check(
                lambda answer: close(answer(_G, _A, _MU, _SIGMA2, _ZETA), _autograd(_A, _G, _ZETA)),
                "b_mj = gamma_mj + sqrt(delta_mj) zeta_mj; both gamma and delta depend on a",
            ),
            "without noise it is that of a plain layer": Check(
                lambda answer: close(answer(_G, _A, _MU, _SIGMA2, _ZEROS), _G @ _MU.T),
                "with zeta = 0 only g @ mu.T is left",
            ),
            "it does not change if inputs and noise change sign and the means are zero": agrees(
                lambda answer: answer(_G, -_A, 0 * _MU, _SIGMA2, -_ZETA),
                lambda answer: answer(_G, _A, 0 * _MU, _SIGMA2, _ZETA),
                "a enters the second term once, and so does zeta",
            ),
            "twice the standard deviations, twice the noise term": agrees(
                lambda answer: answer(_G, _A, 0 * _MU, 4 * _SIGMA2, _ZETA),
                lambda answer: 2 * answer(_G, _A, 0 * _MU, _SIGMA2, _ZETA),
                "sigma2 over the root of delta",
            ),
        },
        known_errors=(
            KnownError(
                lambda g, a, mu, sigma2, zeta: g @ mu.T,
                "delta depends on a as well: the noise grows with the input.",
            ),
            KnownError(
                lambda g, a, mu, sigma2, zeta: (
                    g @ mu.T + a / 2 * ((g * zeta / (a**2 @ sigma2).sqrt()) @ sigma2.T)
                ),
                "the ½ of the square root cancels against the 2 of ∂δ/∂a = 2 a σ².",
            ),
            KnownError(
                lambda g, a, mu, sigma2, zeta: g @ mu.T + a * ((g * zeta) @ sigma2.T),
                "the derivative of √δ is 1/(2√δ): a division by √δ is missing.",
            ),
            KnownError(
                lambda g, a, mu, s2, zeta: g @ mu.T + (g * zeta / (a**2 @ s2).sqrt()) @ s2.T,
                "∂δ_mj/∂a_mi = 2 a_mi σ²_ij: the factor a_mi is missing.",
            ),
        ),
        hints=(
            "a enters b twice, through γ and through δ.",
            "∂γ_mj/∂a_mi = μ_ij, ∂√δ_mj/∂a_mi = a_mi σ²_ij / √δ_mj. Sum over j.",
            "g @ mu.T + a * ((g * zeta / delta.sqrt()) @ sigma2.T)",
        ),
    ),
    Exercise(
        number="06.3",
        title="what a minibatch removes",
        solution=minibatch_variance,
        probe=lambda answer: torch.tensor([answer(3.0, 0.5, 100, m) for m in (1, 4, 50)]),
        checks={
            "one row: only Var[L_i] counts": Check(
                lambda answer: close(answer(3.0, 0.5, 10, 1), 300.0),
                "with M = 1 there is no second row to covary with",
            ),
            "independent terms: it falls as 1/M": Check(
                lambda answer: close(answer(3.0, 0.0, 10, 6), 50.0),
                "the variance of a mean of M independent terms is Var/M",
            ),
            "the covariance stays": Check(
                lambda answer: close(answer(3.0, 0.5, 10, 10**15), 50.0),
                "as M grows the estimate keeps N² Cov",
            ),
            "two rows, by hand": Check(
                lambda answer: close(answer(3.0, 0.5, 2, 2), 7.0), "Var[L_1 + L_2] = 2 Var + 2 Cov"
            ),
        },
        known_errors=(
            KnownError(
                lambda var, cov, n, m: n**2 * (var / m + cov),
                "M rows make M (M − 1) pairs, not M²: the covariance has the factor (M − 1)/M.",
            ),
            KnownError(
                lambda var, cov, n, m: (var + (m - 1) * cov) / m,
                "this is the variance of a mean over rows. The estimator is N times that.",
            ),
            KnownError(
                lambda var, cov, n, m: n * (var + (m - 1) * cov) / m,
                "a factor N multiplies the estimate, so N² multiplies its variance.",
            ),
            KnownError(
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
        probe=lambda answer: answer(_GRADIENTS),
        checks={
            "the same gradient every time has no variance": Check(
                lambda answer: close(answer(_GRADIENTS[:1].expand(40, 3)), 0.0),
                "parameters may have different gradients; an estimator that never moves has "
                "variance 0",
            ),
            "two like parameters: the variance of either": Check(
                lambda answer: close(answer(_GRADIENTS[:, [0, 0]]), _GRADIENTS[:, 0].var()),
                "the sample variance over draws of one parameter, averaged over parameters",
            ),
            "adding a constant to one parameter's gradient changes nothing": agrees(
                lambda answer: answer(_GRADIENTS + torch.tensor([0.0, 100.0, 0.0])),
                lambda answer: answer(_GRADIENTS),
                "where the gradient points is not how much it varies",
            ),
            "two parameters that move against each other do not cancel": agrees(
                lambda answer: answer(_GRADIENTS[:, :1] * torch.tensor([1.0, -1.0])),
                _GRADIENTS[:, 0].var(),
                "take each parameter's variance first, then average the variances",
            ),
        },
        known_errors=(
            KnownError(
                lambda gradients: gradients.var(1).mean(),
                "this is the variance over the entries of one gradient. It says how different the "
                "parameters are, not how much the estimate varies.",
            ),
            KnownError(
                lambda gradients: gradients.var(),
                "all numbers in one pot: the spread between parameters is counted as noise.",
            ),
            KnownError(
                lambda gradients: gradients.mean(1).var(),
                "the parameters were averaged first; their noise cancels, and so does the answer.",
            ),
            KnownError(
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
