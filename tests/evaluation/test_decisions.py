import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bdl_lessons.evaluation import ABSTAIN, chow_threshold, decide, mean_cost, risk_coverage
from tests.draws import normal

COARSE = st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=1, max_size=12)


@pytest.mark.parametrize(
    ("cost_of_error", "cost_of_abstaining", "cost_of_right"),
    [(1.0, 0.2, 0.0), (10.0, 1.0, 0.0), (5.0, 2.0, -3.0), (1.0, 1.5, 0.0), (1.0, -0.5, 0.0)],
)
def test_chow_abstains_exactly_where_it_is_cheaper_in_expectation(
    cost_of_error, cost_of_abstaining, cost_of_right
):
    threshold = chow_threshold(cost_of_error, cost_of_abstaining, cost_of_right)
    for p in torch.linspace(0, 1, 101).tolist():
        cost_of_answering = cost_of_right * p + cost_of_error * (1 - p)
        is_tie = abs(cost_of_answering - cost_of_abstaining) <= 1e-9
        if not is_tie:
            assert (p >= threshold) == (cost_of_answering < cost_of_abstaining)


def test_no_other_decision_has_a_smaller_expected_cost_under_the_probabilities():
    costs = {"cost_of_error": 4, "cost_of_abstaining": 1, "cost_of_right": -1}
    probs = (2 * normal(40, 3)).softmax(-1)
    decisions = decide(probs, chow_threshold(**costs))

    def expected_cost(decision, probs_of_input):
        by_label = [
            mean_cost(torch.tensor([decision]), torch.tensor([label]), **costs)
            for label in range(3)
        ]
        return float(probs_of_input @ torch.tensor(by_label, dtype=probs.dtype))

    for probs_of_input, decision in zip(probs, decisions.tolist(), strict=True):
        smallest = min(expected_cost(other, probs_of_input) for other in (ABSTAIN, 0, 1, 2))
        assert expected_cost(decision, probs_of_input) == pytest.approx(smallest)


def test_costs_of_every_combination_add_up():
    def cost(decision, label):
        if decision == ABSTAIN:
            return 0.5
        return -2.0 if decision == label else 7.0

    y = torch.tensor([0, 1])
    for first, second in itertools.product([ABSTAIN, 0, 1], repeat=2):
        mean = mean_cost(
            torch.tensor([first, second]),
            y,
            cost_of_error=7.0,
            cost_of_abstaining=0.5,
            cost_of_right=-2.0,
        )
        assert mean == pytest.approx((cost(first, 0) + cost(second, 1)) / 2)


@given(examples=COARSE)
def test_risk_and_coverage_are_their_definitions_with_ties_too(examples):
    confidence = torch.tensor([score for score, _ in examples], dtype=torch.float64)
    correct = torch.tensor([is_right for _, is_right in examples])
    curve = risk_coverage(confidence, correct)
    for threshold, coverage, risk in zip(*curve, strict=True):
        is_answered = confidence >= threshold
        is_wrong = ~correct[is_answered]
        assert coverage == pytest.approx(is_answered.double().mean())
        assert risk == pytest.approx(is_wrong.double().mean())
    assert curve.threshold.tolist() == sorted(confidence.tolist(), reverse=True)
    assert curve.area == pytest.approx(curve.risk.mean())


def test_a_perfect_ranking_has_the_smallest_area_and_a_reversed_one_the_largest():
    correct = torch.tensor([True] * 6 + [False] * 2)

    def area(confidence):
        return risk_coverage(torch.tensor(confidence, dtype=torch.float64), correct).area

    perfect = area([8, 7, 6, 5, 4, 3, 2, 1])
    reversed_ranking = area([1, 2, 3, 4, 5, 6, 7, 8])
    mixed = area([3, 8, 1, 6, 2, 7, 5, 4])
    assert perfect < mixed < reversed_ranking
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
