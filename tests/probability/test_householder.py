"""Reflections against the matrices they stand for, one reflection after the other."""

from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bdl_lessons.probability import compact_form, orthogonal_matrix, reflect, rotated_variance
from tests.draws import normal
from tests.tables import refused

sizes = st.integers(0, 9), st.integers(1, 12), st.integers(0, 2**31)


def product(vectors):
    """``H_T ... H_1`` by matrices."""
    U = torch.eye(vectors.shape[1], dtype=vectors.dtype)
    for v in vectors:
        U = U - 2 * torch.outer(v, v) @ U / v.square().sum()
    return U


close = partial(torch.testing.assert_close, rtol=1e-7, atol=1e-8)


@given(*sizes)
@settings(max_examples=30)
def test_every_form_is_the_product_of_the_matrices(n_reflections, n_units, seed):
    vectors = normal(n_reflections, n_units, seed=seed)
    alpha = normal(n_units, seed=seed + 1).exp()
    x = normal(2, 3, n_units, seed=seed + 2)
    U = product(vectors)
    left, right = compact_form(vectors)
    by_compact_form = torch.eye(n_units, dtype=U.dtype) - left.T @ right
    close(orthogonal_matrix(vectors), U)
    close(by_compact_form, U)
    close(reflect(x, vectors), x @ U.T)
    variance = rotated_variance(alpha, vectors)
    close(variance, U.square() @ alpha)
    assert alpha.min() - 1e-7 <= variance.min()
    assert variance.max() <= alpha.max() + 1e-7
    torch.testing.assert_close(U.det().item(), (-1.0) ** n_reflections)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("log10_length", [-300, -160, -30, -17, -14, -3, 3, 15])
def test_any_length_gives_an_orthogonal_map(dtype, log10_length):
    vectors = normal(3, 5).to(dtype)
    x = normal(4, 5, seed=1).to(dtype)
    vectors[1] *= 10.0**log10_length / vectors[1].norm()
    torch.testing.assert_close(reflect(x, vectors).norm(dim=1), x.norm(dim=1))
    alpha = normal(5).exp().to(dtype)
    torch.testing.assert_close(rotated_variance(alpha, vectors).sum(), alpha.sum())


@pytest.mark.parametrize("n_reflections", [1, 3])
def test_a_zero_vector_is_the_identity_with_gradient_zero(n_reflections):
    vectors = normal(n_reflections, 4)
    x = normal(5, 4, seed=1)
    vectors[0] = 0
    vectors.requires_grad_()
    torch.testing.assert_close(reflect(x, vectors), reflect(x, vectors[1:]))
    of_reflections = (reflect(x, vectors).square() * x).sum()
    of_variances = rotated_variance(normal(4).exp(), vectors).sum()
    (of_reflections + of_variances).backward()
    assert not vectors.grad[0].any()
    assert vectors.grad.isfinite().all()


def test_cancellation_leaves_a_positive_variance():
    alpha = torch.tensor([1e6, 1e-12, 1e-12, 1e-12])
    swaps_first_two = torch.tensor([[1.0, -1.0, 0.0, 0.0]])
    variance = rotated_variance(alpha, swaps_first_two)
    assert (variance > 0).all()
    torch.testing.assert_close(variance[1], alpha[0])


def test_a_negative_alpha_has_no_variance():
    alpha = torch.tensor([1.0, 2.0])
    assert rotated_variance(-alpha, torch.ones(1, 2)).isnan().all()


test_shapes_that_do_not_fit_are_named = refused(
    (lambda: reflect(normal(4, 1), normal(2, 3)), r"x must be .*got \(4, 1\)"),
    (lambda: reflect(normal(4, 3), normal(3)), r"vectors .*\(T, K\), got .* and \(3,\)"),
    (lambda: orthogonal_matrix(normal(3)), r"vectors .*\(T, K\), got \(3,\)"),
    (lambda: rotated_variance(normal(1), normal(2, 4)), "alpha must"),
)
