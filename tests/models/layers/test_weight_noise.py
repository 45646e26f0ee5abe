import pytest
import torch
from torch import nn
from torch.distributions import Normal, kl_divergence

from bdl_lessons.models import BayesByBackprop
from bdl_lessons.models.layers.base import add_noise
from tests.draws import seeded

N_DRAWS = 20_000


def filled(layer):
    """The layer in float64 with means of size 1 and variances that differ from weight to weight."""
    g = seeded(10)
    layer = layer.double()
    with torch.no_grad():
        layer.weight.normal_(generator=g)
        layer.bias.normal_(generator=g)
        layer.log_sigma2.normal_(-1, 0.5, generator=g)
    return layer


@pytest.fixture(params=["linear", "conv"])
def case(request):
    g = seeded(1)
    if request.param == "linear":
        inner = nn.Linear(4, 3)
        x = torch.randn(6, 4, generator=g).double()
    else:
        inner = nn.Conv2d(4, 3, 2)
        x = torch.randn(6, 4, 3, 3, generator=g).double()
    return filled(BayesByBackprop(inner, prior_var=0.3)), x


def plain(layer, x, weight):
    if isinstance(layer.inner, nn.Linear):
        return x @ weight.T + layer.bias
    return nn.functional.conv2d(x, weight, layer.bias)


def test_activation_moments_are_those_of_a_sum_of_independent_weights(case):
    """Each weight adds its variance times the square of what an activation gains by the weight."""
    layer, x = case
    mean = plain(layer, x, layer.weight)
    effects = torch.func.jacrev(lambda weight: plain(layer, x, weight))(layer.weight)
    var = (effects.square() * layer.log_sigma2.exp()).flatten(mean.dim()).sum(-1)
    torch.testing.assert_close(layer.activation_moments(x), (mean, var))


def test_conv_example_draws_each_place_on_its_own_and_function_shares_the_filter():
    conv = filled(BayesByBackprop(nn.Conv2d(4, 3, 2)))
    x = torch.ones(N_DRAWS, 1, 4, 2, 3, dtype=torch.float64)
    for sampling, expected in [("per_example", 0.0), ("shared", 1.0)]:
        with torch.no_grad():
            y = conv(x, sampling, seeded(6))[:, 0, 0, 0]
        assert torch.corrcoef(y.T)[0, 1].item() == pytest.approx(expected, abs=0.03)


def test_a_variance_that_rounding_left_below_zero_is_no_noise_and_has_no_slope():
    var = torch.tensor([-1e-7, 0.0, 1.0], requires_grad=True)
    y = add_noise(torch.zeros(3), var, torch.ones(3))
    torch.testing.assert_close(y, torch.tensor([0.0, 0.0, 1.0]))
    (slope,) = torch.autograd.grad(y.sum(), var)
    assert slope.tolist() == [0.0, 0.0, 0.5]


def test_kl_is_the_sum_over_weights_to_the_prior(case):
    layer, _ = case
    q = Normal(layer.mu, layer.log_sigma2.exp().sqrt())
    torch.testing.assert_close(layer.kl(), kl_divergence(q, Normal(0.0, 0.3**0.5)).sum())
