"""Multiplicative normalizing flows: the flow, and the bound on the KL."""

from functools import partial

import pytest
import torch
from torch import nn
from torch.distributions import Normal

from bdl_lessons.core.autograd import vmap
from reproductions.posteriors.mnf import MNF, MaskedRealNVP
from tests.draws import normal, seeded

from .test_matrix_posteriors import KINDS, started, times

WITH_FLOWS = partial(MNF, widths=(4, 5))


def new_flow(n_steps=3):
    """Of four numbers."""
    flow = MaskedRealNVP(4, 6, n_steps).double()
    flow.reset_parameters(seeded(1))
    return flow


@pytest.mark.parametrize("seed", range(5))
def test_log_det_is_that_of_the_jacobian(seed):
    flow = new_flow()

    def end(z):
        return flow(z, seeded(seed))[0]

    z = normal(4, seed=2)
    _, log_det = flow(z, seeded(seed))
    jacobian = torch.autograd.functional.jacobian(end, z)
    torch.testing.assert_close(log_det, torch.linalg.slogdet(jacobian).logabsdet)


def test_every_row_has_masks_of_its_own_and_kept_numbers_stay():
    end, log_det = new_flow(n_steps=1)(torch.ones(1000, 4, dtype=torch.float64), seeded(3))
    is_kept = end == 1
    assert len(is_kept.unique(dim=0)) == 16  # bits: Booleans
    assert abs(is_kept.double().mean() - 0.5) < 4 * (0.25 / 4000) ** 0.5
    assert log_det.shape == (1000,)


@pytest.mark.parametrize("kind", KINDS)
def test_the_kl_is_the_mean_log_ratio_at_explicit_draws_of_factors_and_weights(kind):
    """The traps of ports: c meets the filters' axis, and c'W has variance sum c**2 sigma**2."""
    layer = started(WITH_FLOWS, kind)
    n_draws = 4000
    with torch.no_grad():
        layer.aux_in.add_(0.3)
        layer.aux_mean.add_(0.7)
        layer.aux_precision.add_(0.7)
        layer.weight.add_(0.5)  # so that a is not 0 in the mean
        layer.z_mean.add_(1)
        layer.log_sigma2.add_(1)
        log_ratios = explicit_log_ratios(layer, kind, n_draws, seeded(6))
        layer._generator = seeded(7)
        estimates = vmap(lambda _: layer.kl())(torch.zeros(n_draws))
    standard_error = ((estimates.var() + log_ratios.var()) / n_draws) ** 0.5
    assert abs(estimates.mean() - log_ratios.mean()) < 4 * standard_error


def explicit_log_ratios(layer, kind, n_draws, generator):
    """``log q(z, W) - log p(W) - log r(z | W)`` at draws of z and then of W."""
    eps = torch.randn(n_draws, len(layer.z_mean), generator=generator, dtype=torch.float64)
    start_std = (layer.z_log_var / 2).exp()
    z, log_det = layer.flow(layer.z_mean + start_std * eps, generator)
    log_q_z = Normal(torch.zeros(1), start_std).log_prob(start_std * eps).sum(-1) - log_det

    mean = torch.stack([times(layer, factors) for factors in z])
    sigma = (layer.log_sigma2 / 2).exp()
    W = mean + sigma * torch.randn(mean.shape, generator=generator, dtype=torch.float64)
    log_q_W = Normal(mean, sigma).log_prob(W).sum((1, 2))
    log_p_W = Normal(torch.zeros(1), 1.0).log_prob(W).sum((1, 2))

    if kind == "conv":
        a = torch.einsum("j,njk->nk", layer.aux_in, W).mean(1)
    else:
        a = torch.einsum("k,njk->nj", layer.aux_in, W[:, :, :3]).tanh().mean(1)
    end, aux_log_det = layer.aux_flow(z, generator)
    std = torch.exp(-layer.aux_precision * a[:, None] / 2)
    log_r = Normal(layer.aux_mean * a[:, None], std).log_prob(end).sum(-1) + aux_log_det
    return log_q_z + log_q_W - log_p_W - log_r


def test_the_kl_of_a_layer_that_never_ran_is_refused():
    with pytest.raises(ValueError, match="run the layer"):
        MNF(nn.Linear(3, 2)).kl()
