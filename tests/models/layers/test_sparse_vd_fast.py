"""The sums in one pass against the elementwise formulas, traced by autograd."""

import pytest
import torch

from bdl_lessons.models import ARD, SparseVD, ard_kl, log_alpha
from bdl_lessons.models.layers.sparse_vd_fast import ard_kl_sum, molchanov_kl_sum
from bdl_lessons.probability import molchanov_kl

CASES = [(ard_kl_sum, ard_kl), (molchanov_kl_sum, molchanov_kl)]


def weights(n=500, dtype=torch.float64):
    """Means and log variances with log alpha between about -25 and 45."""
    generator = torch.Generator().manual_seed(0)
    mu, log_sigma2 = torch.randn(2, n, generator=generator, dtype=torch.float64)
    mu = mu * torch.logspace(-8, 3, n, dtype=torch.float64)
    return mu.to(dtype).requires_grad_(), (4 * log_sigma2 - 6).to(dtype).requires_grad_()


@pytest.mark.parametrize(("fast", "elementwise"), CASES)
@pytest.mark.parametrize(("dtype", "rtol"), [(torch.float64, 1e-11), (torch.float32, 3e-6)])
def test_value_and_gradients_are_those_of_the_formula(fast, elementwise, dtype, rtol):
    leaves = weights()
    expected = elementwise(log_alpha(*leaves)).sum()
    gradients = torch.autograd.grad(expected, leaves)
    own_leaves = [leaf.detach().to(dtype).requires_grad_() for leaf in leaves]
    own = fast(*own_leaves)
    own_gradients = torch.autograd.grad(own, own_leaves)
    torch.testing.assert_close(own.double(), expected, rtol=rtol, atol=0)
    for actual, exact in zip(own_gradients, gradients, strict=True):
        torch.testing.assert_close(actual.double(), exact, rtol=20 * rtol, atol=1e-9)


@pytest.mark.parametrize(("fast", "elementwise"), CASES)
def test_gradcheck_and_side_by_side(fast, elementwise):
    mu, log_sigma2 = (leaf.detach()[200:212] for leaf in weights())
    leaves = (mu.clone().requires_grad_(), log_sigma2.clone().requires_grad_())
    assert torch.autograd.gradcheck(fast, leaves)
    stacked = torch.func.vmap(torch.func.grad_and_value(fast, argnums=(0, 1)))(
        mu.view(3, 4), log_sigma2.view(3, 4)
    )
    gradients, values = stacked
    torch.testing.assert_close(values.sum(), elementwise(log_alpha(mu, log_sigma2)).sum())
    for stack, leaf in zip(gradients, leaves, strict=True):
        (expected,) = torch.autograd.grad(fast(*leaves), leaf)
        torch.testing.assert_close(stack.flatten(), expected)


@pytest.mark.parametrize(("fast", "elementwise"), CASES)
@pytest.mark.parametrize("mu", [0.0, 1e-45, 1e-30])
def test_a_mean_at_zero_costs_nothing_and_pulls_nowhere(fast, elementwise, mu):
    leaves = (torch.full((3,), mu).requires_grad_(), torch.zeros(3).requires_grad_())
    kl = fast(*leaves)
    assert kl.item() == pytest.approx(0, abs=1e-30)
    for slope in torch.autograd.grad(kl, leaves):
        torch.testing.assert_close(slope, torch.zeros(3), rtol=0, atol=1e-29)


@pytest.mark.parametrize("factory", [SparseVD(), ARD()])
def test_a_layer_falls_back_where_squares_overflow(factory):
    layer = factory.linear(2, 2)
    torch.nn.init.constant_(layer.weight, 1e30)
    expected = factory._weight_kl(log_alpha(layer.mu, layer.noise.log_sigma2)).sum()
    torch.testing.assert_close(layer.kl(), expected)
