import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from bdl_lessons.evaluation import max_log_probability, negative_entropy, ood_metrics

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


@given(COARSE, COARSE)
def test_every_measure_is_its_definition_with_ties_too(known, other):
    assert tuple(ood_metrics(scores(known), scores(other))) == pytest.approx(by_hand(known, other))


def test_two_normals_have_the_known_measures():
    generator, shift = torch.Generator().manual_seed(0), 1.3
    known = torch.randn(200_000, generator=generator, dtype=torch.float64) + shift
    other = torch.randn(100_000, generator=generator, dtype=torch.float64)
    found = ood_metrics(known, other)
    assert found.auroc == pytest.approx(norm.cdf(shift / math.sqrt(2)), abs=0.004)
    assert found.detection_error == pytest.approx(norm.cdf(-shift / 2), abs=0.004)
    assert found.fpr_at_95_tpr == pytest.approx(norm.sf(shift + norm.ppf(0.05)), abs=0.008)


def test_precision_comes_from_counts_not_rates():
    generator = torch.Generator().manual_seed(1)
    known, other = (
        torch.randn(2000, generator=generator) + 1,
        torch.randn(1000, generator=generator),
    )
    once, thrice = ood_metrics(known, other), ood_metrics(known, other.repeat(3))
    assert once[:3] == pytest.approx(thrice[:3])
    assert once.aupr_in > thrice.aupr_in + 0.05
    assert once.aupr_out < thrice.aupr_out - 0.05


@pytest.mark.parametrize(
    ("known", "other", "expected"),
    [
        ([2.0, 3.0], [0.0, 1.0], (0, 0, 1, 1, 1)),
        ([0.0, 1.0], [2.0, 3.0], (1, 0.5, 0)),
        ([0.0] * 10, [0.0] * 30, (1, 0.5, 0.5, 0.25, 0.75)),
        ([0.0] + [2.0] * 19, [1.0], (0,)),  # a threshold of 2 keeps 95 % exactly
    ],
)
def test_extremes(known, other, expected):
    found = ood_metrics(scores(known), scores(other))
    assert found[: len(expected)] == pytest.approx(expected)


def test_scores_are_highest_where_one_class_is_certain():
    logits = torch.tensor([[0.0, 0.0, 0.0], [3.0, 0.0, 0.0], [60.0, 0.0, 0.0], [80.0, 0.0, 0.0]])
    log_probs = logits.double().log_softmax(-1)
    for score in (max_log_probability(log_probs), negative_entropy(log_probs)):
        assert (score.diff()[:-1] > 0).all()
    assert negative_entropy(log_probs)[0].item() == pytest.approx(-math.log(3))
    assert max_log_probability(log_probs)[1].item() == pytest.approx(3 - math.log(math.e**3 + 2))


@pytest.mark.parametrize(
    ("known", "message"),
    [
        (torch.tensor([]), "score_in must have shape"),
        (torch.zeros(2, 2), "score_in must have shape"),
        (torch.tensor([0.0, math.nan]), "score_in must be finite"),
    ],
)
def test_bad_scores_are_refused(known, message):
    with pytest.raises(ValueError, match=message):
        ood_metrics(known, torch.zeros(2))
    with pytest.raises(TypeError, match="score_out"):
        ood_metrics(torch.zeros(2), torch.tensor([1, 2]))
