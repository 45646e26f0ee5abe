import math
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.distributions import Normal, kl_divergence

from bdl_lessons.models import ARD, SparseVD, ard_kl, log_relative_variance
from bdl_lessons.probability import loguniform_kl, molchanov_kl
from tests.draws import normal, seeded

KL_OF_WEIGHT = [
    (SparseVD, molchanov_kl),
    (partial(SparseVD, weight_kl=loguniform_kl), loguniform_kl),
    (ARD, ard_kl),
]


def layers(method):
    """A linear and a convolutional layer with weights of all sizes, float64."""
    linear = method(nn.Linear(4, 3)).double()
    conv = method(nn.Conv2d(2, 3, 2)).double()
    for layer in (linear, conv):
        with torch.no_grad():
            layer.mu.copy_(normal(*layer.mu.shape, seed=1))
            layer.log_sigma2.copy_(3 * normal(*layer.mu.shape, seed=2) - 1)
    return [linear, conv]


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


@pytest.mark.parametrize(("method", "weight_kl"), KL_OF_WEIGHT)
def test_kl_is_the_sum_over_weights(method, weight_kl):
    for layer in layers(method):
        values = layer.log_sigma2 - layer.mu.square().log()
        torch.testing.assert_close(layer.kl(), weight_kl(values).sum())


@pytest.mark.parametrize(("method", "weight_kl"), KL_OF_WEIGHT)
@pytest.mark.parametrize("mu", [0.0, 1e-45, 1e-39, 1e-30, 1e-20, 1e15])
def test_tiny_and_large_means_have_finite_kl_and_gradients(method, weight_kl, mu):
    layer = method(nn.Linear(2, 2))
    torch.nn.init.constant_(layer.weight, mu)
    kl = layer.kl()
    kl.backward()
    assert kl.isfinite()
    assert layer.weight.grad.isfinite().all()
    assert layer.log_sigma2.grad.isfinite().all()


@pytest.mark.parametrize(("method", "weight_kl"), [(SparseVD, molchanov_kl), (ARD, ard_kl)])
def test_the_clamp_acts_on_the_kl_and_never_on_the_sampled_variance(method, weight_kl):
    free = method(nn.Linear(3, 2))
    clamped = method(nn.Linear(3, 2), log_alpha_clamp=(-8, 8))
    for layer in (free, clamped):
        torch.nn.init.constant_(layer.weight, 1e-6)
        torch.nn.init.constant_(layer.log_sigma2, -2.0)  # log_alpha = 25.6
    x = torch.ones(1, 3)
    for layer in (free, clamped):
        _, var = layer.activation_moments(x)
        torch.testing.assert_close(var, torch.full_like(var, 3 * math.exp(-2)))
        draws = layer(x.expand(20_000, 3), "per_example", seeded())
        assert draws[:, 0].var().item() == pytest.approx(3 * math.exp(-2), rel=0.05)
    kl = clamped.kl()
    kl.backward()
    torch.testing.assert_close(kl, 6 * weight_kl(torch.tensor(8.0)))
    assert not clamped.log_sigma2.grad.any()
    free.kl().backward()
    assert (free.log_sigma2.grad < 0).all()


@pytest.mark.parametrize(("method", "weight_kl"), [(SparseVD, molchanov_kl), (ARD, ard_kl)])
def test_the_clamp_has_a_lower_end_too(method, weight_kl):
    layer = method(nn.Linear(3, 2), init_log_sigma2=-12.0, log_alpha_clamp=(-8, 8))
    torch.nn.init.constant_(layer.weight, 1.0)  # log_alpha = -12
    torch.testing.assert_close(layer.kl(), 6 * weight_kl(torch.tensor(-8.0)))


@pytest.mark.parametrize("method", [SparseVD, ARD])
@pytest.mark.parametrize("shape", [(5, 4), (5, 2, 6, 6)])
def test_a_threshold_takes_the_noisiest_means_out_and_leaves_their_noise(method, shape):
    index = len(shape) // 4  # the linear or the convolutional layer
    plain = layers(method)[index]
    thresholded = layers(partial(method, threshold=3.0))[index]
    noisy = thresholded.log_alpha >= 3
    assert 0 < noisy.sum() < noisy.numel()
    x = normal(*shape, seed=3)
    mean, var = thresholded.activation_moments(x)
    expected_mean = thresholded.product(x, thresholded.mu * ~noisy, thresholded.bias)
    torch.testing.assert_close(mean, expected_mean)
    torch.testing.assert_close(var, plain.activation_moments(x)[1])
    torch.testing.assert_close(thresholded(x, "mean"), expected_mean)
    draws = thresholded.draw_weights(20_000, seeded())
    std = (thresholded.log_sigma2 / 2).exp()
    far = (draws.mean(0) - thresholded.mu * ~noisy) / (std / 20_000**0.5)
    assert far.abs().max() < 4.5
    torch.testing.assert_close(thresholded.kl(), plain.kl())
