"""Exercises of lesson 12: one number per row, differences over splits, ranks, OOD inputs."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from bdl_lessons.lessons.exercises.grader import Check, Exercise, KnownError, agrees, close, normals


def log_likelihood(log_probs: Tensor) -> Tensor:
    """Equation (1): mean over rows of the log predictive density.

    ``log_probs``: ``(S, B)``, the log density of row b under draw s.
    """
    n_samples = len(log_probs)
    return (log_probs.logsumexp(0) - math.log(n_samples)).mean()


def corrected_std_error(first: Tensor, second: Tensor, test_fraction: float) -> Tensor:
    """Equation (4): the error of the mean difference over splits that share rows."""
    differences = first - second
    overlap = test_fraction / (1 - test_fraction)
    return differences.std() * math.sqrt(1 / len(differences) + overlap)


def mean_ranks(scores: Tensor) -> Tensor:
    """The mean rank of each method, ``(M,)``, from scores ``(D, M)`` on D data sets.

    Less is better, the best has rank 1, equal scores share the mean of their ranks.
    """
    mine, others = scores[:, :, None], scores[:, None, :]
    better = (others < mine).sum(-1)
    equal = (others == mine).sum(-1)
    return (better + (equal + 1) / 2).double().mean(0)


def auroc(inside: Tensor, outside: Tensor) -> Tensor:
    """The chance that a known input scores higher than a strange one; a tie counts half.

    ``inside``: ``(B,)`` scores of known inputs; ``outside``: ``(C,)`` of strange ones.
    """
    gap = inside[:, None] - outside[None, :]
    return ((gap > 0).double() + (gap == 0).double() / 2).mean()


_normal = normals(12)
_LOG_PROBS = _normal(6, 5) - 2
_FIRST, _SECOND = _normal(2, 8)
_SCORES = torch.tensor([[0.3, 0.1, 0.3, 0.7], [2.0, 1.0, 3.0, 0.5], [1.0, 1.0, 1.0, 4.0]])
_INSIDE = torch.tensor([0.9, 0.8, 0.8, 0.4])
_OUTSIDE = torch.tensor([0.8, 0.3, 0.1])

_HARD = 10 * _normal(8)


def _ordinal_ranks(scores: Tensor) -> Tensor:
    order = scores.argsort(dim=1, stable=True).argsort(dim=1, stable=True)
    return (order + 1).double().mean(0)


EXERCISES = (
    Exercise(
        number="12.1",
        title="one number per row",
        solution=log_likelihood,
        probe=lambda answer: answer(_LOG_PROBS),
        checks={
            "it is the log of the mean density, averaged over rows": Check(
                lambda answer: close(answer(_LOG_PROBS), _LOG_PROBS.exp().mean(0).log().mean()),
                "average densities over draws first, take the log, then average over rows",
            ),
            "one draw: the mean of its log densities": Check(
                lambda answer: close(answer(_LOG_PROBS[:1]), _LOG_PROBS[0].mean()),
                "with S = 1 nothing is left to average over draws",
            ),
            "the same draw twice changes nothing": agrees(
                lambda answer: answer(_LOG_PROBS.repeat(2, 1)),
                _LOG_PROBS.exp().mean(0).log().mean(),
                "divide by the number of draws: log S has to be subtracted",
            ),
            "log densities of -2000 stay finite": Check(
                lambda answer: close(answer(_LOG_PROBS - 2000) - answer(_LOG_PROBS), -2000.0, 1e-6),
                "exp(-2000) is 0 in floating point; torch.logsumexp does not leave the logs",
            ),
        },
        known_errors=(
            KnownError(
                lambda q: (q.sum(1).logsumexp(0) - math.log(len(q))) / q.shape[1],
                "you summed over the rows before averaging over the draws. That is the joint "
                "density of the whole test set, as a public implementation of SLANG computes it: "
                "another quantity, never larger than the best draw's, and not comparable.",
            ),
            KnownError(
                lambda q: q.mean(),
                "you averaged logs over the draws. By Jensen's inequality that is lower: it is "
                "the expected score of one random network, not the score of their mixture.",
            ),
            KnownError(
                lambda q: q.logsumexp(0).mean(),
                "log S is missing: the sum over draws is not yet their mean.",
            ),
            KnownError(
                lambda q: (q.logsumexp(0) - math.log(len(q))).sum(),
                "this is the sum over rows; the tables hold the mean.",
            ),
        ),
        hints=(
            "The predictive density of a row is the mean of its densities under the draws.",
            "Logs of means: torch.logsumexp over the axis of draws, minus log S.",
            "`(log_probs.logsumexp(0) - math.log(S)).mean()`",
        ),
    ),
    Exercise(
        number="12.2",
        title="the error of a difference",
        solution=corrected_std_error,
        probe=lambda answer: answer(_FIRST, _SECOND, 0.1),
        checks={
            "what makes a split hard for both cancels": agrees(
                lambda answer: answer(_FIRST + _HARD, _SECOND + _HARD, 0.1),
                lambda answer: answer(_FIRST, _SECOND, 0.1),
                "take the difference split by split before anything else",
            ),
            "differences 2, 4, 3 with one fifth tested: sqrt(1/3 + 1/4)": agrees(
                lambda answer: answer(torch.tensor([2.0, 4.0, 3.0]).double(), torch.zeros(3), 0.2),
                math.sqrt(1 / 3 + 1 / 4),
                "the sample standard deviation (n - 1) times sqrt(1/n + n_test/n_train)",
            ),
            "more splits help only down to the overlap": agrees(
                lambda answer: answer(
                    torch.tensor([1.0, -1.0]).double().repeat(5000), torch.zeros(10_000), 0.5
                ),
                1.0,
                "at n -> infinity std * sqrt(n_test / n_train) is left, not 0",
                atol=1e-3,
            ),
        },
        known_errors=(
            KnownError(
                lambda a, b, f: (a - b).std() / math.sqrt(len(a)),
                "this is the error for independent splits. They share most of their training "
                "rows; add n_test / n_train under the root.",
            ),
            KnownError(
                lambda a, b, f: (a - b).std() * math.sqrt(1 / len(a) + (1 - f) / f),
                "the ratio is upside down: n_test / n_train is small.",
            ),
            KnownError(
                lambda a, b, f: (a - b).std() * math.sqrt(1 / len(a) + f),
                "test_fraction is n_test over all rows; the formula wants n_test over n_train.",
            ),
            KnownError(
                lambda a, b, f: (a - b).std(correction=0) * math.sqrt(1 / len(a) + f / (1 - f)),
                "use the sample standard deviation: divide by n - 1.",
            ),
            KnownError(
                lambda a, b, f: (a.var() + b.var()).sqrt() * math.sqrt(1 / len(a) + f / (1 - f)),
                "these are unpaired variances. Both methods saw the same splits: use the "
                "differences.",
            ),
        ),
        hints=(
            "Form the vector of differences; everything else follows from it.",
            "If a fraction f of the rows is tested, n_test / n_train = f / (1 - f).",
            "`(first - second).std() * math.sqrt(1 / n + f / (1 - f))`",
        ),
    ),
    Exercise(
        number="12.3",
        title="mean ranks",
        solution=mean_ranks,
        probe=lambda answer: answer(_SCORES),
        checks={
            "scores 0.3, 0.1, 0.3, 0.7 have ranks 2.5, 1, 2.5, 4": Check(
                lambda answer: close(answer(_SCORES[:1]), [2.5, 1.0, 2.5, 4.0]),
                "two methods that share places 2 and 3 have rank 2.5 each",
            ),
            "ranks of M methods add up to M(M+1)/2": Check(
                lambda answer: close(answer(_SCORES).sum(), 10.0),
                "a tie must not create or lose places",
            ),
            "any increasing change of the scores leaves them": Check(
                lambda answer: close(answer(_SCORES.exp()), answer(_SCORES)),
                "ranks depend on the order alone",
            ),
        },
        known_errors=(
            KnownError(
                _ordinal_ranks,
                "equal scores got different ranks, by their place in the table. That is luck.",
            ),
            KnownError(
                lambda scores: mean_ranks(-scores),
                "rank 1 went to the largest score; less is better here.",
            ),
            KnownError(lambda scores: mean_ranks(scores) - 1, "the best method has rank 1, not 0."),
            KnownError(
                lambda scores: 1 + (scores[:, None] < scores[:, :, None]).sum(-1).double().mean(0),
                "equal scores all got the best of their places; give them the mean.",
            ),
        ),
        hints=(
            "The rank of a method is one more than the number of methods that beat it, if no "
            "two are equal.",
            "Of m equal ones each moves back by (m - 1) / 2.",
            "Compare all pairs: `scores[:, None, :] < scores[:, :, None]` counts who is better.",
        ),
    ),
    Exercise(
        number="12.4",
        title="known against strange",
        solution=auroc,
        probe=lambda answer: answer(_INSIDE, _OUTSIDE),
        checks={
            "scores that separate the two give 1": Check(
                lambda answer: close(answer(torch.tensor([0.9, 0.7]), torch.tensor([0.2])), 1.0),
                "count the pairs in which the known input scores higher",
            ),
            "a score that is always the same gives 1/2": Check(
                lambda answer: close(answer(torch.ones(4), torch.ones(3)), 0.5), "a tie counts half"
            ),
            "it does not depend on how many strange inputs there are": agrees(
                lambda answer: answer(_INSIDE, _OUTSIDE.repeat(7)),
                lambda answer: answer(_INSIDE, _OUTSIDE),
                "it is a chance over pairs: divide by the number of pairs",
            ),
        },
        known_errors=(
            KnownError(
                lambda inside, outside: auroc(outside, inside),
                "the roles are exchanged: a good score gave you less than 1/2.",
            ),
            KnownError(
                lambda inside, outside: (inside[:, None] > outside[None, :]).double().mean(),
                "ties are lost. A saturated softmax gives many scores of exactly 1: they matter.",
            ),
            KnownError(
                lambda inside, outside: (inside[:, None] >= outside[None, :]).double().mean(),
                "ties count as won. A score that never changes would look perfect.",
            ),
        ),
        hints=(
            "Compare every known input with every strange one.",
            "One for a win, one half for a tie, then the mean over all pairs.",
            "`gap = inside[:, None] - outside[None, :]`",
        ),
    ),
)
