import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bdl_lessons.core.validation import valid_p_drop
from bdl_lessons.probability import all_masks, dropout_moments, mask_probs

rates = st.floats(0, 1, exclude_max=True)


@pytest.mark.parametrize("n_units", [1, 2, 5])
def test_lists_every_mask_once_in_binary_order(n_units):
    expected = torch.tensor(list(itertools.product([0.0, 1.0], repeat=n_units)))
    assert torch.equal(all_masks(n_units), expected.double())  # bits: zeros and ones


@given(rates, st.integers(1, 9))
def test_probabilities_sum_to_one_with_mean_keep(p_drop, n_units):
    masks = all_masks(n_units)
    probs = mask_probs(masks, p_drop)
    assert math.isclose(probs.sum(), 1, abs_tol=1e-12)
    assert torch.allclose(probs @ masks, torch.full((n_units,), 1 - p_drop, dtype=torch.float64))


def test_one_is_kept_and_zero_is_dropped():
    masks = torch.tensor([[1.0, 1.0, 0.0], [0.0, 0.0, 0.0]], dtype=torch.float64)
    expected = torch.tensor([0.8 * 0.8 * 0.2, 0.2**3], dtype=torch.float64)
    assert torch.allclose(mask_probs(masks, 0.2), expected)


def test_without_dropout_only_the_full_network_remains():
    probs = mask_probs(all_masks(4), 0.0)
    assert probs[-1] == 1
    assert probs[:-1].abs().max() == 0


@pytest.mark.parametrize("bad", [1, 1.5, -0.1, float("nan"), float("inf")])
def test_a_rate_outside_the_interval_is_refused(bad):
    with pytest.raises(ValueError, match=r"p_drop must lie in \[0, 1\)"):
        valid_p_drop(bad)


@pytest.mark.parametrize("bad", ["0.5", None, True])
def test_a_rate_that_is_no_number_is_refused(bad):
    with pytest.raises(TypeError, match="p_drop must be a number"):
        valid_p_drop(bad)


@pytest.mark.parametrize("bad", [0, -1, 21])
def test_the_number_of_units_is_bounded(bad):
    with pytest.raises(ValueError, match="n_units must be between 1 and 20"):
        all_masks(bad)


# The moments of an output


def normal(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@given(st.floats(0, 0.95), st.integers(1, 8))
def test_they_are_the_moments_over_all_masks(p_drop, n_units):
    hidden, weight = normal(5, n_units), normal(n_units, seed=1)
    masks = all_masks(n_units)
    probs = mask_probs(masks, p_drop)
    outputs = (masks[:, None] * hidden / (1 - p_drop)) @ weight
    mean, variance = dropout_moments(hidden, weight, p_drop)
    assert torch.allclose(mean, probs @ outputs, atol=1e-10)
    assert torch.allclose(variance, probs @ (outputs - mean) ** 2, atol=1e-9)


@given(st.integers(0, 10_000))
def test_with_relu_the_variance_is_convex_along_any_line(seed):
    W, b, v = normal(6, 3, seed=seed), normal(6, seed=seed + 1), normal(6, seed=seed + 2)
    start, end = 3 * normal(2, 3, seed=seed + 3)
    x = start + torch.linspace(0, 1, 50, dtype=torch.float64)[:, None] * (end - start)
    variance = dropout_moments(torch.relu(x @ W.T + b), v, 0.2)[1]
    assert variance.diff(n=2).min() > -1e-9 * (1 + variance.max())


def test_with_tanh_it_need_not_be():
    x = torch.linspace(-3, 3, 61, dtype=torch.float64)[:, None]
    variance = dropout_moments(torch.tanh(x), torch.ones(1, dtype=torch.float64), 0.2)[1]
    assert variance.diff(n=2).min() < -1e-3


def test_leading_axes_and_gradients_pass_through():
    weight = normal(4).requires_grad_()
    mean, variance = dropout_moments(normal(2, 3, 4), weight, 0.5)
    assert mean.shape == variance.shape == (2, 3)
    (mean + variance).sum().backward()
    assert weight.grad.isfinite().all()


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match=r"p_drop must lie in \[0, 1\)"):
        dropout_moments(normal(2, 3), normal(3), 1.0)
    with pytest.raises(ValueError, match="weight must have shape"):
        dropout_moments(normal(2, 3), normal(4), 0.5)
    for shape in [(3, 1), (1,), (1, 3)]:
        with pytest.raises(ValueError, match="weight must have shape"):
            dropout_moments(normal(2, 3), normal(*shape), 0.5)
