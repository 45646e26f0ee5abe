"""The written gradients against those that autograd traces through the K x K matrix."""

import pytest
import torch

from bdl_lessons.probability import orthogonal_matrix, rotated_noise, rotated_variance
from bdl_lessons.probability.householder_fast import triangle

SHAPES = [(1, 1), (1, 5), (2, 5), (3, 1), (5, 5), (7, 4)]


def leaves(n_reflections, n_units, seed=0):
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    vectors, std, eps = normal(n_reflections, n_units), normal(n_units).exp(), normal(6, n_units)
    upstream = normal(6, n_units)
    return [leaf.requires_grad_() for leaf in (eps, std, vectors)], upstream


@pytest.mark.parametrize(("n_reflections", "n_units"), SHAPES)
def test_noise(n_reflections, n_units):
    (eps, std, vectors), upstream = leaves(n_reflections, n_units)
    traced = 1 + (eps * std) @ orthogonal_matrix(vectors).T
    expected = torch.autograd.grad((traced * upstream).sum(), (eps, std, vectors))
    written = rotated_noise(eps, std, vectors, mean=1.0)
    actual = torch.autograd.grad((written * upstream).sum(), (eps, std, vectors))
    torch.testing.assert_close(written, traced)
    torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("n_reflections", "n_units"), SHAPES)
def test_variance(n_reflections, n_units):
    (_, alpha, vectors), upstream = leaves(n_reflections, n_units, seed=1)
    U = orthogonal_matrix(vectors)
    traced = ((U * alpha) @ U.T).diagonal()
    expected = torch.autograd.grad(traced @ upstream[0], (alpha, vectors))
    written = rotated_variance(alpha, vectors)
    actual = torch.autograd.grad(written @ upstream[0], (alpha, vectors))
    torch.testing.assert_close(written, traced)
    torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-10)


def test_a_vector_of_zeros_has_no_gradient():
    (eps, std, _), upstream = leaves(2, 4)
    vectors = torch.tensor([[1.0, 2, 3, 4], [0, 0, 0, 0]], dtype=torch.float64).requires_grad_()
    loss = (rotated_noise(eps, std, vectors) * upstream).sum()
    loss = loss + rotated_variance(std, vectors) @ upstream[0]
    (slope,) = torch.autograd.grad(loss, vectors)
    assert slope[0].abs().min() > 0
    assert not slope[1].any()


def test_the_triangle_has_half_the_squared_lengths():
    vectors = torch.tensor([[3.0, 4.0], [0.0, 0.0], [1.0, 1.0]])
    R = triangle(vectors)
    assert R.tril(-1).tolist() == [[0, 0, 0], [0, 0, 0], [7, 0, 0]]
    assert R.diagonal().tolist() == [12.5, float("inf"), 1]
