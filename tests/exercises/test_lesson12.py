"""What wrong answers of lesson 12 are told: the mistake that was made, or nothing."""

import math

import pytest
import torch

from bdl_lessons.exercises.grader import find, grade
from bdl_lessons.exercises.lesson12 import best_weights, splits_needed, uninformative


def failed(report):
    return [line[5:].partition(":")[0] for line in report.lines if line.startswith("no")]


def at_least_one(gap, std, fraction):
    room = (gap / (2 * std)) ** 2 - fraction / (1 - fraction)
    return float(math.ceil(1 / room)) if room > 0 else math.inf


@pytest.mark.parametrize(
    "answer",
    [
        at_least_one,
        lambda gap, std, fraction: splits_needed((2 * gap * std) ** 0.5, std, fraction),
        lambda gap, std, fraction: splits_needed(gap, std, fraction / (1 + 2 * fraction)),
    ],
    ids=["one split", "not squared", "f over 1 + f"],
)
def test_an_infinite_answer_makes_no_other_a_matter_of_rounding(answer):
    report = grade(find("12.4"), answer)
    assert not report.solved
    assert report.diagnosis is None


def test_a_mistake_is_recognised_in_float32_and_rounding_alone_is_told_as_that():
    def exchanged(n_known, n_ood):
        return uninformative(n_ood, n_known).float()

    assert grade(find("12.1"), exchanged).diagnosis.startswith("the two AUPR are exchanged")
    assert grade(find("12.1"), lambda a, b: uninformative(a, b).float()).solved
    rounded = grade(find("12.2"), lambda errors: best_weights(errors).float())
    assert rounded.diagnosis.startswith("only the first digits are right")


def test_a_negative_weight_is_not_cut_off():
    def cut(errors):
        weights = best_weights(errors).clamp(min=0)
        return weights / weights.sum()

    report = grade(find("12.2"), cut)
    assert [claim[:26] for claim in failed(report)] == ["a weight may be negative"]


def by_logsumexp(first, second, n_test, n_train, *, log_draws=True, correction=0):
    scores = [m.logsumexp(1) - log_draws * math.log(m.shape[1]) for m in (first, second)]
    gaps = (scores[0] - scores[1]).mean(1)
    error = torch.sqrt(gaps.var(correction=correction) * (1 / len(gaps) + n_test / n_train))
    return torch.stack([gaps.mean(), error])


def test_the_number_of_splits_in_the_variance_is_recognised_and_nothing_else_is_blamed():
    report = grade(find("12.3"), by_logsumexp)
    assert report.diagnosis.startswith("the variance is still divided by the number of splits")
    assert failed(report) == ["it is the package's paired difference"]


def test_a_forgotten_number_of_draws_is_told_what_is_missing():
    def answer(*args):
        return by_logsumexp(*args, log_draws=False, correction=1)

    (line,) = (line for line in grade(find("12.3"), answer).lines if line.startswith("no"))
    assert "logsumexp over draws minus log S" in line
