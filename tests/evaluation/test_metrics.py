import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, log_loss

from bdl_lessons import evaluation
from tests.draws import seeded


def case(n=300, seed=0, scale=2.0):
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(n, 4, generator=generator, dtype=torch.float64)
    return logits.softmax(-1), torch.randint(4, (n,), generator=generator)


def test_against_scikit_learn():
    probs, y = case()
    right = accuracy_score(y, probs.argmax(-1))
    assert evaluation.accuracy(probs, y) == pytest.approx(right)
    assert evaluation.error_percent(probs, y) == pytest.approx(100 * (1 - right))
    for dtype in (torch.int64, torch.uint8, torch.int16):
        assert evaluation.nll(probs.log(), y.to(dtype)) == pytest.approx(log_loss(y, probs))


@settings(max_examples=30)
@given(st.integers(0, 1000), st.integers(2, 20), st.floats(0.1, 30))
def test_ece_by_the_definition(seed, n_bins, scale):
    probs, y = case(80, seed, scale)
    gap_of_bin = [0.0] * n_bins
    for probs_of_example, label in zip(probs, y, strict=True):
        confidence = probs_of_example.max().item()
        is_right = float(probs_of_example.argmax() == label)
        number = min(int(confidence * n_bins), n_bins - 1)
        gap_of_bin[number] += confidence - is_right
    error = sum(abs(gap) for gap in gap_of_bin) / 80
    assert evaluation.ece(probs, y, n_bins) == pytest.approx(error, abs=1e-6)
    assert evaluation.reliability_bins(probs, y, n_bins).count.sum() == 80


@pytest.mark.parametrize("n_bins", [4, 5, 10, 15, 20])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_edge_belongs_to_the_bin_above(n_bins, dtype):
    """In both precisions: 0.9 in float32 is a little less than 0.9 in float64."""
    for i in range(n_bins // 2 + 1, n_bins):
        confidence = torch.tensor(i / n_bins, dtype=dtype)
        probs = torch.stack([confidence, 1 - confidence])[None]
        bins = evaluation.reliability_bins(probs, torch.tensor([0]), n_bins)
        assert bins.count.argmax() == i


def test_the_default_is_fifteen_bins():
    probs, _ = case()
    y = torch.multinomial(probs, 1, generator=seeded()).squeeze(1)  # bins err to both sides
    default = evaluation.ece(probs, y)
    assert default == pytest.approx(evaluation.ece(probs, y, 15), abs=1e-12)
    assert abs(default - evaluation.ece(probs, y, 10)) > 1e-3
    assert len(evaluation.reliability_bins(probs, y).count) == 15


def test_calibration_at_the_ends_of_its_range():
    """A classifier that is always certain: calibrated if it is right, as wrong as can be if not."""
    certain = torch.eye(2).repeat(5, 1)
    y = torch.arange(2).repeat(5)
    assert evaluation.ece(certain, y) == pytest.approx(0, abs=1e-12)
    assert evaluation.ece(certain, 1 - y) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("n_classes", [2, 3, 10, 100])
def test_probabilities_in_half_precision_are_no_logits(dtype, n_classes):
    logits = torch.randn(500, n_classes, generator=seeded()).to(dtype)
    y = torch.arange(500) % n_classes
    probs = logits.softmax(-1)
    log_probs = logits.log_softmax(-1)
    exact = evaluation.nll(logits.double().log_softmax(-1), y)
    assert evaluation.nll(log_probs, y) == pytest.approx(exact, rel=0.01)
    is_right = probs.argmax(-1) == y
    assert evaluation.accuracy(probs, y) == pytest.approx(is_right.double().mean().item())
    evaluation.ece(probs, y)
    for wrong in (logits, 1.1 * probs):
        with pytest.raises(ValueError, match="got logits"):
            evaluation.accuracy(wrong, y)


@pytest.mark.parametrize("score", [evaluation.accuracy, evaluation.ece, evaluation.error_percent])
@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (lambda y: y.double(), r"labels y .*float64: y\.long\(\)"),
        (lambda y: y == 0, r"labels y .*bool: y\.long\(\)"),
        (lambda y: y[:, None], r"y of shape \(300, 1\): y\.squeeze\(1\)"),
        (lambda y: y + 1, r"labels y must lie in 0\.\.3, got 1\.\.4: .*y - 1"),
        (lambda y: y - 1, r"labels y must lie in 0\.\.3, got -1\.\.2"),
    ],
)
def test_labels_of_another_kind_are_refused_with_the_call_that_helps(score, labels, message):
    probs, y = case()
    with pytest.raises((TypeError, ValueError), match=message):
        score(probs, labels(y))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int16, torch.uint8])
def test_labels_of_any_integer_type_will_do(dtype):
    probs, y = case()
    for score in (evaluation.accuracy, evaluation.ece, evaluation.error_percent):
        assert score(probs, y.to(dtype)) == pytest.approx(score(probs, y))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_an_error_in_half_precision_is_squared_in_double(dtype):
    mean = torch.full((4, 1), 300.0, dtype=dtype)
    y = torch.ones(4, 1, dtype=dtype)
    assert evaluation.rmse(mean, y) == pytest.approx(mean[0].item() - 1)


def test_rmse():
    mean = torch.tensor([[1.0], [3.0]])
    y = torch.tensor([[2.0], [0.0]])
    assert evaluation.rmse(mean, y) == pytest.approx(math.sqrt(5))
