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
    error = 4.5 * (p_drop * (1 - p_drop) / N_DRAWS) ** 0.5
    for temperature in (0.01, 0.1, 1.0):
        dropped = 1 - (1 - p_drop) * draws(p_drop, temperature)
        assert ((dropped > -1e-6) & (dropped < 1 + 1e-6)).all()
        assert (dropped > 0.5).double().mean().item() == pytest.approx(p_drop, abs=error)


@pytest.mark.parametrize("p_drop", [0.1, 0.8])
def test_a_cold_mask_is_binary_dropout_and_a_hot_one_is_constant(p_drop):
    keep = 1 - p_drop
    cold = draws(p_drop, 1e-6)
    hot = draws(p_drop, 1e6)
    assert ((cold - 0).abs().minimum((cold - 1 / keep).abs()) < 1e-3).double().mean() > 0.999
    assert cold.mean().item() == pytest.approx(1, abs=4.5 * (p_drop / keep / N_DRAWS) ** 0.5)
    assert cold.var().item() == pytest.approx(p_drop / keep, rel=0.06)
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
    coin = kl_divergence(Bernoulli(torch.tensor(0.3).double()), Bernoulli(torch.tensor(0.5)))
    penalty = 0.01 / 2 * (layer.weight.square().sum() / 0.7 + layer.bias.square().sum())
    torch.testing.assert_close(layer.kl(), 5 * coin + penalty, rtol=1e-6, atol=0)
