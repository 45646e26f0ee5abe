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
    right = accuracy_score(y, probs.argmax(-1))
    assert accuracy(probs, y) == pytest.approx(right)
    assert error_percent(probs, y) == pytest.approx(100 * (1 - right))
    for dtype in (torch.int64, torch.uint8, torch.int16):
        assert nll(probs.log(), y.to(dtype)) == pytest.approx(log_loss(y, probs))


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


@pytest.mark.parametrize("n_bins", [4, 5, 10, 15, 20])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_edge_belongs_to_the_bin_above(n_bins, dtype):
    """In both precisions: 0.9 in float32 is a little less than 0.9 in float64."""
    for i in range(n_bins // 2 + 1, n_bins):
        confidence = torch.linspace(0, 1, n_bins + 1, dtype=torch.float32)[i].to(dtype)
        probs = torch.stack([confidence, 1 - confidence])[None]
        assert reliability_bins(probs, torch.tensor([0]), n_bins).count.argmax() == i


def test_rmse_and_log_likelihood():
    mean, y = torch.tensor([[1.0], [3.0]]), torch.tensor([[2.0], [0.0]])
    assert rmse(mean, y) == pytest.approx(math.sqrt(5))
    expected = -0.5 * math.log(2 * math.pi) - 2.5
    assert mean_log_likelihood(mean[None], y, tau=1.0) == pytest.approx(expected)


HALF, ZERO = torch.tensor([[0.5, 0.5]]), torch.tensor([0])
PROBABILITIES = [
    (torch.tensor([[2.0, -1.0]]), ZERO, "logits"),
    (HALF, ZERO + 2, "labels"),
    (HALF, ZERO - 1, "labels"),
    (HALF, torch.tensor([0, 1]), "labels"),
    (HALF.expand(2, 2), torch.tensor([[0], [1]]), "labels"),
]
ONES, NAN = torch.ones(3, 1), torch.full((3, 1), math.nan)


@pytest.mark.parametrize(
    ("metric", "arguments", "words"),
    [(m, (probs, y), w) for m in (accuracy, ece, reliability_bins) for probs, y, w in PROBABILITIES]
    + [
        (nll, (torch.tensor([[0.0, 0.0]]), ZERO), "logits"),
        (error_percent, (torch.eye(3), torch.arange(3)[:, None]), "labels"),
        (error_percent, (torch.eye(3), torch.arange(3) + 1), "labels"),
        (rmse, (ONES, torch.ones(3)), "mean has shape"),
        (rmse, (ONES, torch.ones(1, 3)), "mean has shape"),
        (rmse, (ONES, torch.ones(1, 1)), "mean has shape"),
        (mean_log_likelihood, (torch.ones(2, 3, 2), ONES, 1.0), r"y \(B, D\), got"),
    ],
)
def test_bad_input_is_refused(metric, arguments, words):
    with pytest.raises((TypeError, ValueError), match=words):
        metric(*arguments)
