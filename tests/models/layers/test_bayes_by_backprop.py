import pytest
import torch
from torch.distributions import Normal, kl_divergence

from bdl_lessons.models import BayesByBackprop


@pytest.mark.parametrize("kind", ["linear", "conv2d"])
def test_kl_is_the_sum_over_weights_to_the_prior(kind):
    factory = BayesByBackprop(prior_var=0.3, init_log_sigma2=-2.0)
    layer = factory.linear(5, 4) if kind == "linear" else factory.conv2d(5, 4, 3)
    layer = layer.double()
    with torch.no_grad():
        layer.noise.log_sigma2.normal_(-1, 1, generator=torch.Generator().manual_seed(0))
    q = Normal(layer.mu, layer.noise.log_sigma2.exp().sqrt())
    p = Normal(torch.zeros_like(layer.mu), 0.3**0.5)
    torch.testing.assert_close(layer.kl(), kl_divergence(q, p).sum())
    assert layer.kl().dim() == 0


def test_kl_is_zero_at_the_prior_and_has_gradients_elsewhere():
    layer = BayesByBackprop(prior_var=0.5, init_log_sigma2=torch.tensor(0.5).log().item())
    layer = layer.linear(3, 2)
    with torch.no_grad():
        layer.weight.zero_()
    assert layer.kl().item() == pytest.approx(0, abs=1e-6)
    with torch.no_grad():
        layer.weight.fill_(2)
    layer.kl().backward()
    torch.testing.assert_close(layer.weight.grad, torch.full((2, 3), 4.0))


@pytest.mark.parametrize(
    ("argument", "value"),
    [("prior_var", 0.0), ("prior_var", float("nan")), ("init_log_sigma2", float("inf"))],
)
def test_bad_settings_are_refused(argument, value):
    with pytest.raises(ValueError, match=argument):
        BayesByBackprop(**{argument: value})
