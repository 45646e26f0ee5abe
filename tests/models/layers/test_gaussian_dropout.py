"""Gaussian and variational dropout: moments, divergence, gradients, bounds."""

import pytest
import torch
from torch import nn

from bdl_lessons.models import VariationalDropout, VariationalDropoutB, matched_log_alpha
from bdl_lessons.probability import kingma_kl, loguniform_kl
from tests.draws import normal, seeded

K, L, N_DRAWS = 5, 4, 20_000
CHOICES = [
    (VariationalDropout, "layer"),
    (VariationalDropout, "unit"),
    (VariationalDropoutB, "layer"),
    (VariationalDropoutB, "unit"),
    (VariationalDropoutB, "weight"),
]


def scattered(method, alpha_per, seed=0, **settings):
    """A linear layer whose alphas all differ."""
    layer = method(nn.Linear(K, L), alpha_per, **settings).double()
    raw = layer.raw_log_alpha
    with torch.no_grad():
        raw.copy_(-2 * torch.rand(raw.shape, generator=seeded(seed), dtype=torch.float64) - 0.1)
    return layer


def alpha_of_weights(layer):
    """(L, K): the alpha of each weight."""
    return layer.alpha.expand(L, K).detach()


@pytest.mark.parametrize(("method", "alpha_per"), CHOICES)
def test_activations_have_the_moments_of_the_derivation(method, alpha_per):
    layer = scattered(method, alpha_per)
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
    if method is VariationalDropout:  # the outputs share the factors of their inputs
        expected = (alpha_of_weights(layer)[0] * terms) @ terms.T
    else:
        expected = var.diag()
    assert torch.allclose(cov, expected, atol=0.05 * var.max())


def test_the_kl_counts_its_terms():
    kl_of_one = loguniform_kl(torch.tensor(matched_log_alpha(0.3)))
    for kl_per, n_terms in (("factor", K), ("weight", K * L)):
        layer = VariationalDropout(nn.Linear(K, L), init_p_drop=0.3, kl_scale=0.5, kl_per=kl_per)
        torch.testing.assert_close(layer.kl(), 0.5 * n_terms * kl_of_one)
    layer = VariationalDropoutB(nn.Linear(K, L), init_p_drop=0.3)
    torch.testing.assert_close(layer.kl(), K * L * kl_of_one)


@pytest.mark.parametrize(("method", "alpha_per"), CHOICES)
def test_the_kl_adds_up_alphas_that_differ_and_moves_them_and_never_theta(method, alpha_per):
    per_weight = {"kl_per": "weight"} if method is VariationalDropout else {}
    layer = scattered(method, alpha_per, kl=kingma_kl, **per_weight)
    expected = kingma_kl(alpha_of_weights(layer).log()).sum()
    torch.testing.assert_close(layer.kl().detach(), expected)
    layer.kl().backward()
    assert layer.weight.grad is None or not layer.weight.grad.any()
    assert (layer.raw_log_alpha.grad < 0).all()


def test_alpha_is_bounded():  # and can come back: see test_structured_dropout
    for method in (VariationalDropout, VariationalDropoutB):
        layer = method(nn.Linear(K, L), max_alpha=1.0)
        nn.init.constant_(layer.raw_log_alpha, 0.5)
        assert layer.log_alpha == 0
