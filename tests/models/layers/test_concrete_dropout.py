"""Concrete dropout: the relaxed mask, its limits and gradient, and the KL of its rate."""

import pytest
import torch
from torch import nn
from torch.distributions import Bernoulli, kl_divergence

from bdl_lessons.models import ConcreteDropout

N_DRAWS = 50_000


def draws(p_drop, temperature):
    layer = ConcreteDropout(nn.Linear(3, 4), p_drop, temperature=temperature).double()
    return layer.draw_xi((N_DRAWS,), torch.Generator().manual_seed(0)).detach()


@pytest.mark.parametrize("p_drop", [0.1, 0.5, 0.8])
def test_a_relaxed_mask_drops_with_the_right_probability_at_every_temperature(p_drop):
    keep = 1 - p_drop
    standard_error = (p_drop * keep / N_DRAWS) ** 0.5
    for temperature in (0.01, 0.1, 1.0):
        dropped = 1 - keep * draws(p_drop, temperature)
        assert dropped.min() > -1e-6
        assert dropped.max() < 1 + 1e-6
        share = (dropped > 0.5).double().mean()
        assert share.item() == pytest.approx(p_drop, abs=4.5 * standard_error)


@pytest.mark.parametrize("p_drop", [0.1, 0.8])
def test_a_cold_mask_is_binary_dropout_and_a_hot_one_is_constant(p_drop):
    keep = 1 - p_drop
    variance = p_drop / keep

    cold = draws(p_drop, 1e-6)
    distance = torch.minimum(cold.abs(), (cold - 1 / keep).abs())
    is_binary = distance < 1e-3
    assert is_binary.double().mean() > 0.999
    assert cold.mean().item() == pytest.approx(1, abs=4.5 * (variance / N_DRAWS) ** 0.5)
    assert cold.var().item() == pytest.approx(variance, rel=0.06)

    hot = draws(p_drop, 1e6)
    torch.testing.assert_close(hot, torch.full_like(hot, 0.5 / keep), atol=1e-4, rtol=0)


def test_a_rare_mask_is_drawn_in_float32_under_half_weights():
    layer = ConcreteDropout(nn.Linear(3, 4), init_p_drop=0.002).to(torch.bfloat16)
    xi = layer.draw_xi((N_DRAWS,), torch.Generator().manual_seed(0))
    assert xi.dtype == torch.bfloat16
    share = (xi < 0.5).double().mean().item()
    assert share == pytest.approx(0.002, abs=5 * (0.002 / N_DRAWS) ** 0.5)


@pytest.mark.parametrize("inner", [nn.Linear(5, 3), nn.Conv2d(5, 3, 2)], ids=["linear", "conv2d"])
def test_the_kl_is_that_of_the_mask_entries_from_a_fair_coin_and_a_penalty_on_the_weights(inner):
    layer = ConcreteDropout(inner, 0.3, length_scale=0.1).double()
    p_drop = torch.tensor(0.3, dtype=torch.float64)
    fair_coin = Bernoulli(torch.tensor(0.5))
    of_masks = 5 * kl_divergence(Bernoulli(p_drop), fair_coin)
    of_weights = 0.1**2 / 2 * layer.weight.square().sum() / 0.7
    of_biases = 0.1**2 / 2 * layer.bias.square().sum()
    expected = of_masks + of_weights + of_biases
    torch.testing.assert_close(layer.kl(), expected, rtol=1e-6, atol=0)
