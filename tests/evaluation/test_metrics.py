import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, log_loss

from bdl_lessons.evaluation import (
    accuracy,
    ece,
    error_rate,
    mean_log_likelihood,
    nll,
    reliability_bins,
    rmse,
)
from bdl_lessons.evaluation.metrics import brier


def case(n=300, seed=0, scale=2.0):
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(n, 4, generator=generator, dtype=torch.float64)
    return logits.softmax(-1), torch.randint(4, (n,), generator=generator)


def test_against_scikit_learn():
    probs, y = case()
    assert error_rate(probs, y) == pytest.approx(100 * (1 - accuracy_score(y, probs.argmax(-1))))
    assert nll(probs.log(), y) == pytest.approx(log_loss(y, probs))
    assert accuracy(probs, y) == pytest.approx(accuracy_score(y, probs.argmax(-1)))


def test_brier_by_hand():
    probs, y = torch.tensor([[0.8, 0.2], [0.5, 0.5]]), torch.tensor([1, 0])
    assert brier(probs, y) == pytest.approx((0.64 + 0.64 + 0.25 + 0.25) / 2)


def test_nll_is_the_mean_in_nats_and_may_be_infinite_only_for_impossible_labels():
    log_probs = torch.tensor([[0.25, 0.75], [0.5, 0.5]]).log()
    assert nll(log_probs, torch.tensor([0, 1])) == pytest.approx(1.5 * math.log(2))


@settings(deadline=None)  # the first call imports torchmetrics
@given(st.integers(0, 1000), st.integers(2, 20), st.floats(0.1, 30))
def test_ece_is_the_gap_in_the_reliability_diagram(seed, n_bins, scale):
    probs, y = case(80, seed, scale)
    bins = reliability_bins(probs, y, n_bins)
    gaps = (bins.count / 80 * (bins.accuracy - bins.confidence).abs()).nan_to_num()
    assert ece(probs, y, n_bins) == pytest.approx(gaps.sum().item(), abs=1e-5)
    assert bins.count.sum() == 80


def test_certain_predictions_are_in_the_last_bin():
    """The example of torchmetrics issue 3510: without the clamp the answer is 0.525."""
    probs = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.95, 0.05], [0.95, 0.05]])
    y = torch.tensor([1, 1, 0, 0])
    assert ece(probs, y, n_bins=10) == pytest.approx(0.475, abs=1e-5)
    assert reliability_bins(probs, y, 10).count[-1] == 4


def test_a_confidence_on_an_edge_belongs_to_the_bin_above():
    probs, y = torch.tensor([[0.5, 0.25, 0.25], [0.75, 0.125, 0.125]]), torch.tensor([1, 0])
    assert reliability_bins(probs, y, n_bins=4).count.tolist() == [0, 0, 1, 1]
    assert ece(probs, y, n_bins=4) == pytest.approx((0.5 + 0.25) / 2, abs=1e-6)


def test_perfect_calibration_has_no_error():
    probs, y = torch.tensor([[0.75, 0.25]] * 4), torch.tensor([0, 0, 0, 1])
    assert ece(probs, y) == pytest.approx(0, abs=1e-6)


def test_rmse_and_log_likelihood():
    mean, y = torch.tensor([[1.0], [3.0]]), torch.tensor([[2.0], [0.0]])
    assert rmse(mean, y) == pytest.approx(math.sqrt(5))
    expected = -0.5 * math.log(2 * math.pi) - 2.5
    assert mean_log_likelihood(mean[None], y, tau=1.0) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("probs", "y", "words"),
    [
        (torch.tensor([[2.0, -1.0]]), torch.tensor([0]), "logits"),
        (torch.tensor([[math.nan, 1.0]]), torch.tensor([0]), "NaN"),
        (torch.tensor([[0.5, 0.5]]), torch.tensor([2]), "labels"),
        (torch.tensor([[0.5, 0.5]]), torch.tensor([0.0]), "labels"),
        (torch.tensor([[0.5, 0.5]]), torch.tensor([0, 1]), "labels"),
    ],
)
def test_bad_predictions_are_refused(probs, y, words):
    for metric in (accuracy, brier, ece, reliability_bins):
        with pytest.raises(ValueError, match=words):
            metric(probs, y)


def test_shapes_and_nan_in_rmse_are_refused():
    with pytest.raises(ValueError, match="shape"):
        rmse(torch.ones(3, 1), torch.ones(3))
    with pytest.raises(ValueError, match="NaN"):
        rmse(torch.tensor([math.nan]), torch.ones(1))
