from functools import partial

import pytest
import torch
from torch.distributions import MultivariateNormal, kl_divergence

from bdl_lessons.inference import (
    BatchedNetworks,
    adam,
    fit_batched,
    predict,
    predict_batched,
    predict_mean,
)
from bdl_lessons.models import initialise, lenet5, mlp
from bdl_lessons.probability import gaussian_nll
from reproductions.posteriors.elrg import ELRG

from .distributions import assert_moments, design, generator, started

N_DRAWS = 20_000
FACTORY = ELRG(rank=3, log_sigma2=-1.0)


@pytest.fixture(params=["linear", "conv", "no bias"])
def case(request):
    g = generator(1)
    if request.param == "conv":
        x = torch.randn(2, 2, 3, 3, generator=g, dtype=torch.float64)
        return started(FACTORY.conv2d(2, 2, 2)), x
    layer = FACTORY.linear(3, 2, bias=request.param == "linear")
    return started(layer), torch.randn(2, 3, generator=g, dtype=torch.float64)


def dense_gaussian(layer):
    """Mean and covariance of all weights and biases, written out."""
    v = layer.noise.factors.detach().flatten(1)
    cov = layer.noise.log_sigma2.detach().exp().flatten().diag() + v.T @ v / len(v)
    return layer.mu.detach().flatten(), cov


def test_kl_is_that_of_the_dense_gaussian(case):
    layer, _ = case
    mean, cov = dense_gaussian(layer)
    prior_cov = torch.eye(len(mean)).double() / layer.weight.shape[1]
    prior = MultivariateNormal(torch.zeros_like(mean), prior_cov)
    torch.testing.assert_close(layer.kl(), kl_divergence(MultivariateNormal(mean, cov), prior))


def test_draws_of_the_weights_have_the_dense_gaussian(case):
    layer, _ = case
    with torch.no_grad():
        draws = layer.sample_weights(N_DRAWS, generator(2))
    assert_moments(draws.flatten(1), *dense_gaussian(layer))


def test_rows_of_an_example_have_the_distribution_of_a_matrix_each():
    layer = started(FACTORY.linear(3, 2))
    x = torch.randn(1, 3, generator=generator(1), dtype=torch.float64)
    with torch.no_grad():
        y = layer(x.expand(N_DRAWS, 3), "per_example", generator(3))
    mean, cov = dense_gaussian(layer)
    A = design(layer, x)[0]
    assert_moments(y, A @ mean, A @ cov @ A.T)
    in_pairs = torch.corrcoef(y.reshape(-1, 4).T)[0, 2]
    assert abs(in_pairs) < 5 / (N_DRAWS / 2) ** 0.5


def test_conv_ranks_must_not_be_mixed():
    """Each direction of the weights moves all channels and all places of an image together.

    A grouped convolution gives ranks first and channels second; reading them the other way round
    leaves every shape as it is and mixes the ranks, as the public code does. The diagonal is small
    here, because its places are drawn on their own.
    """
    layer = started(ELRG(rank=3, log_sigma2=-40.0).conv2d(2, 4, 2))
    with torch.no_grad():
        layer.noise.log_sigma2.fill_(-40)
    x = torch.randn(1, 2, 3, 3, generator=generator(1), dtype=torch.float64)
    with torch.no_grad():
        y = layer(x.expand(N_DRAWS, 2, 3, 3), "per_example", generator(3)).flatten(1)
    mean, cov = dense_gaussian(layer)
    A = design(layer, x)[0]
    assert_moments(y, A @ mean, A @ cov @ A.T)


def test_a_convolution_has_the_moments_of_every_activation():
    layer = started(FACTORY.conv2d(2, 2, 2))
    x = torch.randn(1, 2, 3, 3, generator=generator(1), dtype=torch.float64)
    with torch.no_grad():
        y = layer(x.expand(N_DRAWS, 2, 3, 3), "per_example", generator(3)).flatten(1)
    mean, cov = dense_gaussian(layer)
    A = design(layer, x)[0]
    expected = (A @ cov @ A.T).diagonal()
    assert ((y.var(0) / expected - 1).abs() < 5 * (2 / N_DRAWS) ** 0.5).all()
    assert ((y.mean(0) - A @ mean).abs() < 5 * (expected / N_DRAWS).sqrt()).all()


def test_function_is_one_matrix_for_all_rows_and_mean_is_its_mean(case):
    layer, x = case
    A = design(layer, x)
    matrix = layer.sample_weights(1, generator(4))[0].flatten()
    torch.testing.assert_close(layer(x, "shared", generator(4)).flatten(1), A @ matrix)
    torch.testing.assert_close(layer(x, "mean").flatten(1), A @ layer.mu.flatten())
    two = layer(x.expand(2, *x.shape), "shared", generator(4))
    matrices = layer.sample_weights(2, generator(4)).flatten(1)
    torch.testing.assert_close(two.flatten(2), torch.stack([A @ m for m in matrices]))


@pytest.mark.parametrize("sampling", ["per_example", "shared"])
def test_gradients(case, sampling):
    layer, x = case
    names = [name for name, _ in layer.named_parameters()]

    def loss(*values):
        state = dict(zip(names, values, strict=True))
        return torch.func.functional_call(layer, state, (x, sampling, generator(7)))

    inputs = [p.detach().clone().requires_grad_() for p in layer.parameters()]
    assert torch.autograd.gradcheck(loss, inputs, fast_mode=True)


def test_the_diagonal_is_not_learned():
    assert not ELRG().linear(3, 2).noise.log_sigma2.requires_grad


def test_start_values_come_from_the_generator_and_follow_the_published_code():
    first, again = (initialise(lenet5(ELRG()), generator(3)) for _ in range(2))
    for one, two in zip(first.parameters(), again.parameters(), strict=True):
        torch.testing.assert_close(one, two)
    dense = first[5]
    size = dense.noise.factors.std() / dense.mu.std()
    assert size.item() == pytest.approx(0.5 / 5**0.5, rel=0.01)
    assert not first[0].noise.factors.any()
    assert first[5].noise.prior_var == 1 / 800
    assert first[2].noise.prior_var == 1 / 20


def test_a_row_of_zeros_has_finite_gradients():
    layer = started(FACTORY.linear(3, 2, bias=False))
    layer(torch.zeros(2, 3).double(), "per_example", generator()).sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in layer.parameters())


@pytest.mark.parametrize("sampling", ["per_example", "shared"])
def test_networks_predict(sampling):
    images = torch.randn(3, 1, 28, 28, generator=generator(1))
    model = initialise(lenet5(ELRG()), generator())
    draws = predict(model, images, 4, sampling, generator=generator(2))
    assert draws.shape == (4, 3, 10)
    mean = predict_mean(model, images, 4, lambda y: y, sampling, generator=generator(2))
    torch.testing.assert_close(mean, draws.mean(0))


def test_members_side_by_side_fit_a_curve():
    x = torch.linspace(-1, 1, 30)[:, None]
    y = torch.sin(3 * x)
    members = BatchedNetworks([initialise(mlp((1, 20, 1), ELRG()), generator(i)) for i in range(2)])
    settings = {"n_steps": 150, "generator": generator(5), "optimizer": adam(0.03)}
    fit_batched(
        members,
        x.expand(2, 30, 1),
        y.expand(2, 30, 1),
        partial(gaussian_nll, tau=100.0),
        **settings,
    )
    draws = predict_batched(members, x.expand(2, 30, 1), 30, generator=generator(6))
    assert ((draws.mean(0) - y).square().mean((1, 2)).sqrt() < 0.15).all()
    assert (draws.std(0).mean((1, 2)) > 0.01).all()
    torch.testing.assert_close(members.kl()[1], members.network(1).kl())


@pytest.mark.parametrize(("argument", "value"), [("rank", 0), ("log_sigma2", float("nan"))])
def test_bad_settings_are_refused(argument, value):
    with pytest.raises(ValueError, match=argument):
        ELRG(**{argument: value})
