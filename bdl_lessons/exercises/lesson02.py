"""Exercises of lesson 02: the gap of the ELBO, blocks of weights, a bug hunt, a weighted KL."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Normal

from bdl_lessons.exercises.grader import Criterion, Exercise, KnownError, agrees, normals
from bdl_lessons.probability import gaussian_kl


def predicted_gaps() -> Tensor:
    """Gaps between ELBO and log evidence in nats, ``(4,)``, by equation (13).

    A, B: covariance halved and doubled. C: mean one posterior standard deviation off in the
    intercept alone. D: 1000 independent weights, every variance halved.
    """
    halved = 0.5 * (0.5 - 1 + math.log(2))  # for one weight
    doubled = 0.5 * (2 - 1 - math.log(2))
    moved = 0.5 * 4 * 15 / 24  # ½ Λ_11 Var[w_1 | y]: the ellipse is narrow in this direction
    return torch.tensor([2 * halved, 2 * doubled, moved, 1000 * halved])


def best_block(cov: Tensor, block: list[int]) -> Tensor:
    """Covariance ``(B, B)`` of the weights in ``block`` under the best q that splits there.

    The posterior is ``N(mean, cov)``, ``cov`` ``(K, K)``; q keeps the correlations within the block
    and none between the block and the other weights.
    """
    precision = torch.linalg.inv(cov)
    return torch.linalg.inv(precision[block][:, block])


def repaired_elbo(
    X: Tensor, y: Tensor, tau: float, beta: float, m: Tensor, var: Tensor, eps: Tensor
) -> Tensor:
    """The ELBO of ``q = N(m, diag(var))`` for the linear model from draws; 0-dim, nats.

    ``X`` is ``(N, K)``, ``y`` ``(N,)``, ``m`` and ``var`` ``(K,)``, ``eps`` ``(S, K)``.
    """
    w = m + var.sqrt() * eps
    squares = (y - w @ X.T) ** 2
    log_density = 0.5 * math.log(tau / (2 * math.pi)) - 0.5 * tau * squares
    expected = log_density.sum(1).mean()  # sum over examples, mean over draws
    kl = 0.5 * (beta * var - 1 - torch.log(beta * var) + beta * m**2).sum()
    return expected - kl


def weighted_posterior(
    X: Tensor, y: Tensor, tau: float, beta: float, kl_weight: float
) -> tuple[Tensor, Tensor]:
    """Mean ``(K,)`` and covariance ``(K, K)`` of the q that is best with a weighted KL term.

    It maximises ``E_q[log p(y | w)] - kl_weight * KL(q || prior)`` for the linear model: the
    posterior if the precision of the noise were ``tau / kl_weight``.
    """
    tau = tau / kl_weight
    precision = tau * X.T @ X + beta * torch.eye(X.shape[1], dtype=X.dtype)
    cov = torch.linalg.inv(precision)
    return tau * cov @ X.T @ y, cov


_normal = normals(2)
_X = _normal(7, 3)
_Y = 3 * _normal(7)
_M = _normal(3)
_VAR = 2 * _normal(3).abs() + 0.2
_EPS = _normal(5, 3)
_SHARED = _normal(6, 1)
_COV = _SHARED @ _SHARED.T + 0.1 * torch.eye(6, dtype=torch.float64)  # strongly correlated
_BLOCK = [4, 1, 3]


def _same(solution, call, atol: float = 1e-9):
    """The test that ``call`` gives for an answer what it gives for the solution."""
    return agrees(call, call(solution), atol)


def _gap(index: int):
    return _same(predicted_gaps, lambda answer: answer()[index], 0.5 if index == 3 else 0.006)


def _sum_of_correlations(cov: Tensor, block: list[int]) -> Tensor:
    var = cov.diagonal()
    shrink = 2 - (cov.square() / var / var[:, None]).sum(1)  # 1 less the sum over j != i
    return torch.diag((shrink * var)[block])


def _elbo(answer, X=_X, y=_Y, m=_M, var=_VAR, eps=_EPS) -> Tensor:
    return answer(X, y, 4.0, 0.25, m, var, eps)


def _elbo_with_bugs(std: bool, total: bool, direction: bool):
    """The function of the exercise, with those of its errors repaired that are ``True``."""

    def elbo(X, y, tau, beta, m, var, eps):
        w = m + (var.sqrt() if std else var) * eps
        terms = 0.5 * math.log(tau / (2 * math.pi)) - 0.5 * tau * (y - w @ X.T) ** 2
        expected = terms.sum(1).mean() if total else terms.mean()
        prior = torch.zeros_like(m), 1 / beta
        kl = gaussian_kl(m, var, *prior) if direction else gaussian_kl(*prior, m, var)
        return expected - kl

    return elbo


def _with_sampled_kl(X, y, tau, beta, m, var, eps):
    """A valid estimate of the ELBO, whose KL term is averaged over the same draws."""
    w = m + var.sqrt() * eps
    log_likelihood = Normal(w @ X.T, tau**-0.5).log_prob(y).sum(1)
    log_q = Normal(m, var.sqrt()).log_prob(w).sum(1)
    log_prior = Normal(0.0, beta**-0.5).log_prob(w).sum(1)
    return (log_likelihood - log_q + log_prior).mean()


def _summed_over_draws(X, y, tau, beta, m, var, eps):
    kl = gaussian_kl(m, var, torch.zeros_like(m), 1 / beta)
    draws = [repaired_elbo(X, y, tau, beta, m, var, one[None]) + kl for one in eps]
    return sum(draws) - kl


def _weighted(answer, kl_weight: float, repeats: int = 1) -> Tensor:
    """Mean and covariance in one matrix ``(K + 1, K)``."""
    mean, cov = answer(_X.repeat(repeats, 1), _Y.repeat(repeats), 4.0, 0.25, kl_weight)
    return torch.cat([mean[None], cov])


def _confused(change):
    """An answer of 02.4: ``change`` of the weight, and of what is right with it and without."""

    def answer(X, y, tau, beta, kl_weight):
        right, plain = (weighted_posterior(X, y, tau, beta, k) for k in (kl_weight, 1.0))
        return change(kl_weight, *right, *plain)  # mean and covariance of each

    return answer


EXERCISES = (
    Exercise(
        number="02.1",
        title="the gap, before it is computed",
        solution=predicted_gaps,
        probe=lambda answer: (
            torch.as_tensor(answer()).double() * torch.tensor([1, 1, 1, 0.01])
        ).round(decimals=1),
        criteria=(
            Criterion(
                "A: the covariance halved",
                _gap(0),
                advice="in (13) tr(ΛΣ) is then ½ + ½, and −log|Λ| − log|Σ| is 2 log 2",
            ),
            Criterion(
                "B: the covariance doubled",
                _gap(1),
                advice="in (13) tr(ΛΣ) is then 2 + 2, and −log|Λ| − log|Σ| is −2 log 2",
            ),
            Criterion(
                "C: the mean moved in w₁ alone",
                _gap(2),
                advice=(
                    "only the square is left in (13), (m − w_MAP)ᵀ Λ (m − w_MAP), and it needs Λ_11"
                ),
            ),
            Criterion(
                "D: a thousand variances halved",
                _gap(3),
                advice=(
                    "for independent weights the KL divergence is a sum of one term for each weight"
                ),
            ),
        ),
        known_errors=(
            KnownError(
                lambda: torch.tensor([0.307, 0.193, 1.25, 153.4]),
                diagnosis=(
                    "this is KL(posterior ‖ q). The gap of the ELBO has q in front: a q that is "
                    "too wide is further away than one that is too narrow by the same factor."
                ),
            ),
            KnownError(
                lambda: torch.tensor([0.307, 0.193, 1.25, 96.6]),
                diagnosis=(
                    "A and B are exchanged: a q that is too wide is further away than one that is "
                    "too narrow by the same factor."
                ),
            ),
            KnownError(
                lambda: -predicted_gaps(),
                diagnosis="the sign is wrong: a gap is log evidence − ELBO, never negative.",
            ),
            KnownError(
                lambda: torch.tensor([0.193, 0.307, 0.5, 96.6]),
                diagnosis=(
                    "C would be right if the weights were independent. Here the other weight stays "
                    "where it was, so the mean leaves the narrow ellipse sideways."
                ),
            ),
            KnownError(
                lambda: torch.tensor([0.193, 0.307, 1.25, 0.193]),
                diagnosis=(
                    "D is not a matter of the factor alone: every weight adds its part to the gap."
                ),
            ),
        ),
        hints=(
            "The gap is KL(q ‖ posterior), and (13) gives it for two Gaussians.",
            "A and B: with Σ = aΛ⁻¹ every weight adds ½(a − 1 − log a). D: a thousand of them.",
            "C: ½ Λ_11 times the squared step, which is Var[w_1 | y] = 15/24.",
        ),
        kind="predict",
    ),
    Exercise(
        number="02.2",
        title="mean-field between blocks of weights",
        solution=best_block,
        probe=lambda answer: answer(_COV, _BLOCK),
        criteria=(
            Criterion(
                "a block of all weights loses nothing",
                agrees(lambda answer: answer(_COV, list(range(6))), _COV),
                advice="q is then an arbitrary Gaussian, and the best one is the posterior",
            ),
            Criterion(
                "a block of one weight is mean-field, equation (15)",
                _same(best_block, lambda answer: torch.cat([answer(_COV, [i]) for i in range(6)])),
                advice=(
                    "one over the diagonal element of the precision matrix; with more than two "
                    "weights it is not 1 − Σρ²"
                ),
            ),
            Criterion(
                "a block of three weights out of six",
                _same(best_block, lambda answer: answer(_COV, _BLOCK)),
                advice=(
                    "write the terms of (13) that hold the covariance of the block: a trace with "
                    "that block of Λ, and a log-determinant. Set the derivative to 0"
                ),
            ),
            Criterion(
                "a block that is uncorrelated with the rest keeps its covariance",
                agrees(
                    lambda answer: answer(torch.block_diag(_COV[:2, :2], _COV[2:, 2:]), [0, 1]),
                    _COV[:2, :2],
                ),
                advice="the posterior itself has no correlation here that q would have to give up",
            ),
        ),
        known_errors=(
            KnownError(
                lambda cov, block: cov[block][:, block],
                diagnosis=(
                    "this is the covariance of the block in the posterior. It minimises the other "
                    "divergence, KL(posterior ‖ q)."
                ),
            ),
            KnownError(
                lambda cov, block: torch.linalg.inv(cov)[block][:, block],
                diagnosis="this is a precision matrix; the covariance is its inverse.",
            ),
            KnownError(
                lambda cov, block: torch.linalg.inv(cov[block][:, block]),
                diagnosis=(
                    "invert the matrix first, then take the block: the block of an inverse is not "
                    "the inverse of the block."
                ),
            ),
            KnownError(
                lambda cov, block: torch.diag(1 / torch.linalg.inv(cov).diagonal()[block]),
                diagnosis=(
                    "this makes all weights independent. Inside the block q keeps the correlations."
                ),
            ),
            KnownError(
                _sum_of_correlations,
                diagnosis=(
                    "1 − ρ² holds for two weights. With more of them the correlations overlap, and "
                    "1 − Σρ² can even be negative."
                ),
            ),
        ),
        hints=(
            "(13) with Λ, the inverse of cov: which terms depend on the block's covariance Σ_B?",
            "½ tr(Λ_BB Σ_B) − ½ log|Σ_B|. In code a block of a matrix is matrix[block][:, block].",
            "The derivative of log|Σ_B| is Σ_B⁻¹: so Σ_B⁻¹ = Λ_BB, the block of Λ.",
        ),
        kind="derive",
    ),
    Exercise(
        number="02.3",
        title="three errors in a sampled ELBO",
        solution=repaired_elbo,
        probe=_elbo,
        criteria=(
            Criterion(
                "one example: the average over draws with the variances var",
                _same(
                    repaired_elbo,  # for one example sum and mean are the same; the KL cancels
                    lambda answer: (
                        _elbo(answer, _X[:1], _Y[:1]) - _elbo(answer, _X[:1], _Y[:1], eps=0 * _EPS)
                    ),
                ),
                advice="average over the draws; and which factor gives noise the variance var?",
            ),
            Criterion(
                "the same data twice add their log-likelihood once more",
                _same(
                    repaired_elbo,  # without noise; the KL cancels
                    lambda answer: (
                        _elbo(answer, _X.repeat(2, 1), _Y.repeat(2), eps=0 * _EPS)
                        - _elbo(answer, eps=0 * _EPS)
                    ),
                ),
                advice=(
                    "log p(y | w) is a sum over the examples, whatever is averaged over the draws"
                ),
            ),
            Criterion(
                "the KL term is KL(q ‖ prior)",
                _same(
                    repaired_elbo,  # inputs of 0: the expected log-likelihood cancels
                    lambda answer: (
                        _elbo(answer, 0 * _X) - _elbo(answer, 0 * _X, m=0 * _M, var=_VAR / 9)
                    ),
                ),
                advice="compare with (13): which distribution is averaged over, q or the prior?",
            ),
            Criterion(
                "for five draws it is the estimate of the ELBO",
                _same(repaired_elbo, _elbo),
                advice="average over the draws and count everything else exactly once",
            ),
        ),
        known_errors=(
            KnownError(
                _elbo_with_bugs(std=False, total=True, direction=True),
                diagnosis=(
                    "two errors found. The third: var is a variance, and noise is multiplied by "
                    "the standard deviation."
                ),
            ),
            KnownError(
                _elbo_with_bugs(std=True, total=False, direction=True),
                diagnosis=(
                    "two errors found. The third: .mean() averages over the examples too, so that "
                    "the data count as one example against the whole KL term."
                ),
            ),
            KnownError(
                _elbo_with_bugs(std=True, total=True, direction=False),
                diagnosis=(
                    "two errors found. The third is in the KL term: it has the prior and q "
                    "exchanged."
                ),
            ),
            KnownError(
                lambda X, y, tau, beta, m, var, eps: (
                    repaired_elbo(X, y, tau, beta, m, var, eps) - torch.log(beta * var).sum()
                ),
                diagnosis="in the KL term the logarithm has the wrong sign: see Spot the bug.",
            ),
            KnownError(
                _with_sampled_kl,
                diagnosis=(
                    "this is a valid estimate of the ELBO: its KL term is averaged over the same "
                    "draws. The code to repair has the KL term of (13), which has no noise; keep "
                    "it."
                ),
            ),
            KnownError(
                _summed_over_draws,
                diagnosis="you summed over the draws; average over them, sum over the examples.",
            ),
            KnownError(
                _elbo_with_bugs(std=False, total=False, direction=False),
                diagnosis=(
                    "this is the function as it was. Look at one line at a time: the draws, the "
                    "average, the KL term."
                ),
            ),
        ),
        hints=(
            "Test the three lines one by one. What is the variance of var * eps?",
            "squares has the shape (S, N). Over which of the two axes is (10) an average?",
            "Compare kl with (13) for one weight, with σ² = var.",
        ),
        kind="debug",
    ),
    Exercise(
        number="02.4",
        title="a KL term with a weight",
        solution=weighted_posterior,
        probe=lambda answer: _weighted(answer, 0.2),
        criteria=(
            Criterion(
                "with weight 1 it is the posterior",
                agrees(lambda answer: _weighted(answer, 1.0), _weighted(weighted_posterior, 1.0)),
                advice="this is the ELBO, and (14) gives its best q",
            ),
            Criterion(
                "with weight ¼ it is the posterior of the data seen four times",
                agrees(
                    lambda answer: _weighted(answer, 0.25),
                    _weighted(weighted_posterior, 1.0, repeats=4),
                ),
                advice=(
                    "divide the whole objective by its weight: which likelihood makes it an ELBO?"
                ),
            ),
            Criterion(
                "with a huge weight it is the prior",
                agrees(
                    lambda answer: _weighted(answer, 1e12),
                    torch.cat([torch.zeros(1, 3), 4 * torch.eye(3)]),
                    atol=1e-6,
                ),
                advice="only the KL term is left, and it is 0 at the prior",
            ),
        ),
        known_errors=(
            KnownError(
                _confused(lambda k, mean, cov, *plain: (mean, cov / k)),
                diagnosis=(
                    "the mean is right and the covariance is not: this widens the prior, where the "
                    "objective strengthens the likelihood."
                ),
            ),
            KnownError(
                _confused(lambda k, mean, cov, mean_1, cov_1: (mean_1, k * cov_1)),
                diagnosis=(
                    "this sharpens the whole posterior, prior included (a 'cold posterior'). A "
                    "weight on the KL term leaves the prior as it is."
                ),
            ),
            KnownError(
                _confused(lambda k, mean, cov, mean_1, cov_1: (mean, k * cov_1)),
                diagnosis=(
                    "the mean is right. The covariance is that of the posterior times the weight, "
                    "which sharpens the prior as well; a weight on the KL term leaves the prior as "
                    "it is."
                ),
            ),
            KnownError(
                _confused(lambda k, mean, cov, *plain: (mean, k * cov)),
                diagnosis=(
                    "the mean is right. The covariance has the weight twice: in tau / kl_weight "
                    "and in front. The first alone is what (14) asks for."
                ),
            ),
            KnownError(
                _confused(lambda k, mean, cov, mean_1, cov_1: (mean, cov_1)),
                diagnosis="the mean is right. The covariance is that of weight 1.",
            ),
            KnownError(
                _confused(lambda k, mean, cov, mean_1, cov_1: (mean_1, cov)),
                diagnosis="the covariance is right. The mean is that of weight 1.",
            ),
            KnownError(
                _confused(lambda k, mean, cov, *plain: (k * mean, cov)),
                diagnosis="the covariance is right; the mean needs tau / kl_weight too.",
            ),
            KnownError(
                lambda X, y, tau, beta, kl_weight: weighted_posterior(
                    X, y, tau, beta / kl_weight, 1.0
                ),
                diagnosis="the weight belongs to the likelihood, not to the prior.",
            ),
            KnownError(
                lambda X, y, tau, beta, kl_weight: weighted_posterior(X, y, tau, beta, 1.0),
                diagnosis="the weight is not used.",
            ),
            KnownError(
                lambda X, y, tau, beta, kl_weight: weighted_posterior(
                    X, y, tau, beta, 1 / kl_weight
                ),
                diagnosis="the weight is upside down: a small KL weight makes the data count more.",
            ),
        ),
        hints=(
            "Maximising an objective or the objective divided by kl_weight is the same.",
            "E_q[log p(y | w) / kl_weight] − KL(q ‖ prior): what is log p(y | w) / kl_weight?",
            "A Gaussian log-likelihood with tau / kl_weight in place of tau. Then (14).",
        ),
        kind="extend",
    ),
)
