"""Gaussian and variational dropout: moments, divergence, gradients, bounds."""

import pytest
import torch

from bdl_lessons.models import VariationalDropout, matched_log_alpha
from bdl_lessons.probability import kingma_kl, loguniform_kl
from tests.draws import normal, seeded

K, L, N_DRAWS = 5, 4, 20_000
CHOICES = [("A", "layer"), ("A", "unit"), ("B", "layer"), ("B", "unit"), ("B", "weight")]


def scattered(factory, seed=0):
    """A linear layer whose alphas all differ."""
    layer = factory.linear(K, L).double()
    raw = layer.noise.raw_log_alpha
    with torch.no_grad():
        raw.copy_(-2 * torch.rand(raw.shape, generator=seeded(seed), dtype=torch.float64) - 0.1)
    return layer


def alpha_of_weights(layer):
    """(L, K): the alpha of each weight."""
    return layer.alpha.expand(L, K).detach()


@pytest.mark.parametrize(("noise", "alpha_per"), CHOICES)
def test_activations_have_the_moments_of_the_derivation(noise, alpha_per):
    layer = scattered(VariationalDropout(noise, alpha_per))
    x = normal(K, seed=1)
    y = layer(x.expand(N_DRAWS, K), "per_example", seeded(2)).detach()
    theta = layer.weight.detach()
    terms = theta * x  # (L, K)
    var = (alpha_of_weights(layer) * terms.square()).sum(1)
    assert torch.allclose(
        y.mean(0), terms.sum(1) + layer.bias, atol=4.5 * (var.max() / N_DRAWS) ** 0.5
    )
    assert torch.allclose(y.var(0) / var, torch.ones_like(var), atol=0.06)
    cov = torch.cov(y.T)
    expected = (alpha_of_weights(layer)[0] * terms) @ terms.T if noise == "A" else var.diag()
    assert torch.allclose(cov, expected, atol=0.05 * var.max())


@pytest.mark.parametrize(
    ("noise", "kl_per", "n_terms"),
    [("A", "factor", K), ("A", "weight", K * L), ("B", "factor", K * L), ("B", "weight", K * L)],
)
def test_the_kl_counts_its_terms(noise, kl_per, n_terms):
    layer = VariationalDropout(noise, kl_per=kl_per, kl_scale=0.5, init_p_drop=0.3).linear(K, L)
    one = loguniform_kl(torch.tensor(matched_log_alpha(0.3)))
    torch.testing.assert_close(layer.kl(), 0.5 * n_terms * one)


@pytest.mark.parametrize(("noise", "alpha_per"), CHOICES)
def test_the_kl_adds_up_alphas_that_differ_and_moves_them_and_never_theta(noise, alpha_per):
    layer = scattered(VariationalDropout(noise, alpha_per, kl=kingma_kl, kl_per="weight"))
    expected = kingma_kl(alpha_of_weights(layer).log()).sum()
    torch.testing.assert_close(layer.kl().detach(), expected)
    layer.kl().backward()
    assert layer.weight.grad is None or not layer.weight.grad.any()
    assert (layer.noise.raw_log_alpha.grad < 0).all()


def test_alpha_is_bounded():  # and can come back: see test_structured_dropout
    noise = VariationalDropout(max_alpha=1.0).linear(K, L).noise
    torch.nn.init.constant_(noise.raw_log_alpha, 0.5)
    assert noise.log_alpha == 0
