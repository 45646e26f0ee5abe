import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, log_loss

from bdl_lessons import evaluation


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
    error = 0.0
    for i in range(n_bins):
        inside = [
            (p.max().item(), float(p.argmax() == label))
            for p, label in zip(probs, y, strict=True)
            if min(int(p.max().item() * n_bins), n_bins - 1) == i
        ]
        error += abs(sum(confidence - right for confidence, right in inside)) / 80
    assert evaluation.ece(probs, y, n_bins) == pytest.approx(error, abs=1e-6)
    assert evaluation.reliability_bins(probs, y, n_bins).count.sum() == 80


@pytest.mark.parametrize("n_bins", [4, 5, 10, 15, 20])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_edge_belongs_to_the_bin_above(n_bins, dtype):
    """In both precisions: 0.9 in float32 is a little less than 0.9 in float64."""
    for i in range(n_bins // 2 + 1, n_bins):
        confidence = torch.tensor(i / n_bins, dtype=dtype)
        probs = torch.stack([confidence, 1 - confidence])[None]
        assert evaluation.reliability_bins(probs, torch.tensor([0]), n_bins).count.argmax() == i


def test_rmse():
    mean = torch.tensor([[1.0], [3.0]])
    y = torch.tensor([[2.0], [0.0]])
    assert evaluation.rmse(mean, y) == pytest.approx(math.sqrt(5))
