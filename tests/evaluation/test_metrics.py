import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, log_loss

from bdl_lessons.evaluation import (
    accuracy,
    ece,
    error_percent,
    mean_log_likelihood,
    nll,
    reliability_bins,
    rmse,
)


def case(n=300, seed=0, scale=2.0):
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(n, 4, generator=generator, dtype=torch.float64)
    return logits.softmax(-1), torch.randint(4, (n,), generator=generator)


def test_against_scikit_learn():
    probs, y = case()
    assert error_percent(probs, y) == pytest.approx(100 * (1 - accuracy_score(y, probs.argmax(-1))))
    assert nll(probs.log(), y) == pytest.approx(log_loss(y, probs))
    assert accuracy(probs, y) == pytest.approx(accuracy_score(y, probs.argmax(-1)))


def test_nll_is_the_mean_in_nats_and_may_be_infinite_only_for_impossible_labels():
    log_probs = torch.tensor([[0.25, 0.75], [0.5, 0.5]]).log()
    for dtype in (torch.int64, torch.uint8, torch.int16):
        labels = torch.tensor([0, 1], dtype=dtype)
        assert nll(log_probs, labels) == pytest.approx(1.5 * math.log(2))


@given(st.integers(0, 1000), st.integers(2, 20), st.floats(0.1, 30))
def test_ece_by_the_definition(seed, n_bins, scale):
    probs, y = case(80, seed, scale)
    error = 0.0
    for i in range(n_bins):
        inside = [
            (p.max().item(), float(p.argmax() == label))
            for p, label in zip(probs, y, strict=True)
            if min(int(p.max().item() * n_bins), n_bins - 1) == i
        ]
        error += abs(sum(confidence - right for confidence, right in inside)) / 80
    assert ece(probs, y, n_bins) == pytest.approx(error, abs=1e-6)
    assert reliability_bins(probs, y, n_bins).count.sum() == 80


def test_certain_predictions_are_in_the_last_bin():
    probs = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.95, 0.05], [0.95, 0.05]])
    y = torch.tensor([1, 1, 0, 0])
    assert ece(probs, y, n_bins=10) == pytest.approx(0.475, abs=1e-5)
    assert reliability_bins(probs, y, 10).count[-1] == 4


@pytest.mark.parametrize("n_bins", [4, 5, 10, 15, 20])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_edge_belongs_to_the_bin_above(n_bins, dtype):
    """In both precisions: 0.9 in float32 is a little less than 0.9 in float64."""
    for i in range(n_bins // 2 + 1, n_bins):
        confidence = torch.linspace(0, 1, n_bins + 1, dtype=torch.float32)[i].to(dtype)
        probs = torch.stack([confidence, 1 - confidence])[None]
        assert reliability_bins(probs, torch.tensor([0]), n_bins).count.argmax() == i


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
        (torch.tensor([[0.5, 0.5]]), torch.tensor([True]), "labels"),
        (torch.tensor([[0.5, 0.5]]), torch.tensor([0, 1]), "labels"),
        (torch.tensor([[0.5, 0.5], [0.5, 0.5]]), torch.tensor([[0], [1]]), "labels"),
        (torch.zeros(0, 2), torch.zeros(0, dtype=torch.int64), "labels"),
    ],
)
def test_bad_predictions_are_refused(probs, y, words):
    for metric in (accuracy, ece, reliability_bins):
        with pytest.raises(ValueError, match=words):
            metric(probs, y)


@pytest.mark.parametrize(
    ("scores", "y", "words"),
    [
        (torch.eye(3), torch.arange(3)[:, None], "labels"),
        (torch.eye(3), torch.arange(3)[None], "labels"),
        (torch.eye(3), torch.arange(3) + 1, "labels"),
        (torch.eye(3) * math.nan, torch.arange(3), "scores must be numbers, got NaN"),
    ],
)
def test_an_error_is_never_that_of_broadcast_or_missing_scores(scores, y, words):
    assert error_percent(torch.eye(3), torch.arange(3)) == 0
    with pytest.raises(ValueError, match=words):
        error_percent(scores, y)


def test_shapes_types_and_nan_in_rmse_are_refused():
    for y in (torch.ones(3), torch.ones(1, 3), torch.ones(1, 1)):
        with pytest.raises(ValueError, match="mean has shape"):
            rmse(torch.ones(3, 1), y)
    with pytest.raises(ValueError, match="mean must be finite"):
        rmse(torch.tensor([math.nan]), torch.ones(1))
    with pytest.raises(ValueError, match="y must be finite"):
        rmse(torch.ones(1), torch.tensor([math.nan]))
    with pytest.raises(TypeError, match="mean must be a floating-point tensor"):
        rmse(torch.tensor([0], dtype=torch.uint8), torch.tensor([1], dtype=torch.uint8))
    with pytest.raises(ValueError, match="examples"):
        rmse(torch.ones(0, 1), torch.ones(0, 1))


def test_a_likelihood_of_missing_targets_is_refused():
    with pytest.raises(ValueError, match="y must be finite"):
        mean_log_likelihood(torch.ones(2, 3, 1), torch.full((3, 1), math.nan), 1.0)
    with pytest.raises(ValueError, match="y must have shape"):
        mean_log_likelihood(torch.ones(2, 3, 2), torch.ones(3, 1), 1.0)
