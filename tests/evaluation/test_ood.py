import math

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bdl_lessons.evaluation import ood_metrics

COARSE = st.lists(st.integers(0, 5).map(float), min_size=1, max_size=12)  # many ties


def scores(values):
    return torch.tensor(values, dtype=torch.float64)


def by_hand(known, other):
    """The definitions, threshold by threshold and pair by pair."""
    fprs = []
    errors = []
    for threshold in [*sorted({*known, *other}), math.inf]:
        tpr = share_above(known, threshold)
        fpr = share_above(other, threshold)
        errors.append((1 - tpr + fpr) / 2)
        if tpr >= 0.95 - 1e-12:
            fprs.append(fpr)
    wins = [(a > b) + 0.5 * (a == b) for a in known for b in other]
    auroc = sum(wins) / len(wins)
    aupr_in = average_precision(known, other)
    aupr_out = average_precision([-score for score in other], [-score for score in known])
    return min(fprs), min(errors), auroc, aupr_in, aupr_out


def share_above(values, threshold):
    return sum(value >= threshold for value in values) / len(values)


def average_precision(positive, negative):
    """Precision at each threshold, weighted with the recall that it adds; from counts."""
    area = 0.0
    recall_before = 0.0
    for threshold in sorted({*positive}, reverse=True):
        n_true = sum(value >= threshold for value in positive)
        n_false = sum(value >= threshold for value in negative)
        precision = n_true / (n_true + n_false)
        recall = n_true / len(positive)
        area += (recall - recall_before) * precision
        recall_before = recall
    return area


@settings(max_examples=40)
@example(known=[0.0] + [2.0] * 19, other=[1.0])  # a threshold of 2 keeps 95 % exactly
@given(known=COARSE, other=COARSE)
def test_every_measure_is_its_definition_with_ties_too(known, other):
    assert tuple(ood_metrics(scores(known), scores(other))) == pytest.approx(by_hand(known, other))
