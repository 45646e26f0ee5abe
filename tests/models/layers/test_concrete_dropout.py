"""Concrete dropout: the relaxed mask, its limits and gradient, and the KL of its rate."""

import pytest
import torch
from torch.distributions import Bernoulli, kl_divergence

from bdl_lessons.models import ConcreteDropout
from bdl_lessons.probability import dropout_mixture, mixture_kl_monte_carlo

N_DRAWS = 200_000


def layer_at(p_drop, n_in=3, n_out=4, **options):
    return ConcreteDropout(p_drop, **options).linear(n_in, n_out).double()


def draws(p_drop, temperature):
    noise = layer_at(p_drop, temperature=temperature).noise
    like = torch.zeros((), dtype=torch.float64)
    return noise.sample(torch.Size([N_DRAWS]), torch.Generator().manual_seed(0), like).detach()


@pytest.mark.parametrize("p_drop", [0.1, 0.5, 0.8])
def test_a_relaxed_mask_drops_with_the_right_probability_at_every_temperature(p_drop):
    error = 4.5 * (p_drop * (1 - p_drop) / N_DRAWS) ** 0.5
    for temperature in (0.01, 0.1, 1.0):
        dropped = 1 - (1 - p_drop) * draws(p_drop, temperature)
        assert ((dropped > -1e-6) & (dropped < 1 + 1e-6)).all()
        assert (dropped > 0.5).double().mean().item() == pytest.approx(p_drop, abs=error)


@pytest.mark.parametrize("p_drop", [0.1, 0.5, 0.8])
def test_a_cold_mask_is_binary_dropout_and_a_hot_one_is_constant(p_drop):
    keep = 1 - p_drop
    cold, hot = draws(p_drop, 1e-6), draws(p_drop, 1e6)
    assert ((cold - 0).abs().minimum((cold - 1 / keep).abs()) < 1e-3).double().mean() > 0.999
    assert cold.mean().item() == pytest.approx(1, abs=4.5 * (p_drop / keep / N_DRAWS) ** 0.5)
    assert cold.var().item() == pytest.approx(p_drop / keep, rel=0.03)
    torch.testing.assert_close(hot, torch.full_like(hot, 0.5 / keep), atol=1e-4, rtol=0)


@pytest.mark.parametrize("make", [lambda f: f.linear(5, 3), lambda f: f.conv2d(5, 3, 2)])
def test_the_kl_is_that_of_the_mask_entries_from_a_fair_coin_and_a_penalty_on_the_weights(make):
    layer = make(ConcreteDropout(0.3, length_scale=0.1)).double()
    coin = kl_divergence(Bernoulli(torch.tensor(0.3).double()), Bernoulli(torch.tensor(0.5)))
    penalty = 0.01 / 2 * (layer.weight.square().sum() / 0.7 + layer.bias.square().sum())
    torch.testing.assert_close(layer.kl(), 5 * coin + penalty, rtol=1e-6, atol=0)
    assert layer.kl().shape == ()


def test_kl_differences_between_rates_are_those_of_the_mixture():
    """Per input a mixture of a kept and a dropped row; its constant does not depend on p_drop."""
    M = torch.tensor([[2.0, -1.5, 1.0, 0.7], [0.8, 1.9, -2.2, 1.1]], dtype=torch.float64)

    def ours(p_drop):
        layer = ConcreteDropout(p_drop, length_scale=0.7).linear(2, 4, bias=False).double()
        with torch.no_grad():
            layer.weight.copy_((1 - p_drop) * M.T)
        return layer.kl().item()

    def sampled(p_drop):
        generator = torch.Generator().manual_seed(0)
        probs, means = dropout_mixture(M.T, p_drop)
        options = {"n_samples": 100_000, "generator": generator}
        kls = [mixture_kl_monte_carlo(probs, row, 0.05**2, 1 / 0.49, **options) for row in means]
        return sum(kl.item() for kl, _ in kls)

    assert ours(0.5) - ours(0.1) == pytest.approx(sampled(0.5) - sampled(0.1), abs=0.03)
