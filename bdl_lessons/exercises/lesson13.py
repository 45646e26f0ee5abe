"""Exercises of lesson 13: chance level, best weights, a comparison, how many splits."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from bdl_lessons.evaluation import ood_metrics, paired_difference
from bdl_lessons.exercises.grader import Criterion, Exercise, KnownError, agrees, close, normals


def uninformative(n_known: int, n_ood: int) -> Tensor:
    """FPR95, AUROC, AUPR for the known and for the OOD inputs of a random score, ``(4,)``.

    The same share of both kinds passes any threshold. Among those that pass, the known inputs have
    their share of all inputs: that is the precision, at every threshold.
    """
    share = n_known / (n_known + n_ood)
    return torch.tensor([0.95, 0.5, share, 1 - share], dtype=torch.float64)


def best_weights(errors: Tensor) -> Tensor:
    """The weights of sum 1 with the smallest mean squared error of the weighted mean.

    ``errors`` is ``(networks, examples)``. With the matrix A of mean products of errors the mean
    squared error is w' A w; Lagrange's condition A w = constant gives w, up to its sum.
    """
    products = errors @ errors.T / errors.shape[1]
    ones = torch.ones(len(errors), dtype=errors.dtype)
    weights = torch.linalg.solve(products, ones)
    return weights / weights.sum()


def comparison(first: Tensor, second: Tensor, n_test: int, n_train: int) -> Tensor:
    """Mean difference of two log likelihoods (1) and its error (2), ``(2,)``.

    ``first`` and ``second`` hold log densities ``(splits, S, n_test)``.
    """

    def score(log_p: Tensor) -> Tensor:
        log_mean = log_p.logsumexp(1) - math.log(log_p.shape[1])
        return log_mean.mean(1)

    gaps = score(first) - score(second)
    error = torch.sqrt(gaps.var() * (1 / len(gaps) + n_test / n_train))
    return torch.stack([gaps.mean(), error])


def splits_needed(gap: float, std: float, test_fraction: float) -> float:
    """The smallest number of splits, at least 2, at which ``gap`` is two errors (2), or infinity.

    ``std`` is the standard deviation of the differences; ``test_fraction`` of all examples is
    tested.
    """
    room = (gap / (2 * std)) ** 2 - test_fraction / (1 - test_fraction)
    if room <= 0:
        return math.inf
    return max(2.0, float(math.ceil(1 / room)))


_normal = normals(12)
_SCORES_OF_KNOWN, _SCORES_OF_OOD = _normal(2, 20_000)
_ERROR_SIZES = torch.tensor([[1.0], [1.6], [2.5]], dtype=torch.float64)
_ERRORS = _ERROR_SIZES * _normal(3, 40) + 1.2 * _normal(40)
_INDEPENDENT = torch.tensor([[2.0, -2.0, 0.0, 0.0], [0.0, 0.0, 4.0, -4.0]], dtype=torch.float64)
_WITH_BIAS = torch.tensor([[1.0, 1.0], [1.0, -1.0]], dtype=torch.float64)
_CORRELATED = torch.tensor([[1.0, -1.0, 0.0, 0.0], [2.0, -2.0, 1.0, -1.0]], dtype=torch.float64)
_DIFFICULTY = 6 * _normal(5, 1, 1)
_FIRST, _SECOND = 1.5 * _normal(2, 5, 4, 3) - 2
_PILOTS = (  # gap, std and test_fraction
    (0.3, 0.2, 0.1),
    (0.3, 0.4, 0.1),
    (0.1, 0.12, 0.1),
    (1.0, 0.9, 0.5),
    (5.0, 0.1, 0.2),
)


def _simulated(n_known: int, n_ood: int) -> list[float]:
    """What the package measures for a score of random numbers."""
    measured = ood_metrics(_SCORES_OF_KNOWN[:n_known], _SCORES_OF_OOD[:n_ood])
    return [measured.fpr_at_95_tpr, measured.auroc, measured.aupr_in, measured.aupr_out]


def _with_fpr(fpr_at_95_tpr: float, n_known: int, n_ood: int) -> Tensor:
    """The right numbers, but for the FPR95."""
    auroc_and_aupr = uninformative(n_known, n_ood)[1:]
    return torch.cat([torch.tensor([fpr_at_95_tpr], dtype=torch.float64), auroc_and_aupr])


def _with_share_as_auroc(n_known: int, n_ood: int) -> Tensor:
    share = n_known / (n_known + n_ood)
    return torch.tensor([0.95, share, share, share], dtype=torch.float64)


def _gradient(weights: Tensor) -> Tensor:
    """Of half the mean squared error on ``_ERRORS``; at the optimum all entries are equal."""
    return _ERRORS @ (weights @ _ERRORS) / _ERRORS.shape[1]


def _weights_of_covariance(errors: Tensor) -> Tensor:
    """The weights with the smallest variance of the weighted mean."""
    weights = torch.linalg.solve(torch.cov(errors), errors.new_ones(len(errors)))
    return weights / weights.sum()


def _reported(first: Tensor, second: Tensor, test_fraction: float) -> list[float]:
    """The package's paired difference of densities that are averaged one by one."""

    def scores(log_p: Tensor) -> np.ndarray:
        density = log_p.exp().mean(1)
        return density.log().mean(1).numpy()

    difference = paired_difference(scores(first), scores(second), test_fraction=test_fraction)
    return [difference.mean, difference.corrected_std_error]


def _log_mean_likelihood(log_p: Tensor) -> Tensor:
    """Log likelihood (1) of each split."""
    log_mean = log_p.logsumexp(1) - math.log(log_p.shape[1])
    return log_mean.mean(1)


def _mean_log_likelihood(log_p: Tensor) -> Tensor:
    """The expected log likelihood of one random draw, for each split."""
    return log_p.mean((1, 2))


def _joint_log_likelihood(log_p: Tensor) -> Tensor:
    """The joint log likelihood of all test examples over their number, for each split."""
    n_draws, n_test = log_p.shape[1:]
    return (log_p.sum(2).logsumexp(1) - math.log(n_draws)) / n_test


def _wrong_comparison(
    first: Tensor,
    second: Tensor,
    n_test: float,
    n_train: float,
    score=_log_mean_likelihood,
    paired: bool = True,
) -> Tensor:
    """The comparison with some of its mistakes left."""
    first_scores = score(first)
    second_scores = score(second)
    gaps = first_scores - second_scores
    var = gaps.var() if paired else first_scores.var() + second_scores.var()
    error = torch.sqrt(var * (1 / len(gaps) + n_test / n_train))
    return torch.stack([gaps.mean(), error])


def _is_two_errors(gap: float, std: float, test_fraction: float, n_splits: float) -> bool:
    """Whether ``gap`` is at least two errors with so many splits."""
    error = std * math.sqrt(1 / n_splits + test_fraction / (1 - test_fraction))
    return gap >= 2 * error


def _is_smallest(answer) -> bool:
    for gap, std, test_fraction in _PILOTS[:2]:
        n_splits = answer(gap, std, test_fraction)
        if not float(n_splits).is_integer():
            return False
        if not _is_two_errors(gap, std, test_fraction, n_splits):
            return False
        if _is_two_errors(gap, std, test_fraction, n_splits - 1):
            return False
    return True


def _splits_with_room(room: float, rounded: Callable[[float], int]) -> float:
    """The number of splits where the inverse of ``room`` is rounded."""
    return max(2.0, float(rounded(1 / room))) if room > 0 else math.inf


EXERCISES = (
    Exercise(
        number="13.1",
        title="predict what a coin would score",
        kind="predict",
        solution=uninformative,
        probe=lambda answer: answer(3000, 1000),
        criteria=(
            Criterion(
                "measured: 15,000 known and 5,000 OOD inputs with random scores",
                lambda answer: close(answer(15_000, 5000), _simulated(15_000, 5000), atol=0.03),
                advice=(
                    "at any threshold the same share of both kinds passes. What follows for each "
                    "of the four numbers?"
                ),
            ),
            Criterion(
                "measured: 2,000 known and 18,000 OOD inputs",
                lambda answer: close(answer(2000, 18_000), _simulated(2000, 18_000), atol=0.06),
                advice="only two of the four numbers depend on how many there are of each kind",
            ),
            Criterion(
                "as many of each kind: 0.95, and three times one half",
                agrees(lambda answer: answer(500, 500), [0.95, 0.5, 0.5, 0.5], atol=1e-6),
                advice="these are the exact values for very many inputs",
            ),
            Criterion(
                "exchange the kinds, and the two AUPR change places",
                agrees(
                    lambda answer: answer(700, 300),
                    lambda answer: answer(300, 700)[[0, 1, 3, 2]],
                    atol=1e-6,
                ),
                advice="the precision for one kind is its share of all inputs",
            ),
        ),
        known_errors=(
            KnownError(
                lambda n_known, n_ood: torch.tensor([0.95, 0.5, 0.5, 0.5]).double(),
                diagnosis=(
                    "an AUPR is not ½ for a coin, unless both kinds are equally frequent. Which "
                    "share of the inputs that pass is known?"
                ),
            ),
            KnownError(
                lambda n_known, n_ood: uninformative(n_ood, n_known),
                diagnosis=(
                    "the two AUPR are exchanged: the more known inputs, the larger that for the "
                    "known."
                ),
            ),
            KnownError(
                lambda n_known, n_ood: _with_fpr(0.05, n_known, n_ood),
                diagnosis=(
                    "FPR95 is the share of OOD inputs that *pass* when 95 % of the known pass."
                ),
            ),
            KnownError(
                lambda n_known, n_ood: _with_fpr(0.5, n_known, n_ood),
                diagnosis="FPR95 is not taken at the threshold at which half of the inputs pass.",
            ),
            KnownError(
                _with_share_as_auroc,
                diagnosis=(
                    "the AUROC compares pairs of one known and one OOD input: it does not depend "
                    "on how many there are of each kind."
                ),
            ),
        ),
        hints=(
            "A random score lets the same share of both kinds pass, whatever the threshold.",
            "So FPR95 = TPR = 0.95, and a known input wins half of the comparisons.",
            "The precision is n_known / (n_known + n_ood) at every threshold, and so is its mean.",
        ),
    ),
    Exercise(
        number="13.2",
        title="the best weights of an ensemble",
        kind="derive",
        solution=best_weights,
        probe=lambda answer: answer(_ERRORS),
        criteria=(
            Criterion(
                "the weights have sum 1",
                agrees(lambda answer: answer(_ERRORS).sum(), 1.0),
                advice="divide by the sum at the end",
            ),
            Criterion(
                "no other weights of sum 1 have a smaller squared error",
                lambda answer: _gradient(answer(_ERRORS)).std() < 1e-9,
                advice=(
                    "write the mean squared error as w' A w and set its derivative to a constant"
                ),
            ),
            Criterion(
                "two independent networks: inverse to their mean squared errors",
                agrees(lambda answer: answer(_INDEPENDENT), [0.8, 0.2]),
                advice="with errors that do not correlate, A is diagonal",
            ),
            Criterion(
                "a bias counts: errors (1, 1) and (1, −1) get one half each",
                agrees(lambda answer: answer(_WITH_BIAS), [0.5, 0.5]),
                advice=(
                    "take mean products of the errors, not their covariance: a bias is an error too"
                ),
            ),
            Criterion(
                "a weight may be negative: errors (1, −1, 0, 0) and (2, −2, 1, −1)",
                agrees(lambda answer: answer(_CORRELATED), [1.5, -0.5]),
                advice="keep a negative weight: the worse network then corrects the better one",
            ),
        ),
        known_errors=(
            KnownError(
                lambda errors: torch.full((len(errors),), 1 / len(errors)).to(errors),
                diagnosis=(
                    "equal weights are best if the networks are equally good and correlate alike. "
                    "These are not."
                ),
            ),
            KnownError(
                lambda errors: torch.softmax(-errors.square().mean(1).log(), 0),
                diagnosis=(
                    "inverse to the squared errors is right if errors do not correlate. These do."
                ),
            ),
            KnownError(
                lambda errors: torch.linalg.solve(errors @ errors.T, errors.new_ones(len(errors))),
                diagnosis="the direction is right; the sum of the weights is not 1.",
            ),
            KnownError(
                _weights_of_covariance,
                diagnosis=(
                    "this is the smallest *variance*. A network with a bias has errors that a "
                    "covariance does not see."
                ),
            ),
        ),
        hints=(
            "The mean squared error of the weighted mean is w' A w, with A the matrix of the mean "
            "products of errors.",
            "Minimise w' A w − 2 λ (1' w − 1): the derivative says A w = λ 1.",
            "Solve A w = 1 and divide by the sum of w.",
        ),
    ),
    Exercise(
        number="13.3",
        title="repair a comparison",
        kind="debug",
        solution=comparison,
        probe=lambda answer: answer(_FIRST, _SECOND, 3, 12),
        criteria=(
            Criterion(
                "it is the package's paired difference",
                agrees(
                    lambda answer: answer(_FIRST, _SECOND, 3, 12),
                    _reported(_FIRST, _SECOND, test_fraction=0.2),
                ),
                advice="take (1) and (2) symbol by symbol; n_test over n_train is 1/4 here",
            ),
            Criterion(
                "what makes a split hard for both methods cancels",
                agrees(
                    lambda answer: answer(_FIRST + _DIFFICULTY, _SECOND + _DIFFICULTY, 3, 12),
                    lambda answer: answer(_FIRST, _SECOND, 3, 12),
                ),
                advice="form the differences split by split before you take a variance",
            ),
            Criterion(
                "the score is that of the averaged density",
                agrees(
                    lambda answer: answer(_FIRST, _FIRST[:, :1], 3, 12)[0],
                    _reported(_FIRST, _FIRST[:, :1], test_fraction=0.2)[0],
                ),
                advice=(
                    "average the densities, then take the logarithm: logsumexp over draws minus "
                    "log S"
                ),
            ),
            Criterion(
                "log densities smaller by 2000 change nothing",
                agrees(
                    lambda answer: answer(_FIRST - 2000, _SECOND - 2000, 3, 12),
                    lambda answer: answer(_FIRST, _SECOND, 3, 12),
                    atol=1e-6,
                ),
                advice=(
                    "exp(−2000) is 0 in floating point; torch.logsumexp does not leave the "
                    "logarithms"
                ),
            ),
        ),
        known_errors=(
            KnownError(
                lambda first, second, n_test, n_train: _wrong_comparison(
                    first, second, n_test, n_train, score=_mean_log_likelihood
                ),
                diagnosis=(
                    "the logarithms are still averaged over the draws. That is the expected score "
                    "of one random network; (1) averages densities."
                ),
            ),
            KnownError(
                lambda first, second, n_test, n_train: _wrong_comparison(
                    first, second, n_test, n_train, paired=False
                ),
                diagnosis=(
                    "the variances of both methods are still added, as if they had seen different "
                    "splits. Use the variance of the differences."
                ),
            ),
            KnownError(
                lambda first, second, n_test, n_train: _wrong_comparison(
                    first, second, n_test, n_train=n_test + n_train
                ),
                diagnosis="n_test is still divided by all examples; (2) has n_test over n_train.",
            ),
            KnownError(
                lambda first, second, n_test, n_train: (
                    comparison(first, second, n_test, n_train)
                    * torch.tensor([1, math.sqrt(1 - 1 / len(first))], dtype=torch.float64)
                ),
                diagnosis=(
                    "the variance is still divided by the number of splits; divide by one less."
                ),
            ),
            KnownError(
                lambda first, second, n_test, n_train: _wrong_comparison(
                    first, second, n_test, n_train, score=_joint_log_likelihood
                ),
                diagnosis=(
                    "this is the joint likelihood of all test examples under one draw, as in the "
                    "bug above. Average the densities of each example over the draws, and only "
                    "then take the mean over examples."
                ),
            ),
        ),
        hints=(
            "One mistake is in the score, three are in the error.",
            "Score: logsumexp over the draws minus log S, then the mean over examples. Error: the "
            "variance of the differences, with M − 1 in its denominator.",
            "gaps = scores[0] − scores[1]; gaps.var() * (1 / len(gaps) + n_test / n_train).",
        ),
    ),
    Exercise(
        number="13.4",
        title="how many splits?",
        kind="design",
        solution=splits_needed,
        probe=lambda answer: [answer(gap, std, fraction) for gap, std, fraction in _PILOTS],
        criteria=(
            Criterion(
                "with so many splits the gap is two errors, with one less it is not",
                _is_smallest,
                advice="solve gap = 2 std sqrt(1/M + n_test/n_train) for M and round up",
            ),
            Criterion(
                "below the floor of (2) no number is enough: infinity",
                agrees(
                    lambda answer: [1 / answer(0.1, 0.3, 0.1), 1 / answer(0.19, 0.3, 0.1)],
                    [0.0, 0.0],
                ),
                advice="as M grows, the error does not go to 0 but to std sqrt(n_test / n_train)",
            ),
            Criterion(
                "an obvious gap: two splits, the least that give a standard deviation",
                agrees(lambda answer: answer(5.0, 0.1, 0.2), 2.0),
                advice="return at least 2",
            ),
        ),
        known_errors=(
            KnownError(
                lambda gap, std, fraction: _splits_with_room((gap / (2 * std)) ** 2, math.ceil),
                diagnosis=(
                    "this is the number for independent splits. The term n_test / n_train is "
                    "missing."
                ),
            ),
            KnownError(
                lambda gap, std, fraction: _splits_with_room(
                    (gap / (2 * std)) ** 2 - fraction, math.ceil
                ),
                diagnosis="(2) has n_test over n_train, that is f / (1 − f), and not f.",
            ),
            KnownError(
                lambda gap, std, fraction: _splits_with_room(
                    (gap / (2 * std)) ** 2 - fraction / (1 - fraction), math.floor
                ),
                diagnosis="round up: with the whole number below, the gap is less than two errors.",
            ),
            KnownError(
                lambda gap, std, fraction: splits_needed(2 * gap, std, fraction),
                diagnosis="this is the number for a gap of one error; two are asked for.",
            ),
        ),
        hints=(
            "Write gap ≥ 2 std sqrt(1/M + f/(1 − f)) and square it.",
            "1/M ≤ (gap / (2 std))² − f/(1 − f). What if the right-hand side is not positive?",
            "math.ceil(1 / room), at least 2; math.inf if room ≤ 0.",
        ),
    ),
)
