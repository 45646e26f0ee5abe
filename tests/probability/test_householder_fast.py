"""The written gradients against the formulas, traced by autograd one reflection after the other."""

import pytest
import torch

from bdl_lessons.probability import householder, householder_fast

SHAPES = [(0, 4), (1, 1), (1, 5), (2, 5), (3, 1), (5, 5), (7, 4)]


def leaves(n_reflections, n_units, seed=0):
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    vectors, std, eps = normal(n_reflections, n_units), normal(n_units).exp(), normal(6, n_units)
    upstream = normal(6, n_units)
    return [leaf.requires_grad_() for leaf in (eps, std, vectors)], upstream


def value_and_gradients(function, inputs, upstream, **kwargs):
    value = function(*inputs, **kwargs)
    gradients = torch.autograd.grad((value * upstream).sum(), inputs, materialize_grads=True)
    return value, *gradients


def assert_agree(name, inputs, upstream, **kwargs):
    found, expected = (
        value_and_gradients(getattr(module, name), inputs, upstream, **kwargs)
        for module in (householder_fast, householder)
    )
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("n_reflections", "n_units"), SHAPES)
def test_noise(n_reflections, n_units):
    inputs, upstream = leaves(n_reflections, n_units)
    assert_agree("rotated_noise", inputs, upstream, mean=1.0)


@pytest.mark.parametrize(("n_reflections", "n_units"), SHAPES)
def test_variance(n_reflections, n_units):
    (_, alpha, vectors), upstream = leaves(n_reflections, n_units, seed=1)
    assert_agree("rotated_variance", [alpha, vectors], upstream[0])


def test_a_vector_of_zeros():
    (eps, std, _), upstream = leaves(2, 4)
    vectors = torch.tensor([[1.0, 2, 3, 4], [0, 0, 0, 0]], dtype=torch.float64).requires_grad_()
    assert_agree("rotated_noise", [eps, std, vectors], upstream)
    assert_agree("rotated_variance", [std, vectors], upstream[0])
    slope = value_and_gradients(householder_fast.rotated_variance, [std, vectors], upstream[0])[2]
    assert slope[0].abs().min() > 0
    assert not slope[1].any()


def test_the_triangle_has_half_the_squared_lengths():
    vectors = torch.tensor([[3.0, 4.0], [0.0, 0.0], [1.0, 1.0]])
    R, A = householder_fast.compact(vectors)
    assert R.tril(-1).tolist() == [[0, 0, 0], [0, 0, 0], [7, 0, 0]]
    assert R.diagonal().tolist() == [12.5, float("inf"), 1]
    torch.testing.assert_close(A, householder.compact_form(vectors)[1])
