"""Reflections against the matrices they stand for."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bdl_lessons.core.autograd import vmap
from bdl_lessons.probability import (
    compact_form,
    householder,
    householder_fast,
    orthogonal_matrix,
    reflect,
    rotated_noise,
    rotated_variance,
)

CHAINS = [(0, 4), (1, 1), (1, 4), (2, 4), (3, 1), (5, 4), (8, 20)]
sizes = st.integers(0, 9), st.integers(1, 12), st.integers(0, 2**31)


def draw(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def variances(n, seed=0, dtype=torch.float64):
    return draw(n, seed=seed, dtype=dtype).exp()


@pytest.mark.parametrize(("n_reflections", "n_units"), CHAINS)
def test_the_product_is_orthogonal_with_alternating_determinant(n_reflections, n_units):
    U = orthogonal_matrix(draw(n_reflections, n_units))
    torch.testing.assert_close(U @ U.T, torch.eye(n_units, dtype=U.dtype), atol=1e-12, rtol=0)
    torch.testing.assert_close(U.det().item(), (-1.0) ** n_reflections)


def test_a_reflection_turns_its_vector_round_and_leaves_what_is_perpendicular():
    v, across = torch.tensor([3.0, 4.0, 0.0]), torch.tensor([-4.0, 3.0, 7.0])
    torch.testing.assert_close(reflect(v, v[None]), -v)
    torch.testing.assert_close(reflect(across, v[None]), across)


def test_the_first_vector_acts_first():
    v = torch.tensor([[1.0, 0.0], [1.0, 1.0]])  # flips x, then swaps x and y and flips both
    torch.testing.assert_close(reflect(torch.tensor([1.0, 0.0]), v), torch.tensor([0.0, 1.0]))
    torch.testing.assert_close(orthogonal_matrix(v), torch.tensor([[0.0, -1.0], [1.0, 0.0]]))


@given(*sizes)
@settings(max_examples=50)
def test_every_form_is_the_same_map(n_reflections, n_units, seed):
    vectors, alpha = draw(n_reflections, n_units, seed=seed), variances(n_units, seed=seed + 1)
    x, U = draw(2, 3, n_units, seed=seed + 2), orthogonal_matrix(vectors)
    left, right = compact_form(vectors)
    eye = torch.eye(n_units, dtype=U.dtype)
    torch.testing.assert_close(reflect(x, vectors), x @ U.T, atol=1e-9, rtol=0)
    torch.testing.assert_close(eye - left.T @ right, U, atol=1e-9, rtol=0)
    noise = rotated_noise(x, alpha, vectors, mean=1.5)
    torch.testing.assert_close(noise, 1.5 + (x * alpha) @ U.T, atol=1e-8, rtol=0)
    torch.testing.assert_close(
        rotated_variance(alpha, vectors), U.square() @ alpha, rtol=1e-8, atol=1e-9
    )


@pytest.mark.parametrize("n_reflections", [1, 2, 5])
def test_single_precision_stays_single_and_close(n_reflections):
    vectors, x = draw(n_reflections, 300), draw(10, 300, seed=1)
    found = reflect(x.float(), vectors.float())
    assert found.dtype == torch.float32
    assert (found - reflect(x, vectors)).abs().max() < 4e-6
    alpha = variances(300)
    s = rotated_variance(alpha.float(), vectors.float())
    torch.testing.assert_close(s, rotated_variance(alpha, vectors).float(), rtol=1e-5, atol=1e-5)


def test_one_reflection_has_the_published_form():
    v, alpha = draw(1, 6), variances(6)
    u2 = (v[0] / v[0].norm()).square()
    by_hand = alpha - 4 * alpha * u2 + 4 * u2 * (alpha * u2).sum()
    torch.testing.assert_close(rotated_variance(alpha, v), by_hand)


@pytest.mark.parametrize(("n_reflections", "n_units"), [(1, 4), (2, 4), (3, 4), (5, 2)])
def test_gradients(n_reflections, n_units):
    vectors = draw(n_reflections, n_units).requires_grad_()
    x, alpha = draw(3, n_units, seed=1).requires_grad_(), variances(n_units).requires_grad_()
    assert torch.autograd.gradcheck(reflect, (x, vectors))
    assert torch.autograd.gradcheck(rotated_variance, (alpha, vectors))
    assert torch.autograd.gradcheck(compact_form, (vectors,))
    assert torch.autograd.gradcheck(rotated_noise, (x, alpha, vectors))


def test_the_gradient_is_perpendicular_to_each_vector():
    vectors = draw(3, 7).requires_grad_()
    rotated_variance(variances(7), vectors).log().sum().backward()
    inner = (vectors.grad * vectors).sum(1)
    torch.testing.assert_close(inner, torch.zeros_like(inner), atol=1e-12, rtol=0)
    assert vectors.grad.abs().max() > 1e-3


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("log10_length", [-300, -160, -30, -17, -14, -3, 3, 15])
def test_any_length_gives_an_orthogonal_map(dtype, log10_length):
    vectors = draw(3, 5, dtype=dtype)
    vectors[1] *= 10.0**log10_length / vectors[1].norm()
    x = draw(4, 5, seed=1, dtype=dtype)
    found = reflect(x, vectors)
    torch.testing.assert_close(found.norm(dim=1), x.norm(dim=1))
    torch.testing.assert_close(found, x @ orthogonal_matrix(vectors).T, atol=1e-5, rtol=0)
    s = rotated_variance(variances(5, dtype=dtype), vectors)
    torch.testing.assert_close(s.sum(), variances(5, dtype=dtype).sum())


@pytest.mark.parametrize("n_reflections", [1, 3])
def test_a_zero_vector_is_the_identity_with_gradient_zero(n_reflections):
    vectors = draw(n_reflections, 4)
    vectors[0] = 0
    vectors.requires_grad_()
    x = draw(5, 4, seed=1)
    torch.testing.assert_close(reflect(x, vectors), reflect(x, vectors[1:]))
    (reflect(x, vectors).square() * x + rotated_variance(variances(4), vectors)).sum().backward()
    assert not vectors.grad[0].any()
    assert vectors.grad.isfinite().all()


@given(*sizes)
@settings(max_examples=50)
def test_rotated_variances_are_means_of_the_variances(n_reflections, n_units, seed):
    vectors, alpha = draw(n_reflections, n_units, seed=seed), variances(n_units, seed=seed + 1)
    s = rotated_variance(alpha, vectors)
    assert alpha.min() - 1e-8 <= s.min()
    assert s.max() <= alpha.max() + 1e-8
    torch.testing.assert_close(s.sum(), alpha.sum())


def test_equal_variances_stay_equal_and_pass_no_gradient_to_the_vectors():
    vectors = draw(3, 6).requires_grad_()
    s = rotated_variance(torch.full((6,), 0.3, dtype=torch.float64), vectors)
    torch.testing.assert_close(s, torch.full_like(s, 0.3))
    (s * draw(6, seed=4)).sum().backward()
    torch.testing.assert_close(vectors.grad, torch.zeros_like(vectors), atol=1e-12, rtol=0)


def test_cancellation_leaves_a_positive_variance():
    alpha = torch.full((4,), 1e-12)
    alpha[0] = 1e6
    v = torch.tensor([[1.0, -1.0, 0.0, 0.0]])  # swaps the first two
    s = rotated_variance(alpha, v)
    assert (s > 0).all()
    torch.testing.assert_close(s[1], alpha[0])


def test_the_covariance_is_a_diagonal_and_rank_two_for_each_reflection():
    alpha, n_units = variances(24), 24
    for n_reflections in range(5):
        U = orthogonal_matrix(draw(n_reflections, n_units))
        difference = U @ torch.diag(alpha) @ U.T - torch.diag(alpha)
        assert torch.linalg.matrix_rank(difference, atol=1e-10) == 2 * n_reflections


@pytest.mark.parametrize("n_reflections", [0, 1, 3])
def test_members_side_by_side(n_reflections):
    x, alpha = draw(2, 5, 4), draw(2, 4, seed=1).exp()
    vectors = draw(2, n_reflections, 4, seed=2)
    for function, *arguments in (
        (reflect, x, vectors),
        (rotated_noise, x, alpha, vectors),
        (rotated_variance, alpha, vectors),
    ):
        together = vmap(function)(*arguments)
        each = torch.stack([function(*one) for one in zip(*arguments, strict=True)])
        torch.testing.assert_close(together, each)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: reflect(draw(4, 2), draw(2, 3)), r"x must have shape \(\.\.\., K\).*got \(4, 2\)"),
        (lambda: reflect(draw(4, 1), draw(2, 3)), r"x must have shape .*got \(4, 1\)"),
        (lambda: reflect(draw(4, 3), draw(3)), r"vectors \(T, K\), got \(4, 3\) and \(3,\)"),
        (lambda: rotated_noise(draw(4, 1), draw(3), draw(2, 3)), "eps must have shape"),
        (lambda: rotated_variance(draw(3, 2), draw(2, 3)), "alpha must have shape"),
        (lambda: orthogonal_matrix(draw(3)), r"vectors \(T, K\), got \(3,\)"),
        (lambda: compact_form(draw(3)), r"vectors \(T, K\), got \(3,\)"),
    ],
)
def test_shapes_that_do_not_fit_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("shape", [(2, 4), (1, 4), (3,), (1,), (4, 1)])
@pytest.mark.parametrize("module", [householder, householder_fast])
def test_one_standard_deviation_and_one_variance_for_each_unit(module, shape):
    vectors, wrong = torch.ones(2, 4), torch.ones(shape)
    with pytest.raises(ValueError, match="alpha must"):
        module.rotated_variance(wrong, vectors)
    with pytest.raises(ValueError, match=r"std must have shape \(4,\)"):
        module.rotated_noise(torch.ones(3, 4), wrong, vectors)
