"""Layers whose weights have one joint distribution: ELRG, VMG and MNF against dense Gaussians."""

from functools import partial

import pytest
import torch
from torch import nn
from torch.distributions import MultivariateNormal, kl_divergence

from bdl_lessons.models import Network, initialise, mlp
from bdl_lessons.probability import molchanov_kl
from reproductions.posteriors import vmg
from reproductions.posteriors.elrg import ELRG
from reproductions.posteriors.mnf import MNF
from reproductions.posteriors.vmg import VMG
from tests.draws import normal, seeded

N_DRAWS = 20_000
LAYERS = {
    "ELRG": partial(ELRG, rank=3),
    "VMG": partial(VMG, n_pseudo=2),
    "MNF without flows": partial(MNF, n_flows=0, z_mean=1.0),
}
KINDS = ("linear", "no bias", "conv")
CASES = pytest.mark.parametrize(
    ("method", "kind"), [(method, kind) for method in LAYERS for kind in KINDS]
)


@pytest.fixture(autouse=True)
def wide_jitter(monkeypatch):
    """Of VMG: enough to be seen in draws."""
    monkeypatch.setattr(vmg, "JITTER", 0.01)


def started(method, kind, seed=10):
    """A layer in float64, every parameter moved off its start value so that no two are alike."""
    inner = nn.Conv2d(2, 2, 2) if kind == "conv" else nn.Linear(3, 2, bias=kind != "no bias")
    g = seeded(seed)
    layer = initialise(Network(method(inner)), g)[0].double()
    with torch.no_grad():
        if hasattr(layer, "log_sigma2"):  # variances that are seen in draws
            layer.log_sigma2.fill_(-2 if isinstance(layer, MNF) else -1)
        for parameter in layer.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=g, dtype=torch.float64)
    return layer


def make(method, kind):
    """With Gaussian weights: VMG has no noise on its pseudo-data, and larger pseudo-inputs."""
    layer = started(LAYERS[method], kind)
    if method == "VMG":
        with torch.no_grad():
            layer.pseudo_x.mul_(5)
            layer.raw_alpha.fill_(60)
    return layer


def inputs(kind):
    """One example."""
    return normal(1, *((2, 3, 3) if kind == "conv" else (3,)), seed=1)


def dense_gaussian(layer):
    """Mean and covariance of all weights and biases, written out."""
    with torch.no_grad():
        if hasattr(layer, "factors"):
            v = layer.factors.flatten(1)
            cov = layer.log_sigma2.exp().flatten().diag() + v.T @ v / len(v)
            return layer.mu.flatten(), cov
        if hasattr(layer, "pseudo_x"):
            return conditioned(layer, *unconditioned(layer))
        mean = times(layer, layer.z_mean).flatten()
        zero = times(layer, torch.zeros_like(layer.z_mean)).flatten()
        units = torch.eye(len(layer.z_mean))
        J = torch.stack([times(layer, unit).flatten() - zero for unit in units], dim=1)
        cov = J @ layer.z_log_var.exp().diag() @ J.T + layer.log_sigma2.exp().flatten().diag()
        return mean, cov


def unconditioned(layer):
    """The matrix Gaussian of VMG before its pseudo-data, row by row of (L, K + 1)."""
    with torch.no_grad():
        U = (2 * layer.log_input_std).exp().diag() / layer.mu.shape[1]
        V = (2 * layer.log_output_std).exp().diag()
        return layer.mu.flatten(), torch.kron(V, U)


def conditioned(layer, mean, cov):
    """On ``A W' + noise = B``, by the textbook formula."""
    A = layer.pseudo_x
    B = layer.pseudo_y
    H = torch.kron(torch.eye(len(layer.mu)).double(), A)
    V = (2 * layer.log_output_std).exp().diag()
    noise = vmg.JITTER * torch.kron(V, torch.eye(len(A)).double())
    gain = cov @ H.T @ torch.linalg.inv(H @ cov @ H.T + noise)
    return mean + gain @ (B.T.flatten() - H @ mean), cov - gain @ H @ cov


def times(layer, z):
    """The mean matrix of MNF given its factors, element by element: a bias of a linear layer has
    none, that of a channel has the channel's."""
    mean = layer.mu.detach().clone()
    for j, k in torch.cartesian_prod(*map(torch.arange, mean.shape)).tolist():
        if layer.unit_dims == 3:
            mean[j, k] *= z[j]
        elif k < len(z):
            mean[j, k] *= z[k]
    return mean


def design(layer, x):
    """``A`` with ``layer.activations(x, W).flatten(1) = A vec W``, by one basis matrix a column."""
    shape = layer.mu.shape
    basis = torch.eye(shape.numel(), dtype=x.dtype).view(-1, *shape)
    columns = [layer.activations(x, one).flatten(1) for one in basis]
    return torch.stack(columns, -1).detach()


def assert_moments(samples, mean, cov, bound=5.0):
    """Mean and covariance of Gaussian ``samples`` ``(N, D)`` within ``bound`` standard errors."""
    n = len(samples)
    var = cov.diagonal()
    assert ((samples.mean(0) - mean).abs() / (var / n).sqrt()).max() < bound
    error = ((var[:, None] * var + cov.square()) / n).sqrt()
    assert ((torch.cov(samples.T) - cov).abs() / error).max() < bound


@CASES
def test_draws_of_the_weights_and_their_mean_are_those_of_the_dense_gaussian(method, kind):
    layer = make(method, kind)
    mean, cov = dense_gaussian(layer)
    with torch.no_grad():
        assert_moments(layer.draw_matrices(N_DRAWS, seeded(2)).flatten(1), mean, cov)
        torch.testing.assert_close(layer.mean_matrix().flatten(), mean)


@pytest.mark.parametrize("kind", ["linear", "conv"])
@pytest.mark.parametrize("method", LAYERS)
def test_an_example_has_the_covariance_between_units_or_channels_at_every_place(method, kind):
    """As with a matrix of its own."""
    layer = make(method, kind)
    x = inputs(kind)
    mean, cov = dense_gaussian(layer)
    A = design(layer, x)[0]
    with torch.no_grad():
        y = layer(x.expand(N_DRAWS, *x.shape[1:]), "per_example", seeded(3))
    for place in range(4 if kind == "conv" else 1):
        at = torch.tensor([place, 4 + place]) if kind == "conv" else torch.arange(2)
        assert_moments(y.flatten(1)[:, at], (A @ mean)[at], (A @ cov @ A.T)[at][:, at])


@pytest.mark.parametrize("method", ["ELRG", "MNF without flows"])
def test_a_direction_or_a_factor_moves_all_places_of_an_image_together(method):
    """The diagonal is small here, because its places are drawn on their own.

    A grouped convolution gives ranks first and channels second; reading them the other way round
    leaves every shape as it is and mixes the ranks, as the public code of ELRG does.
    """
    layer = make(method, "conv")
    with torch.no_grad():
        layer.log_sigma2.fill_(-12)
    x = inputs("conv")
    mean, cov = dense_gaussian(layer)
    A = design(layer, x)[0]
    with torch.no_grad():
        y = layer(x.expand(N_DRAWS, 2, 3, 3), "per_example", seeded(3)).flatten(1)
    assert_moments(y, A @ mean, A @ cov @ A.T)


@pytest.mark.parametrize("kind", KINDS)
def test_the_kl_of_elrg_is_that_of_the_dense_gaussian(kind):
    layer = make("ELRG", kind)
    mean, cov = dense_gaussian(layer)
    prior_cov = torch.eye(len(mean)).double() / layer.weight.shape[1]
    prior = MultivariateNormal(torch.zeros_like(mean), prior_cov)
    torch.testing.assert_close(layer.kl(), kl_divergence(MultivariateNormal(mean, cov), prior))


@pytest.mark.parametrize("kind", KINDS)
def test_the_kl_of_vmg_is_that_of_the_matrix_gaussian_and_of_the_noise_on_pseudo_data(kind):
    """In units in which the prior is N(0, I); it is not that of the distribution that is drawn."""
    layer = make("VMG", kind)
    mean, cov = unconditioned(layer)
    n_in = layer.mu.shape[1]
    prior = MultivariateNormal(torch.zeros_like(mean), torch.eye(len(mean)).double())
    kl = kl_divergence(MultivariateNormal(n_in**0.5 * mean, n_in * cov), prior)
    kl_x, kl_y = molchanov_kl(layer.log_alpha)
    noise = layer.pseudo_x.numel() * kl_x + layer.pseudo_y.numel() * kl_y
    torch.testing.assert_close(layer.kl(), kl + noise)


def test_noise_on_the_pseudo_data_widens_both_kinds_of_draws_alike():
    layer = started(LAYERS["VMG"], "linear")
    with torch.no_grad():
        layer.raw_alpha.copy_(torch.tensor([60.0, 0.3]))
        x = inputs("linear")
        rows = x.expand(N_DRAWS, 1, 3)
        y = [layer(rows, s, seeded(4))[:, 0] for s in ("per_example", "shared")]
    mean, cov = dense_gaussian(layer)
    A = design(layer, x)[0]
    with torch.no_grad():
        u = (2 * layer.log_input_std).exp() / 4
        P = layer.pseudo_x
        B = layer.pseudo_y
        gain = torch.linalg.solve(P * u @ P.T + 0.01 * torch.eye(2).double(), P * u)  # (m, K + 1)
        to_row = torch.cat([x[0], torch.ones(1)]).double() @ gain.T
        extra = layer.log_alpha[1].exp() * (to_row.square() @ B.square()).diag()
    for draws in y:
        assert_moments(draws, A @ mean, A @ cov @ A.T + extra)


def test_start_values_are_the_published_ones():
    dense = initialise(Network(ELRG(nn.Linear(800, 500))), seeded(3))[0]
    torch.testing.assert_close(dense.factors.std(), dense.mu.std() / 2 / 5**0.5, rtol=0.01, atol=0)
    assert dense.prior_var == 1 / 800
    assert not dense.log_sigma2.requires_grad
    conv = initialise(Network(ELRG(nn.Conv2d(20, 50, 5))), seeded(3))[0]
    assert not conv.factors.any()
    assert conv.prior_var == 1 / 20

    layer = initialise(mlp((300, 2), VMG), seeded(3))[0]
    assert layer.log_input_std[-1].item() == pytest.approx(-4, abs=0.1)
    assert layer.pseudo_x.std().item() == pytest.approx(0.01 / 3**0.5, rel=0.1)

    layer = initialise(Network(MNF(nn.Linear(800, 500))), seeded(3))[0]
    assert layer.z_mean.mean().item() == pytest.approx(0, abs=0.02)
    assert (layer.log_sigma2[:, :-1] == -18).all()
    assert (layer.log_sigma2[:, -1] == -9).all()
