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
    thresholds = [*sorted({*known, *other}), math.inf]
    tpr = [sum(s >= t for s in known) / len(known) for t in thresholds]
    fpr = [sum(s >= t for s in other) / len(other) for t in thresholds]
    wins = [(a > b) + 0.5 * (a == b) for a in known for b in other]
    return (
        min(f for t, f in zip(tpr, fpr, strict=True) if t >= 0.95 - 1e-12),
        min((1 - t + f) / 2 for t, f in zip(tpr, fpr, strict=True)),
        sum(wins) / len(wins),
        average_precision(known, other),
        average_precision([-s for s in other], [-s for s in known]),
    )


def average_precision(positive, negative):
    """Precision at each threshold, weighted with the recall that it adds; from counts."""
    area, before = 0.0, 0
    for threshold in sorted({*positive}, reverse=True):
        true = sum(s >= threshold for s in positive)
        false = sum(s >= threshold for s in negative)
        area += (true - before) / len(positive) * true / (true + false)
        before = true
    return area


@settings(max_examples=40)
@example(known=[0.0] + [2.0] * 19, other=[1.0])  # a threshold of 2 keeps 95 % exactly
@given(known=COARSE, other=COARSE)
def test_every_measure_is_its_definition_with_ties_too(known, other):
    assert tuple(ood_metrics(scores(known), scores(other))) == pytest.approx(by_hand(known, other))
