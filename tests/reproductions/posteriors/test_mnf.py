"""Multiplicative normalizing flows: the flow, and the bound on the KL."""

from functools import partial

import pytest
import torch
from torch import nn
from torch.distributions import Normal

from bdl_lessons.core.autograd import vmap
from reproductions.posteriors.mnf import MNF, MaskedRealNVP
from tests.draws import seeded

from .test_matrix_posteriors import KINDS, started, times

WITH_FLOWS = partial(MNF, widths=(4, 5))


def flow(n_steps=3):
    made = MaskedRealNVP(4, 6, n_steps).double()
    made.reset_parameters(seeded(1))
    return made


def test_log_det_is_that_of_the_jacobian():
    f = flow()
    z = torch.randn(4, generator=seeded(2), dtype=torch.float64)
    for seed in range(5):
        _, log_det = f(z, seeded(seed))
        jacobian = torch.autograd.functional.jacobian(lambda z, s=seed: f(z, seeded(s))[0], z)
        torch.testing.assert_close(log_det, torch.linalg.slogdet(jacobian)[1])


def test_every_row_has_masks_of_its_own_and_kept_numbers_stay():
    out, log_det = flow(n_steps=1)(torch.ones(1000, 4, dtype=torch.float64), seeded(3))
    kept = out == 1
    assert len(kept.unique(dim=0)) == 16  # bits: Booleans
    assert abs(kept.double().mean() - 0.5) < 4 * (0.25 / 4000) ** 0.5
    assert log_det.shape == (1000,)


@pytest.mark.parametrize("kind", KINDS)
def test_the_kl_is_the_mean_log_ratio_at_explicit_draws_of_factors_and_weights(kind):
    """The traps of ports: c meets the filters' axis, and c'W has variance sum c**2 sigma**2."""
    layer = started(WITH_FLOWS, kind)
    n = 4000
    g = seeded(6)
    with torch.no_grad():
        for parameter in (layer.aux_in, layer.aux_mean, layer.aux_precision):
            parameter.add_(0.3 if parameter is layer.aux_in else 0.7)
        layer.weight.add_(0.5)  # so that a is not 0 in the mean
        layer.z_mean.add_(1)
        layer.log_sigma2.add_(1)
        eps = torch.randn(n, len(layer.z_mean), generator=g, dtype=torch.float64)
        s0 = (layer.z_log_var / 2).exp()
        z, log_det = layer.flow(layer.z_mean + s0 * eps, g)
        log_q = Normal(torch.zeros(1), s0).log_prob(s0 * eps).sum(-1) - log_det
        mean = torch.stack([times(layer, row) for row in z])
        sigma = (layer.log_sigma2 / 2).exp()
        W = mean + sigma * torch.randn(mean.shape, generator=g, dtype=torch.float64)
        log_q = log_q + Normal(mean, sigma).log_prob(W).sum((1, 2))
        log_p = Normal(torch.zeros(1), 1.0).log_prob(W).sum((1, 2))
        if kind == "conv":
            a = torch.einsum("j,njk->nk", layer.aux_in, W).mean(1)
        else:
            a = torch.einsum("k,njk->nj", layer.aux_in, W[:, :, :3]).tanh().mean(1)
        end, aux_log_det = layer.aux_flow(z, g)
        std = torch.exp(-layer.aux_precision * a[:, None] / 2)
        log_r = Normal(layer.aux_mean * a[:, None], std).log_prob(end).sum(-1) + aux_log_det
        explicit = log_q - log_p - log_r
        layer._generator = g
        draws = vmap(lambda _: layer.kl())(torch.zeros(n))
    error = ((draws.var() + explicit.var()) / n) ** 0.5
    assert abs(draws.mean() - explicit.mean()) < 4 * error


def test_the_kl_of_a_layer_that_never_ran_is_refused():
    with pytest.raises(ValueError, match="run the layer"):
        MNF(nn.Linear(3, 2)).kl()
