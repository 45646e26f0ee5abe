import pytest
import torch

from bdl_lessons.core.autograd import inside_vmap, known_slope, vmap


def normal(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def product(x, y):
    with torch.no_grad():
        value = x * y
    return known_slope(value, (x, y.detach()), (y, x.detach()))


def half_norm(x):
    with torch.no_grad():
        value = x.square().sum() / 2
    return known_slope(value, (x, x))


def test_the_written_derivative_is_the_one_used():
    x, y = normal(4, 3).requires_grad_(), normal(4, 3, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(product, (x, y))
    assert torch.autograd.gradcheck(half_norm, x)
    torch.testing.assert_close(product(x, y), x * y)
    wrong = known_slope(half_norm(x).detach(), (x, 2 * x.detach()))
    torch.testing.assert_close(torch.autograd.grad(wrong, x)[0], 2 * x)


def test_it_works_side_by_side():
    x, y = normal(5, 3), normal(5, 3, seed=1)

    def loss(x, y):
        return product(x, y).sin().sum() + 3 * half_norm(x)

    gradients = torch.func.vmap(torch.func.grad(loss, argnums=(0, 1)))(x, y)
    cosine = (x * y).cos()
    torch.testing.assert_close(gradients, (y * cosine + 3 * x, x * cosine))
    leaf = x.clone().requires_grad_()
    torch.func.vmap(half_norm)(leaf).sum().backward()
    torch.testing.assert_close(leaf.grad, x)


def test_a_second_derivative_is_refused_and_not_wrong():
    x = normal(3).requires_grad_()
    (slope,) = torch.autograd.grad(3 * half_norm(x).square(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        slope.sum().backward()


def test_shapes_must_fit():
    for value, slope in [(torch.ones(2), torch.ones(2)), (torch.ones(()), torch.ones(2))]:
        with pytest.raises(ValueError, match=r"slope must have the shape of x, \(3,\)"):
            known_slope(value, (torch.ones(3), slope))


def test_every_member_draws_its_own_numbers():
    generator = torch.Generator().manual_seed(0)
    draws = vmap(lambda x: torch.randn(2, generator=generator) + x)(torch.zeros(4))
    assert torch.pdist(draws.reshape(8, 1)).min() > 1e-6


def test_the_flag_is_up_inside_and_down_outside_even_after_an_error():
    seen = []

    def broken(x):
        seen.append(inside_vmap())
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        vmap(broken)(torch.zeros(3))
    assert [*seen, inside_vmap()] == [True, False]
