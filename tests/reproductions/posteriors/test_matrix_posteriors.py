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
    has_bias = kind != "no bias"
    inner = nn.Conv2d(2, 2, 2) if kind == "conv" else nn.Linear(3, 2, bias=has_bias)
    generator = seeded(seed)
    (layer,) = initialise(Network(method(inner)), generator).double()
    with torch.no_grad():
        if hasattr(layer, "log_sigma2"):  # variances that are seen in draws
            layer.log_sigma2.fill_(-2 if isinstance(layer, MNF) else -1)
        for parameter in layer.parameters():
            shift = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter += 0.3 * shift
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
    return normal(1, 2, 3, 3, seed=1) if kind == "conv" else normal(1, 3, seed=1)


@torch.no_grad()
def dense_gaussian(layer):
    """Mean and covariance of all weights and biases, written out."""
    if isinstance(layer, ELRG):
        v = layer.factors.flatten(1)
        cov = layer.log_sigma2.exp().flatten().diag() + v.T @ v / len(v)
        return layer.mu.flatten(), cov
    if isinstance(layer, VMG):
        mean, cov = unconditioned(layer)
        return conditioned(layer, mean, cov)
    mean = times(layer, layer.z_mean).flatten()
    without_factors = times(layer, torch.zeros_like(layer.z_mean)).flatten()
    columns = []
    for unit in torch.eye(len(layer.z_mean)):
        columns.append(times(layer, unit).flatten() - without_factors)
    J = torch.stack(columns, dim=1)
    of_factors = J @ layer.z_log_var.exp().diag() @ J.T
    return mean, of_factors + layer.log_sigma2.exp().flatten().diag()


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
    residual = B.T.flatten() - H @ mean
    return mean + gain @ residual, cov - gain @ H @ cov


def times(layer, z):
    """The mean matrix of MNF given its factors, element by element.

    A bias of a linear layer has no factor, that of a channel has the channel's.
    """
    mean = layer.mu.detach().clone()
    n_outputs, n_inputs = mean.shape
    for j in range(n_outputs):
        for k in range(n_inputs):
            if layer.unit_dims == 3:
                mean[j, k] *= z[j]
            elif k < len(z):
                mean[j, k] *= z[k]
    return mean


def design(layer, x):
    """``A`` with ``layer.activations(x, W)[0].flatten() = A vec W``, one basis matrix a column."""
    shape = layer.mu.shape
    basis = torch.eye(shape.numel(), dtype=x.dtype).view(-1, *shape)
    columns = [layer.activations(x, matrix)[0].flatten() for matrix in basis]
    return torch.stack(columns, dim=-1).detach()


def assert_moments(samples, mean, cov, bound=5.0):
    """Mean and covariance of Gaussian ``samples`` ``(N, D)`` within ``bound`` standard errors."""
    n_samples = len(samples)
    var = cov.diagonal()
    error_of_mean = (var / n_samples).sqrt()
    assert ((samples.mean(0) - mean).abs() / error_of_mean).max() < bound
    error_of_cov = ((var[:, None] * var + cov.square()) / n_samples).sqrt()
    assert ((torch.cov(samples.T) - cov).abs() / error_of_cov).max() < bound


@CASES
def test_draws_of_the_weights_and_their_mean_are_those_of_the_dense_gaussian(method, kind):
    layer = make(method, kind)
    mean, cov = dense_gaussian(layer)
    with torch.no_grad():
        draws = layer.draw_matrices(N_DRAWS, seeded(2)).flatten(1)
        assert_moments(draws, mean, cov)
        torch.testing.assert_close(layer.mean_matrix().flatten(), mean)


@pytest.mark.parametrize("kind", ["linear", "conv"])
@pytest.mark.parametrize("method", LAYERS)
def test_an_example_has_the_covariance_between_units_or_channels_at_every_place(method, kind):
    """As with a matrix of its own."""
    layer = make(method, kind)
    x = inputs(kind)
    mean, cov = dense_gaussian(layer)
    A = design(layer, x)
    y_mean = A @ mean
    y_cov = A @ cov @ A.T
    with torch.no_grad():
        y = layer(x.expand(N_DRAWS, *x.shape[1:]), "per_example", seeded(3)).flatten(1)
    n_places = 4 if kind == "conv" else 1
    for place in range(n_places):
        outputs = [place, n_places + place]  # of both units or channels there
        assert_moments(y[:, outputs], y_mean[outputs], y_cov[outputs][:, outputs])


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
    A = design(layer, x)
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
    mean, cov = dense_gaussian(layer)
    A = design(layer, x)
    y_mean = A @ mean
    y_cov = A @ cov @ A.T + cov_of_pseudo_noise(layer, x[0])
    samples = x.expand(N_DRAWS, 1, 3)
    with torch.no_grad():
        for sampling in ("per_example", "shared"):
            draws = layer(samples, sampling, seeded(4))[:, 0]
            assert_moments(draws, y_mean, y_cov)


@torch.no_grad()
def cov_of_pseudo_noise(layer, x):
    """What the noise on the pseudo-outputs adds to the covariance of the outputs at ``x (K,)``."""
    u = (2 * layer.log_input_std).exp() / layer.mu.shape[1]
    P = layer.pseudo_x
    gram = P * u @ P.T + vmg.JITTER * torch.eye(len(P)).double()
    gain = torch.linalg.solve(gram, P * u)  # (m, K + 1)
    weights = torch.cat([x, torch.ones(1)]).double() @ gain.T  # of each pseudo-output
    var = weights.square() @ layer.pseudo_y.square()
    return layer.log_alpha[1].exp() * var.diag()


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
