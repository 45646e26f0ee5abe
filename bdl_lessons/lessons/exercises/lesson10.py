"""Exercises of lesson 10: variational structured dropout."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from bdl_lessons.lessons.exercises.grader import Check, Exercise, KnownError, agrees, close, normals
from bdl_lessons.probability import orthogonal_matrix, rotated_variance


def mirror(x: Tensor, v: Tensor) -> Tensor:
    """Equation (1): every row of ``x (N, K)`` reflected by ``v (K,)``, without a K×K matrix."""
    return x - 2 * (x @ v)[:, None] * v / (v @ v)


def unit_variances(alpha: Tensor, v: Tensor) -> Tensor:
    """Equation (9): ``diag(H diag(alpha) H)`` for one reflection, in O(K)."""
    u2 = v.square() / (v @ v)
    return alpha - 4 * alpha * u2 + 4 * u2 * (alpha * u2).sum()


def best_beta(theta: Tensor, s: Tensor) -> Tensor:
    """Equation (12): the prior precisions ``(K, Q)`` that minimise the KL of the columns."""
    return 1 / (theta.square() * (1 + s[:, None]))


def weight_covariance(theta: Tensor, noise_cov: Tensor) -> Tensor:
    """Covariance of all KQ weights of ``diag(xi) theta``, in the order of ``theta.flatten()``."""
    n_weights = theta.numel()
    cov = torch.einsum("ij,ik,kl->ijkl", theta, noise_cov, theta)
    return cov.reshape(n_weights, n_weights)


_normal = normals(10)
_X, _V = _normal(4, 5), 3 * _normal(5)
_ALPHA = _normal(5).exp()
_THETA, _S = _normal(3, 2), _normal(3).exp()
_NOISE_COV = _normal(3, 3)
_NOISE_COV = _NOISE_COV @ _NOISE_COV.T
_DRAWS = 1 + _normal(7, 3)


class _LargestTensor(TorchFunctionMode):
    """Remembers the number of entries of the largest tensor that any operation returns."""

    def __init__(self) -> None:
        super().__init__()
        self.numel = 0

    def __torch_function__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if isinstance(result, Tensor):
            self.numel = max(self.numel, result.numel())
        return result


def _largest(answer, *arguments: Tensor) -> int:
    with _LargestTensor() as largest:
        answer(*arguments)
    return largest.numel


def _prior_cost(beta: Tensor) -> Tensor:
    """The part of equation (11) that depends on beta, for each weight."""
    second_moment = _THETA.square() * (1 + _S[:, None])
    return (beta * second_moment - beta.log()) / 2


def _is_smallest(answer) -> bool:
    beta = answer(_THETA, _S)
    return all(
        bool((_prior_cost(factor * beta) > _prior_cost(beta)).all()) for factor in (0.9, 1.1)
    )


def _sample_covariance(theta: Tensor, factors: Tensor) -> Tensor:
    """Covariance of the weights over a list of equally likely factors ``(S, K)``."""
    weights = (factors[:, :, None] * theta).flatten(1)
    return torch.cov(weights.T, correction=0)


EXERCISES = (
    Exercise(
        number="10.1",
        title="a reflection without its matrix",
        solution=mirror,
        probe=lambda answer: answer(_X, _V),
        checks={
            "it is (1) times every row": Check(
                lambda answer: close(answer(_X, _V), _X @ orthogonal_matrix(_V[None]).T),
                "x − 2 (v·x)/|v|² v, with one v·x for each row",
            ),
            "lengths stay as they are": Check(
                lambda answer: close(answer(_X, _V).norm(dim=1), _X.norm(dim=1)),
                "divide by v·v, which is |v| squared",
            ),
            "v itself is turned round": Check(
                lambda answer: close(answer(_V[None], _V), -_V[None]),
                "what is parallel to v is subtracted twice, not once",
            ),
            "no tensor on the way is larger than x, or than v": Check(
                lambda answer: (
                    _largest(answer, _X[:, :1].expand(4, 300), _V[0].expand(300)) <= 1200
                ),
                "no K×K matrix: first the numbers x @ v, then their multiples of v",
            ),
        },
        known_errors=(
            KnownError(
                lambda x, v: x - 2 * (x @ v)[:, None] * v / v.norm(),
                "this divides by |v|, not by |v|². It is right only while v has length 1.",
            ),
            KnownError(
                lambda x, v: x - 2 * (x @ v)[:, None] * v, "the division by |v|² is missing."
            ),
            KnownError(
                lambda x, v: x - (x @ v)[:, None] * v / (v @ v),
                "without the 2 this is a projection onto the mirror: it deletes what is parallel "
                "to v, and cannot be undone.",
            ),
            KnownError(
                lambda x, v: 2 * (x @ v)[:, None] * v / (v @ v) - x,
                "this is −H: it keeps v and turns the mirror round.",
            ),
            KnownError(
                lambda x, v: x @ orthogonal_matrix(v[None]),
                "right, but with a K×K matrix: for 4096 units that is 16 million numbers for each "
                "reflection, where 4096 do.",
            ),
        ),
        hints=(
            "Which one number of each row do you need?",
            "x @ v has shape (N,). Give it a second axis before it multiplies v.",
            "x - 2 * (x @ v)[:, None] * v / (v @ v)",
        ),
    ),
    Exercise(
        number="10.2",
        title="variances after one reflection",
        solution=unit_variances,
        probe=lambda answer: answer(_ALPHA, _V),
        checks={
            "they are the diagonal of H diag(alpha) H": agrees(
                lambda answer: answer(_ALPHA, _V),
                orthogonal_matrix(_V[None]).square() @ _ALPHA,
                "multiply out Σ_k α_k H_ik² with H_ik = δ_ik − 2 u_i u_k",
            ),
            "their sum is that of alpha": Check(
                lambda answer: close(answer(_ALPHA, _V).sum(), _ALPHA.sum()),
                "a rotation keeps the trace; is a 4 missing?",
            ),
            "equal alphas stay as they are": Check(
                lambda answer: close(answer(0 * _ALPHA + 0.3, _V), 0 * _ALPHA + 0.3),
                "H (0.3 I) H = 0.3 I",
            ),
            "no tensor on the way has more than K entries": Check(
                lambda answer: _largest(answer, _ALPHA.repeat(20), _V.repeat(20)) <= 100,
                "v.square() and two sums are all you need",
            ),
        },
        known_errors=(
            KnownError(
                lambda alpha, v: alpha * (1 - 2 * v.square() / (v @ v)).square(),
                "this squares the diagonal of H. The noise that unit i takes over from the others "
                "is missing: the off-diagonal of H.",
            ),
            KnownError(
                lambda alpha, v: (
                    alpha - 4 * alpha * v.square() + 4 * v.square() * (alpha * v.square()).sum()
                ),
                "v has no unit length here. Divide v² by v·v first.",
            ),
            KnownError(
                lambda alpha, v: (alpha + unit_variances(alpha, v)) / 2,
                "the factors must be 4: (δ − 2 u u)² has the terms −4 δ u² and 4 u⁴.",
            ),
            KnownError(
                lambda alpha, v: orthogonal_matrix(v[None]).square() @ alpha,
                "right, but with the K×K matrix H: K² numbers where K do.",
            ),
            KnownError(
                lambda alpha, v: rotated_variance(alpha, v[None] / v.norm()).mean().expand(len(v)),
                "this is the mean of the alphas in every place: a perfect mixing, which this "
                "reflection does not do.",
            ),
        ),
        hints=(
            "s_i = Σ_k α_k (δ_ik − 2 u_i u_k)². Multiply out the square.",
            "δ² gives α_i, the mixed term −4 α_i u_i², the last 4 u_i² Σ_k α_k u_k².",
            "u2 = v.square() / (v @ v); alpha - 4 * alpha * u2 + 4 * u2 * (alpha * u2).sum()",
        ),
    ),
    Exercise(
        number="10.3",
        title="the prior that charges least",
        solution=best_beta,
        probe=lambda answer: answer(_THETA, _S),
        checks={
            "ten per cent more or less costs more, for every weight": Check(
                _is_smallest, "differentiate (11) with respect to one beta"
            ),
            "under it every weight has the second moment that it has under q": agrees(
                lambda answer: 1 / answer(_THETA, _S),
                _THETA.square() + _THETA.square() * _S[:, None],
                "E w² is the mean squared plus the variance θ² s",
            ),
            "weights ten times as large get a hundredth of the precision": Check(
                lambda answer: close(answer(10 * _THETA, _S), answer(_THETA, _S) / 100),
                "1 + s knows nothing of theta; θ² does",
            ),
        },
        known_errors=(
            KnownError(
                lambda theta, s: theta.square() * (1 + s[:, None]),
                "this is the prior's variance; the precision is its inverse.",
            ),
            KnownError(
                lambda theta, s: 1 / (theta.square() * s[:, None]),
                "this is one over the variance of w under q. The prior has mean 0, so it must also "
                "cover the mean: E w² = θ² (1 + s).",
            ),
            KnownError(
                lambda theta, s: 1 / (theta.abs() * (1 + s[:, None])), "theta enters squared."
            ),
            KnownError(
                lambda theta, s: 1 / (theta.square() * (1 + s[:, None].sqrt())),
                "s is already a variance; no square root.",
            ),
        ),
        hints=(
            "For one weight (11) is ½ (β θ² (1 + s) − log β) plus what does not depend on β.",
            "Its derivative is ½ (θ² (1 + s) − 1/β).",
            "1 / (theta.square() * (1 + s[:, None]))",
        ),
    ),
    Exercise(
        number="10.4",
        title="the law that is drawn",
        solution=weight_covariance,
        probe=lambda answer: answer(_THETA, _NOISE_COV),
        checks={
            "it is the covariance of diag(xi) theta": agrees(
                lambda answer: answer(_THETA, torch.cov(_DRAWS.T, correction=0)),
                _sample_covariance(_THETA, _DRAWS),
                "Cov[w_ij, w_kl] = θ_ij Cov[ξ_i, ξ_k] θ_kl, also for two different columns",
            ),
            "its diagonal has the variances θ² s": agrees(
                lambda answer: answer(_THETA, _NOISE_COV).diagonal(),
                (_THETA.square() * _NOISE_COV.diagonal()[:, None]).flatten(),
                "the order is that of theta.flatten(): row after row",
            ),
            "its rank is K, not KQ": Check(
                lambda answer: int(torch.linalg.matrix_rank(answer(_THETA, _NOISE_COV))) == 3,
                "K random numbers drive all the weights",
            ),
        },
        known_errors=(
            KnownError(
                lambda theta, noise_cov: (
                    weight_covariance(theta, noise_cov)
                    * torch.eye(theta.shape[1], dtype=theta.dtype).repeat(len(theta), len(theta))
                ),
                "here the columns are independent. That is q*, the law that the objective charges "
                "for, of rank KQ. What is drawn shares one ξ between all columns.",
            ),
            KnownError(
                lambda theta, noise_cov: weight_covariance(theta, torch.diag(noise_cov.diagonal())),
                "here different rows are independent: the covariances of ξ were left out. That is "
                "plain variational dropout.",
            ),
            KnownError(
                lambda theta, noise_cov: torch.einsum(
                    "ij,ik,kl->jilk", theta, noise_cov, theta
                ).reshape(theta.numel(), theta.numel()),
                "right numbers in the order of theta.T.flatten(): column after column.",
            ),
        ),
        hints=(
            "Write Cov[w_ij, w_kl] for w_ij = ξ_i θ_ij. Which of the four indices does ξ see?",
            "An einsum with four output indices, then a reshape to KQ × KQ.",
            'torch.einsum("ij,ik,kl->ijkl", theta, noise_cov, theta)',
        ),
    ),
)
