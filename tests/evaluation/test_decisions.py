import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bdl_lessons.evaluation import ABSTAIN, chow_threshold, decide, mean_cost, risk_coverage
from tests.draws import normal

COARSE = st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=1, max_size=12)


@pytest.mark.parametrize(
    ("error", "abstaining", "right"),
    [(1.0, 0.2, 0.0), (10.0, 1.0, 0.0), (5.0, 2.0, -3.0), (1.0, 1.5, 0.0), (1.0, -0.5, 0.0)],
)
def test_chow_abstains_exactly_where_it_is_cheaper_in_expectation(error, abstaining, right):
    threshold = chow_threshold(error, abstaining, right)
    for p in torch.linspace(0, 1, 101).tolist():
        answering = right * p + error * (1 - p)
        if abs(answering - abstaining) > 1e-9:
            assert (p >= threshold) == (answering < abstaining)


def test_no_other_decision_has_a_smaller_expected_cost_under_the_probabilities():
    probs = (2 * normal(40, 3)).softmax(-1)
    decisions = decide(probs, chow_threshold(4, 1, -1))
    classes = torch.tensor([ABSTAIN, 0, 1, 2])
    for p, decision in zip(probs, decisions, strict=True):
        expected = {}
        for candidate in classes:
            costs = [
                mean_cost(candidate[None], torch.tensor([label]), 4, 1, -1) for label in range(3)
            ]
            expected[candidate.item()] = (p * torch.tensor(costs)).sum().item()
        assert expected[decision.item()] == pytest.approx(min(expected.values()))


def test_costs_of_every_combination_add_up():
    y = torch.tensor([0, 1])
    price = {"right": -2.0, "error": 7.0, "abstained": 0.5}
    for pair in itertools.product([ABSTAIN, 0, 1], repeat=2):
        kinds = [
            "abstained" if answer == ABSTAIN else "right" if answer == label else "error"
            for answer, label in zip(pair, y.tolist(), strict=True)
        ]
        expected = sum(price[kind] for kind in kinds) / 2
        found = mean_cost(torch.tensor(pair), y, 7.0, 0.5, -2.0)
        assert found == pytest.approx(expected)


@given(examples=COARSE)
def test_risk_and_coverage_are_their_definitions_with_ties_too(examples):
    confidence = torch.tensor([score for score, _ in examples], dtype=torch.float64)
    correct = torch.tensor([is_right for _, is_right in examples])
    curve = risk_coverage(confidence, correct)
    for threshold, coverage, risk in zip(*curve, strict=True):
        answered = confidence >= threshold
        assert coverage == pytest.approx(answered.double().mean())
        assert risk == pytest.approx((~correct)[answered].double().mean())
    assert curve.threshold.tolist() == sorted(confidence.tolist(), reverse=True)
    assert curve.area == pytest.approx(curve.risk.mean())


def test_a_perfect_ranking_has_the_smallest_area_and_a_reversed_one_the_largest():
    correct = torch.tensor([True] * 6 + [False] * 2)
    areas = {
        order: risk_coverage(torch.tensor(order, dtype=torch.float64), correct).area
        for order in [tuple(range(8, 0, -1)), tuple(range(8)), (3, 8, 1, 6, 2, 7, 5, 4)]
    }
    perfect, reverse, mixed = areas.values()
    assert perfect < mixed < reverse
    assert perfect == pytest.approx((1 / 7 + 2 / 8) / 8)


def test_the_name_of_what_is_wrong_is_told():
    with pytest.raises(ValueError, match="cost_of_error must be above cost_of_right, got 0"):
        chow_threshold(0, 1)
    with pytest.raises(ValueError, match=r"logits.softmax"):
        decide(torch.tensor([[2.0, -1.0]]), 0.5)
    with pytest.raises(TypeError, match="correct must be of bool"):
        risk_coverage(torch.ones(2), torch.ones(2))
    with pytest.raises(ValueError, match="from -1 on"):
        mean_cost(torch.tensor([-2]), torch.tensor([0]), 1, 0.2)
