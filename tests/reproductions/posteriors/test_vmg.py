from functools import partial

import pytest
import torch
from torch.distributions import MultivariateNormal, kl_divergence

from bdl_lessons.inference import BatchedNetworks, adam, fit_batched, predict, predict_batched
from bdl_lessons.models import initialise, lenet5, mlp
from bdl_lessons.probability import gaussian_nll, molchanov_kl
from reproductions.posteriors import vmg
from reproductions.posteriors.vmg import VMG

from .distributions import assert_moments, design, generator, started

N_DRAWS = 20_000
FACTORY = VMG(n_pseudo=2)


@pytest.fixture(autouse=True)
def wide_jitter(monkeypatch):
    """Enough to be seen in draws."""
    monkeypatch.setattr(vmg, "JITTER", 0.01)


def quiet(layer):
    """No noise on the pseudo-data, so that the weights are Gaussian; and larger pseudo-inputs."""
    with torch.no_grad():
        layer.noise.pseudo_x.mul_(5)
        layer.noise.raw_alpha.fill_(60)
    return layer


@pytest.fixture(params=["linear", "conv", "no bias", "no pseudo-data"])
def case(request):
    g = generator(1)
    if request.param == "conv":
        x = torch.randn(2, 2, 3, 3, generator=g, dtype=torch.float64)
        return quiet(started(FACTORY.conv2d(2, 2, 2))), x
    factory = VMG(0) if request.param == "no pseudo-data" else FACTORY
    layer = quiet(started(factory.linear(3, 2, bias=request.param != "no bias")))
    return layer, torch.randn(2, 3, generator=g, dtype=torch.float64)


def unconditioned_gaussian(layer):
    """Mean and covariance of the matrix Gaussian, row by row of (L, K + 1)."""
    posterior, (_, n_in) = layer.noise, layer.mu.shape
    U = (2 * posterior.log_input_std).exp().diag() / n_in
    cov = torch.kron((2 * posterior.log_output_std).exp().diag(), U)
    return layer.mu.detach().flatten(), cov.detach()


def dense_gaussian(layer):
    """Condition the dense Gaussian on ``A W' + noise = B``, by the textbook formula."""
    mean, cov = unconditioned_gaussian(layer)
    posterior, n_out = layer.noise, len(layer.mu)
    A, B = posterior.pseudo_x.detach(), posterior.pseudo_y.detach()
    H = torch.kron(torch.eye(n_out).double(), A)
    V = (2 * posterior.log_output_std).exp().diag().detach()
    noise = vmg.JITTER * torch.kron(V, torch.eye(len(A)).double())
    gain = cov @ H.T @ torch.linalg.inv(H @ cov @ H.T + noise)
    return mean + gain @ (B.T.flatten() - H @ mean), cov - gain @ H @ cov


def prior(n):
    return MultivariateNormal(torch.zeros(n).double(), torch.eye(n).double())


def test_kl_is_that_of_the_matrix_gaussian_and_of_the_noise_on_the_pseudo_data(case):
    """In units in which the prior is N(0, I)."""
    layer, _ = case
    mean, cov = unconditioned_gaussian(layer)
    n_in = layer.mu.shape[1]
    kl = kl_divergence(MultivariateNormal(n_in**0.5 * mean, n_in * cov), prior(len(mean)))
    kl_x, kl_y = molchanov_kl(layer.noise.log_alpha)
    kl = kl + layer.noise.pseudo_x.numel() * kl_x + layer.noise.pseudo_y.numel() * kl_y
    torch.testing.assert_close(layer.kl(), kl)


def test_the_published_kl_is_not_that_of_the_distribution_that_is_drawn(monkeypatch):
    monkeypatch.setattr(vmg, "JITTER", 1e-6)
    layer = quiet(started(FACTORY.linear(3, 2)))
    before, after = (
        kl_divergence(MultivariateNormal(2 * mean, 4 * cov), prior(8))
        for mean, cov in (unconditioned_gaussian(layer), dense_gaussian(layer))
    )
    assert after > before + 1


def test_draws_and_mean_are_those_of_the_conditioned_gaussian(case):
    layer, _ = case
    mean, cov = dense_gaussian(layer)
    with torch.no_grad():
        draws = layer.sample_weights(N_DRAWS, generator(2)).flatten(1)
        torch.testing.assert_close(layer.noise.mean(layer.mu).flatten(), mean)
    assert_moments(draws, mean, cov)


def test_pseudo_data_fix_what_the_layer_does_there(monkeypatch):
    monkeypatch.setattr(vmg, "JITTER", 1e-8)
    layer = quiet(started(FACTORY.linear(3, 2)))
    with torch.no_grad():
        layer.noise.pseudo_x[:, -1] = 1  # the bias sees a constant 1
        y = layer(layer.noise.pseudo_x[:, :-1].expand(5, 2, 3), "shared", generator())
    torch.testing.assert_close(y, layer.noise.pseudo_y.expand(5, 2, 2), atol=1e-3, rtol=0)


def test_rows_of_an_example_have_the_distribution_of_a_matrix_each():
    layer = quiet(started(FACTORY.linear(3, 2)))
    x = torch.randn(1, 3, generator=generator(0), dtype=torch.float64)
    mean, cov = dense_gaussian(layer)
    A = design(layer, x)[0]
    with torch.no_grad():
        y = layer(x.expand(N_DRAWS, 3), "per_example", generator(3))
        stacked = layer(x.expand(N_DRAWS // 2, 2, 3), "per_example", generator(3))
    assert_moments(y, A @ mean, A @ cov @ A.T)
    assert_moments(stacked[:, 1], A @ mean, A @ cov @ A.T)
    assert abs(torch.corrcoef(stacked.flatten(1).T)[0, 2]) < 5 / (N_DRAWS / 2) ** 0.5


def test_a_convolution_has_the_covariance_between_channels_at_every_place():
    layer = quiet(started(FACTORY.conv2d(2, 2, 2)))
    x = torch.randn(1, 2, 3, 3, generator=generator(1), dtype=torch.float64)
    with torch.no_grad():
        y = layer(x.expand(N_DRAWS, 2, 3, 3), "per_example", generator(3)).flatten(1)
    mean, cov = dense_gaussian(layer)
    A = design(layer, x)[0]
    for place in range(4):
        at = torch.tensor([place, 4 + place])
        assert_moments(y[:, at], (A @ mean)[at], (A @ cov @ A.T)[at][:, at])


def test_noise_on_the_pseudo_data_widens_both_kinds_of_draws_alike():
    layer = started(FACTORY.linear(3, 2))
    with torch.no_grad():
        layer.noise.raw_alpha.copy_(torch.tensor([60.0, 0.3]))
        x = torch.randn(1, 3, generator=generator(1), dtype=torch.float64)
        y = [
            layer(x.expand(N_DRAWS, 1, 3), s, generator(4))[:, 0] for s in ("per_example", "shared")
        ]
    mean, cov = dense_gaussian(layer)
    A = design(layer, x)[0]
    B = layer.noise.pseudo_y.detach()
    u = (2 * layer.noise.log_input_std).exp().detach() / 4
    P = layer.noise.pseudo_x.detach()
    gain = torch.linalg.solve(P * u @ P.T + 0.01 * torch.eye(2).double(), P * u)  # (m, K + 1)
    to_row = torch.cat([x[0], torch.ones(1)]).double() @ gain.T
    extra = layer.noise.log_alpha[1].exp().detach() * ((to_row**2) @ B.square()).diag()
    for draws in y:
        assert_moments(draws, A @ mean, A @ cov @ A.T + extra)


def test_function_is_one_matrix_for_all_rows(case):
    layer, x = case
    matrices = layer.sample_weights(2, generator(4)).flatten(1)
    expected = torch.stack([design(layer, x) @ m for m in matrices])
    y = layer(x.expand(2, *x.shape), "shared", generator(4))
    torch.testing.assert_close(y.flatten(2), expected)


@pytest.mark.parametrize("sampling", ["per_example", "shared", "mean"])
def test_gradients(case, sampling):
    layer, x = case
    names = [name for name, _ in layer.named_parameters()]

    def output(*values):
        state = dict(zip(names, values, strict=True))
        return torch.func.functional_call(layer, state, (x, sampling, generator(7)))

    inputs = [p.detach().clone().requires_grad_() for p in layer.parameters()]
    assert torch.autograd.gradcheck(output, inputs, fast_mode=True)


def test_start_values():
    first, again = (initialise(mlp((300, 2), VMG()), generator(3))[0].noise for _ in range(2))
    torch.testing.assert_close([*first.parameters()], [*again.parameters()])
    assert first.log_input_std[:-1].std().item() == pytest.approx(0.01, rel=0.2)
    assert first.log_input_std[-1].item() == pytest.approx(-4, abs=0.1)
    assert first.pseudo_x.abs().max() < 0.01
    assert first.pseudo_x.std().item() == pytest.approx(0.01 / 3**0.5, rel=0.1)


@pytest.mark.parametrize("sampling", ["per_example", "shared"])
def test_networks_predict(sampling):
    images = torch.randn(3, 1, 28, 28, generator=generator(1))
    model = initialise(lenet5(VMG()), generator())
    draws = predict(model, images, 4, sampling, generator=generator(2))
    assert draws.shape == (4, 3, 10)
    assert draws.isfinite().all()


def test_members_side_by_side_fit_a_curve(monkeypatch):
    monkeypatch.setattr(vmg, "JITTER", 1e-4)
    x = torch.linspace(-1, 1, 100)[:, None].expand(2, 100, 1)
    y = torch.sin(3 * x)
    networks = [initialise(mlp((1, 20, 1), VMG(n_pseudo=1)), generator(i)) for i in range(2)]
    members = BatchedNetworks(networks)
    settings = {"n_steps": 150, "generator": generator(5), "optimizer": adam(0.05)}
    fit_batched(members, x, y, partial(gaussian_nll, tau=100.0), **settings)
    draws = predict_batched(members, x, 30, generator=generator(6))
    assert ((draws.mean(0) - y).square().mean((1, 2)).sqrt() < 0.2).all()
    torch.testing.assert_close(members.kl()[1], members.network(1).kl())


def test_a_negative_number_of_pseudo_data_is_refused():
    with pytest.raises(ValueError, match="n_pseudo"):
        VMG(n_pseudo=-1)


@pytest.mark.parametrize("sampling", ["per_example", "shared", "mean"])
def test_without_pseudo_data_layers_of_both_kinds_work(sampling):
    for layer, x in (
        (VMG(n_pseudo=0).conv2d(1, 2, 3), torch.ones(2, 1, 5, 5)),
        (VMG(n_pseudo=0).linear(4, 3), torch.ones(2, 4)),
    ):
        assert layer(x, sampling, torch.Generator().manual_seed(0)).isfinite().all()


def test_a_new_start_forgets_the_old_one():
    layer = VMG().linear(4, 3)
    first = [p.clone() for p in _reset(layer)]
    with torch.no_grad():
        for parameter in layer.noise.parameters():
            parameter.add_(1.0)
    names = ("log_input_std", "log_output_std", "pseudo_x", "pseudo_y")
    for old, new in zip(first, _reset(layer), strict=True):
        torch.testing.assert_close(old, new)
    assert len(first) == len(names)


def _reset(layer):
    layer.reset_noise(torch.Generator().manual_seed(3))
    posterior = layer.noise
    return [
        posterior.log_input_std,
        posterior.log_output_std,
        posterior.pseudo_x,
        posterior.pseudo_y,
    ]
