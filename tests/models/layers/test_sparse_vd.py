import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.distributions import Normal, kl_divergence

from bdl_lessons.models import ARD, SparseVD, ard_kl, log_relative_variance
from bdl_lessons.probability import loguniform_kl, molchanov_kl
from tests.draws import normal, seeded

FACTORIES = [SparseVD(), SparseVD(weight_kl=loguniform_kl), ARD()]


def layers(factory):
    """A linear and a convolutional layer with weights of all sizes, float64."""
    made = [factory.linear(4, 3).double(), factory.conv2d(2, 3, 2).double()]
    for layer in made:
        with torch.no_grad():
            layer.mu.copy_(normal(*layer.mu.shape, seed=1))
            layer.noise.log_sigma2.copy_(3 * normal(*layer.mu.shape, seed=2) - 1)
    return made


@given(st.floats(-5, 5).filter(lambda mu: abs(mu) > 1e-3), st.floats(-8, 8))
def test_ard_kl_is_the_smallest_gaussian_kl_over_the_prior_variance(mu, log_sigma2):
    mu, sigma2 = torch.tensor([mu, log_sigma2], dtype=torch.float64)
    q = Normal(mu, (sigma2 / 2).exp())
    optimum = mu**2 + sigma2.exp()
    around = optimum * torch.linspace(-0.5, 0.5, 101, dtype=torch.float64).exp()
    kls = kl_divergence(q, Normal(0, around.sqrt()))
    assert kls.argmin() == 50
    torch.testing.assert_close(
        ard_kl(log_relative_variance(mu, sigma2)), kls[50], atol=1e-12, rtol=1e-9
    )


@pytest.mark.parametrize("factory", FACTORIES)
def test_kl_is_the_sum_over_weights(factory):
    weight_kl = ard_kl if isinstance(factory, ARD) else factory.weight_kl
    for layer in layers(factory):
        values = layer.noise.log_sigma2 - layer.mu.square().log()
        torch.testing.assert_close(layer.kl(), weight_kl(values).sum())


@pytest.mark.parametrize("factory", FACTORIES)
@pytest.mark.parametrize("mu", [0.0, 1e-45, 1e-39, 1e-30, 1e-20, 1e15])
def test_tiny_and_large_means_have_finite_kl_and_gradients(factory, mu):
    layer = factory.linear(2, 2)
    torch.nn.init.constant_(layer.weight, mu)
    kl = layer.kl()
    kl.backward()
    assert kl.isfinite()
    assert layer.weight.grad.isfinite().all()
    assert layer.noise.log_sigma2.grad.isfinite().all()


@pytest.mark.parametrize("factory", [SparseVD, ARD])
def test_the_clamp_acts_on_the_kl_and_never_on_the_sampled_variance(factory):
    free = factory().linear(3, 2)
    clamped = factory(log_alpha_clamp=(-8, 8)).linear(3, 2)
    for layer in (free, clamped):
        torch.nn.init.constant_(layer.weight, 1e-6)
        torch.nn.init.constant_(layer.noise.log_sigma2, -2.0)  # log_alpha = 25.6
    x = torch.ones(1, 3)
    for layer in (free, clamped):
        _, var = layer.activation_moments(x)
        torch.testing.assert_close(var, torch.full_like(var, 3 * math.exp(-2)))
        draws = layer(x.expand(20_000, 3), "per_example", seeded())
        assert draws[:, 0].var().item() == pytest.approx(3 * math.exp(-2), rel=0.05)
    kl = clamped.kl()
    kl.backward()
    weight_kl = ard_kl if factory is ARD else molchanov_kl
    torch.testing.assert_close(kl, 6 * weight_kl(torch.tensor(8.0)))
    assert not clamped.noise.log_sigma2.grad.any()
    free.kl().backward()
    assert (free.noise.log_sigma2.grad < 0).all()


@pytest.mark.parametrize("factory", [SparseVD, ARD])
@pytest.mark.parametrize("shape", [(5, 4), (5, 2, 6, 6)])
def test_a_threshold_takes_the_noisiest_means_out_and_leaves_their_noise(factory, shape):
    index = len(shape) // 4  # the linear or the convolutional layer
    plain = layers(factory())[index]
    thresholded = layers(factory(threshold=3.0))[index]
    noisy = thresholded.log_alpha >= 3
    assert 0 < noisy.sum() < noisy.numel()
    x = normal(*shape, seed=3)
    mean, var = thresholded.activation_moments(x)
    expected_mean = thresholded.linear_map(x, thresholded.mu * ~noisy, thresholded.bias)
    torch.testing.assert_close(mean, expected_mean)
    torch.testing.assert_close(var, plain.activation_moments(x)[1])
    torch.testing.assert_close(thresholded(x, "mean"), expected_mean)
    draws = thresholded.sample_weights(20_000, seeded())
    std = (thresholded.noise.log_sigma2 / 2).exp()
    far = (draws.mean(0) - thresholded.mu * ~noisy) / (std / 20_000**0.5)
    assert far.abs().max() < 4.5
    torch.testing.assert_close(thresholded.kl(), plain.kl())
