import math
from copy import deepcopy
from functools import partial

import pytest
import torch
from scipy.stats import ks_2samp
from torch.distributions import MultivariateNormal, Normal, kl_divergence

from bdl_lessons.core.autograd import vmap
from bdl_lessons.inference import BatchedNetworks, adam, fit_batched, predict, predict_batched
from bdl_lessons.models import initialise, lenet5, mlp
from bdl_lessons.probability import gaussian_nll
from reproductions.posteriors.mnf import MNF

from .distributions import assert_moments, design, generator, started

N_DRAWS = 10_000
SMALL = MNF(widths=(4, 5))
NO_FLOW = MNF(n_flows=0)
KINDS = ["linear", "conv", "no bias"]


def make(factory, kind):
    """A layer with variances that are seen in draws."""
    linear = kind != "conv"
    layer = factory.linear(3, 2, bias=kind == "linear") if linear else factory.conv2d(2, 3, 2)
    with torch.no_grad():
        layer.noise.log_sigma2.fill_(-2)
        if layer.bias is not None:
            layer.noise.log_sigma2[:, -1] = -1
    return started(layer), (3,) if linear else (2, 3, 3)


def inputs(n, shape):
    return torch.randn(n, *shape, generator=generator(1), dtype=torch.float64)


def times(layer, z):
    """The mean matrix given the factors, element by element."""
    mean = layer.mu.detach().clone()
    for j in range(mean.shape[0]):
        for k in range(mean.shape[1]):
            if isinstance(layer, torch.nn.Conv2d):
                mean[j, k] *= z[j]
            elif k < len(z):
                mean[j, k] *= z[k]
    return mean


def dense_gaussian(layer):
    """Without flows the factors are Gaussian, and so are the weights: their mean and covariance."""
    posterior = layer.noise
    n_factors = len(posterior.z_mean)
    mean = times(layer, posterior.z_mean.detach()).flatten()
    zero = times(layer, torch.zeros(n_factors))
    units = torch.eye(n_factors).double()
    J = torch.stack([(times(layer, u) - zero).flatten() for u in units], -1)
    cov = J @ posterior.z_log_var.exp().diag() @ J.T + posterior.log_sigma2.exp().flatten().diag()
    return mean, cov.detach()


def kl_draws(layer, n=4000, seed=5):
    layer.noise._generator = generator(seed)
    with torch.no_grad():
        return vmap(lambda _: layer.kl())(torch.zeros(n))


def standard_error(draws):
    return draws.std() / len(draws) ** 0.5


@pytest.mark.parametrize("kind", KINDS)
def test_without_flows_the_weights_have_the_dense_gaussian(kind):
    layer, _ = make(NO_FLOW, kind)
    with torch.no_grad():
        assert_moments(
            layer.sample_weights(N_DRAWS, generator(2)).flatten(1), *dense_gaussian(layer)
        )


def test_rows_of_an_example_have_the_distribution_of_a_matrix_each():
    layer, shape = make(NO_FLOW, "linear")
    x = inputs(1, shape)
    with torch.no_grad():
        y = layer(x.expand(N_DRAWS, 3), "per_example", generator(3))
    mean, cov = dense_gaussian(layer)
    A = design(layer, x)[0]
    assert_moments(y, A @ mean, A @ cov @ A.T)
    assert abs(torch.corrcoef(y.reshape(-1, 4).T)[0, 2]) < 5 / (N_DRAWS / 2) ** 0.5


def test_a_channel_has_one_factor_at_all_places_and_for_its_bias():
    """The diagonal part is small here, because its places are drawn on their own."""
    layer, shape = make(NO_FLOW, "conv")
    x = inputs(1, shape)
    with torch.no_grad():
        layer.noise.log_sigma2.fill_(-12)
        y = layer(x.expand(N_DRAWS, *shape), "per_example", generator(3)).flatten(1)
    mean, cov = dense_gaussian(layer)
    A = design(layer, x)[0]
    assert_moments(y, A @ mean, A @ cov @ A.T)


@pytest.mark.parametrize("kind", ["linear", "conv"])
def test_with_flows_example_and_function_have_one_distribution(kind):
    layer, shape = make(SMALL, kind)
    x = inputs(1, shape)
    with torch.no_grad():
        one = layer(x.expand(3000, *shape), "per_example", generator(3)).flatten(1)
        other = layer(x.expand(3000, 1, *shape), "shared", generator(4)).flatten(1)
    for unit in range(one.shape[1]):
        assert ks_2samp(one[:, unit], other[:, unit]).pvalue > 1e-4


@pytest.mark.parametrize("kind", ["linear", "conv"])
def test_without_flows_and_with_a_blind_guess_the_kl_is_a_sum_of_two(kind):
    """r ignores W: KL of the weights given z, averaged, and KL of the factors to N(0, 1)."""
    layer, _ = make(NO_FLOW, kind)
    posterior = layer.noise
    with torch.no_grad():
        for parameter in (posterior.aux_mean, posterior.aux_precision):
            parameter.zero_()
        second = posterior.z_mean.square() + posterior.z_log_var.exp()
        square = times(layer, second.sqrt()).square()
        sigma2 = posterior.log_sigma2.exp()
        expected = (sigma2 + square - 1 - sigma2.log()).sum() / 2
        q = Normal(posterior.z_mean, (posterior.z_log_var / 2).exp())
        expected = expected + kl_divergence(q, Normal(torch.zeros_like(q.loc), 1)).sum()
    draws = kl_draws(layer)
    assert abs(draws.mean() - expected) < 4 * standard_error(draws)


def test_the_kl_is_an_upper_bound_that_a_better_guess_tightens():
    layer, _ = make(NO_FLOW, "conv")
    mean, cov = dense_gaussian(layer)
    prior = MultivariateNormal(torch.zeros_like(mean), torch.eye(len(mean)).double())
    exact = kl_divergence(MultivariateNormal(mean, cov), prior)
    before = kl_draws(layer)
    posterior = layer.noise
    stepper = torch.optim.Adam(
        [posterior.aux_in, posterior.aux_mean, posterior.aux_precision], lr=0.05
    )
    for _ in range(60):
        stepper.zero_grad()
        vmap(lambda _: layer.kl())(torch.zeros(50)).mean().backward()
        stepper.step()
    after = kl_draws(layer)
    assert after.mean() < before.mean() - 4 * standard_error(before)
    assert after.mean() > exact - 4 * standard_error(after)


@pytest.mark.parametrize("kind", KINDS)
def test_the_kl_is_the_mean_log_ratio_at_explicit_draws_of_factors_and_weights(kind):
    """The traps of ports: c meets the filters' axis, and c'W has variance sum c**2 sigma**2."""
    layer, _ = make(SMALL, kind)
    posterior, n = layer.noise, 4000
    g = generator(6)
    with torch.no_grad():
        for parameter in (posterior.aux_in, posterior.aux_mean, posterior.aux_precision):
            parameter.mul_(4)
        posterior.log_sigma2.add_(2)
        eps = torch.randn(n, len(posterior.z_mean), generator=g, dtype=torch.float64)
        s0 = (posterior.z_log_var / 2).exp()
        z, log_det = posterior.flow(posterior.z_mean + s0 * eps, g)
        log_q = Normal(torch.zeros(1), s0).log_prob(s0 * eps).sum(-1) - log_det
        mean = torch.stack([times(layer, row) for row in z])
        sigma = (posterior.log_sigma2 / 2).exp()
        W = mean + sigma * torch.randn(mean.shape, generator=g, dtype=torch.float64)
        log_q = log_q + Normal(mean, sigma).log_prob(W).sum((1, 2))
        log_p = Normal(torch.zeros(1), 1.0).log_prob(W).sum((1, 2))
        if kind == "conv":
            a = torch.einsum("j,njk->nk", posterior.aux_in, W).mean(1)
        else:
            a = torch.einsum("k,njk->nj", posterior.aux_in, W[:, :, :3]).tanh().mean(1)
        end, aux_log_det = posterior.aux_flow(z, g)
        std = torch.exp(-posterior.aux_precision * a[:, None] / 2)
        log_r = Normal(posterior.aux_mean * a[:, None], std).log_prob(end).sum(-1) + aux_log_det
        explicit = log_q - log_p - log_r
    draws = kl_draws(layer)
    error = (standard_error(draws) ** 2 + standard_error(explicit) ** 2) ** 0.5
    assert abs(draws.mean() - explicit.mean()) < 4 * error


@pytest.mark.parametrize("kind", KINDS)
def test_function_is_one_matrix_for_all_rows(kind):
    layer, shape = make(SMALL, kind)
    x = inputs(2, shape)
    A = design(layer, x)
    matrices = layer.sample_weights(2, generator(4)).flatten(1)
    y = layer(x.expand(2, *x.shape), "shared", generator(4))
    torch.testing.assert_close(y.flatten(2), torch.stack([A @ m for m in matrices]))


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_of_the_output_and_of_the_kl(kind):
    layer, shape = make(SMALL, kind)
    x = inputs(2, shape)
    names = [name for name, _ in layer.named_parameters()]

    class Loss(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = layer

        def forward(self):
            return self.layer(x, "per_example", generator(7)).sum() + self.layer.kl()

    def loss(*values):
        state = {f"layer.{name}": value for name, value in zip(names, values, strict=True)}
        return torch.func.functional_call(Loss(), state, ())

    inputs_ = [p.detach().clone().requires_grad_() for p in layer.parameters()]
    assert torch.autograd.gradcheck(loss, inputs_, fast_mode=True)
    loss(*inputs_).backward()
    assert all(p.grad.abs().sum() > 0 for p in inputs_)


def test_the_kl_of_a_layer_that_never_ran_is_refused():
    for sampling in ("per_example", "shared"):
        layer = MNF().linear(3, 2)
        with pytest.raises(ValueError, match="run the layer"):
            layer.kl()
        layer(torch.ones(1, 3), sampling, generator())
        assert deepcopy(layer).kl().dim() == 0


def test_start_values_come_from_the_generator():
    first, again = (initialise(lenet5(MNF()), generator(3)) for _ in range(2))
    torch.testing.assert_close([*first.parameters()], [*again.parameters()])
    posterior = first[5].noise
    assert posterior.z_mean.mean().item() == pytest.approx(0, abs=0.02)
    assert (posterior.log_sigma2[:, :-1] == -18).all()
    assert (posterior.log_sigma2[:, -1] == -9).all()
    assert len(first[0].noise.z_mean) == 20
    assert len(posterior.z_mean) == 800


@pytest.mark.parametrize("sampling", ["per_example", "shared"])
def test_networks_predict(sampling):
    images = torch.randn(3, 1, 28, 28, generator=generator(1))
    model = initialise(lenet5(MNF()), generator())
    draws = predict(model, images, 4, sampling, generator=generator(2))
    assert draws.shape == (4, 3, 10)
    assert draws.isfinite().all()


def test_members_side_by_side_fit_a_curve():
    x = torch.linspace(-1, 1, 100)[:, None].expand(2, 100, 1)
    y = torch.sin(3 * x)
    members = BatchedNetworks([initialise(mlp((1, 20, 1), MNF()), generator(i)) for i in range(2)])
    settings = {"n_steps": 100, "generator": generator(5), "optimizer": adam(0.03)}
    fit_batched(members, x, y, partial(gaussian_nll, tau=100.0), **settings)
    draws = predict_batched(members, x, 30, generator=generator(6))
    assert ((draws.mean(0) - y).square().mean((1, 2)).sqrt() < 0.25).all()
    kl = members.kl()
    assert abs(kl[0] - kl[1]) > 1e-3


@pytest.mark.parametrize(
    ("argument", "value"), [("n_flows", -1), ("widths", (0, 5)), ("z_mean", math.inf)]
)
def test_bad_settings_are_refused(argument, value):
    with pytest.raises(ValueError, match=argument.rstrip("s")):
        MNF(**{argument: value})


def test_a_new_start_forgets_the_old_one():
    layer = MNF(z_mean=2.0).linear(4, 3)
    names = ("z_mean", "aux_in", "aux_mean", "aux_precision")
    started = []
    for _ in range(2):
        layer.reset_noise(torch.Generator().manual_seed(3))
        started.append([getattr(layer.noise, name).clone() for name in names])
        with torch.no_grad():
            for name in names:
                getattr(layer.noise, name).add_(1.0)
    for old, new in zip(*started, strict=True):
        torch.testing.assert_close(old, new)
    assert (started[0][0] - 2).abs().max() < 0.5  # within five standard deviations


def test_whole_numbers_are_fine_settings():
    layer = MNF(z_mean=1).linear(4, 3)
    assert all(p.is_floating_point() for p in layer.parameters())
