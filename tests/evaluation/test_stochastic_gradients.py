import math

import pytest
import torch
from torch.nn.functional import cross_entropy

from bdl_lessons.evaluation import gradient_variance, noisy_outputs, regression_parts
from bdl_lessons.evaluation.stochastic_gradients import VarianceParts
from bdl_lessons.models import BayesByBackprop, initialise, mlp

N, K, TAU = 7, 3, 1.7
ESTIMATORS = ("local", "per example", "per minibatch")
QUANTITIES = ("loss", "mu", "log_sigma2")


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def normal(*shape, seed):
    return torch.randn(*shape, generator=generator(seed), dtype=torch.float64)


@pytest.fixture(scope="module")
def regression():
    var = torch.tensor([0.3, 0.05, 0.6], dtype=torch.float64)
    return normal(N, K, seed=1), normal(N, seed=2), normal(K, seed=3), var, TAU


def sampled_terms(regression, quantity, estimator, n_draws):
    """``(S, N, P)`` terms by autograd, each draw shared by all rows only for per minibatch."""
    x, y, mu, var, tau = regression
    mu = mu.expand(n_draws, N, K).clone().requires_grad_()
    log_sigma2 = var.log().expand(n_draws, N, K).clone().requires_grad_()
    sigma2 = log_sigma2.exp()
    if estimator == "local":
        zeta = normal(n_draws, N, seed=4)
        b = (x * mu).sum(-1) + (x**2 * sigma2).sum(-1).sqrt() * zeta
    else:
        eps = normal(n_draws, 1 if estimator == "per minibatch" else N, K, seed=5)
        b = (x * (mu + sigma2.sqrt() * eps)).sum(-1)
    loss = tau / 2 * (y - b) ** 2
    if quantity == "loss":
        return loss.detach()[..., None]
    return torch.autograd.grad(loss.sum(), {"mu": mu, "log_sigma2": log_sigma2}[quantity])[0]


def parts_from_draws(values):
    """Data, noise and shared part of ``values[s, i]``, the term of example i under draw s."""
    noise, shared = values.var(0).mean(), values.mean(1).var(0).mean()
    data = values.mean(0).var(0, correction=0).mean() - (noise - shared) / len(values)
    return VarianceParts(data.item(), noise.item(), shared.item())


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("quantity", QUANTITIES)
def test_closed_form_parts_are_those_of_autograd_draws(regression, quantity, estimator):
    terms = sampled_terms(regression, quantity, estimator, 100_000)
    measured = parts_from_draws(terms)
    exact = regression_parts(*regression, quantity, estimator)
    assert measured.data == pytest.approx(exact.data, rel=0.05, abs=1e-4)
    assert measured.noise == pytest.approx(exact.noise, rel=0.04)
    if estimator == "per minibatch":
        assert measured.shared == pytest.approx(exact.shared, rel=0.05)
    else:
        assert exact.shared == 0


@pytest.mark.parametrize("quantity", QUANTITIES)
def test_local_never_varies_more_and_ties_where_the_noise_enters_by_the_activation(
    regression, quantity
):
    local = regression_parts(*regression, quantity, "local")
    weights = regression_parts(*regression, quantity, "per example")
    assert local.data == pytest.approx(weights.data)
    if quantity == "log_sigma2":
        assert local.noise < weights.noise
    else:
        assert local.noise == pytest.approx(weights.noise)


def test_the_local_gradient_is_the_conditional_mean_of_the_one_from_drawn_weights():
    """For ``(a - 1)²``: draw the noise of the weights given the activation, equation (9)."""
    x, mu, sigma = normal(6, seed=20), normal(6, seed=21), normal(6, seed=22).abs() + 0.2
    sigma2, zeta = (sigma**2).requires_grad_(), 0.8
    delta = x**2 @ sigma2
    a = x @ mu + delta.sqrt() * zeta
    (local,) = torch.autograd.grad((a - 1) ** 2, sigma2)
    a, delta = a.detach(), delta.detach()
    eps = normal(40_000, 6, seed=23)
    eps += ((a - x @ mu) - eps @ (x * sigma))[:, None] * x * sigma / delta
    torch.testing.assert_close(x @ mu + eps @ (x * sigma), a.expand(40_000))
    from_weights = 2 * (a - 1) * x * eps / (2 * sigma)
    error = (from_weights.mean(0) - local) / (from_weights.std(0) / 200)
    assert error.abs().max() < 4.5


def test_one_row_and_tau_two_is_the_square_loss_of_one_activation():
    a, sigma2, offset, n_inputs = 0.8, 0.3, 0.7, 5
    x = torch.full((1, n_inputs), a, dtype=torch.float64)
    var = torch.full((n_inputs,), sigma2, dtype=torch.float64)
    delta = n_inputs * a**2 * sigma2
    y, mu = torch.tensor([offset], dtype=torch.float64), torch.zeros_like(var)
    weights = regression_parts(x, y, mu, var, 2.0, "log_sigma2", "per minibatch")
    local = regression_parts(x, y, mu, var, 2.0, "log_sigma2", "local")
    by_weights = a**2 / sigma2 * (offset**2 + delta + 2 * a**2 * sigma2) - a**4
    by_activation = a**4 / delta * (offset**2 + 3 * delta) - a**4
    assert weights.noise == pytest.approx(sigma2**2 * by_weights, rel=1e-12)
    assert local.noise == pytest.approx(sigma2**2 * by_activation, rel=1e-12)
    assert weights.shared == pytest.approx(weights.noise, rel=1e-12)


@pytest.mark.parametrize("batch_size", [1, 3, 20])
def test_the_parts_add_up_to_the_variance_of_the_minibatch_estimator(regression, batch_size):
    x, y, mu, var, tau = regression
    n_batches = 60_000
    rows = torch.randint(N, (n_batches, batch_size), generator=generator(6))
    w = mu + var.sqrt() * normal(n_batches, K, seed=7)
    b = torch.einsum("smk,sk->sm", x[rows], w)
    estimate = N * (tau / 2 * (y[rows] - b) ** 2).mean(1)
    parts = regression_parts(*regression, "loss", "per minibatch").at(batch_size, N)
    assert estimate.var().item() == pytest.approx(sum(parts), rel=0.05)


def test_parts_at_a_batch_size():
    parts = VarianceParts(3.0, 2.0, 0.5)
    assert parts.at(1, 10) == (300, 200, 0)
    assert parts.at(4, 10) == (75, 50, 37.5)
    with pytest.raises(ValueError, match="batch_size"):
        parts.at(0, 10)


def test_gradient_variance_is_over_draws_and_averages_parameters():
    scale = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    offset = torch.tensor([100.0, -50.0, 0.0], dtype=torch.float64)
    gradients = offset + scale * normal(4_000, 3, seed=9)
    value, std_err = gradient_variance(gradients)
    assert value == pytest.approx((1 + 4 + 9) / 3, abs=4 * std_err)
    assert value == pytest.approx(gradients.var(0).mean().item(), rel=1e-12)
    assert gradient_variance(gradients.view(4_000, 1, 3)) == pytest.approx((value, std_err))


def test_the_standard_error_is_the_spread_of_repeated_estimates():
    """Parameters that vary together: treating them as independent would give a tenth of it."""
    estimates = [gradient_variance(normal(50, 1, seed=i).expand(50, 100)) for i in range(400)]
    values, std_errs = torch.tensor(estimates).T
    assert std_errs.mean().item() == pytest.approx(values.std().item(), rel=0.15)


def test_the_standard_error_is_the_jackknife():
    gradients = normal(6, 4, seed=10)
    left_out = torch.stack(
        [
            gradient_variance_by_hand(torch.cat([gradients[:i], gradients[i + 1 :]]))
            for i in range(6)
        ]
    )
    jackknife = (5 / 6 * (left_out - left_out.mean()).square().sum()).sqrt()
    assert gradient_variance(gradients).std_err == pytest.approx(jackknife.item(), rel=1e-12)


def gradient_variance_by_hand(gradients):
    return gradients.var(0).mean()


@pytest.mark.parametrize("bad", [torch.ones(2, 3), torch.ones(5), torch.full((5, 2), torch.nan)])
def test_gradient_variance_refuses_what_has_no_variance(bad):
    with pytest.raises(ValueError, match="gradients"):
        gradient_variance(bad)


def test_unknown_names_are_refused(regression):
    with pytest.raises(ValueError, match="'local', 'per example'"):
        noisy_outputs(mlp((4, 2), BayesByBackprop()), torch.ones(3, 4), "shared", generator())
    with pytest.raises(ValueError, match="quantity"):
        regression_parts(*regression, "sigma", "local")
    with pytest.raises(ValueError, match="estimator"):
        regression_parts(*regression, "mu", "no noise")


def test_the_four_estimators_of_a_network():
    model = initialise(mlp((4, 6, 2), BayesByBackprop(init_log_sigma2=-1.0)), generator()).double()
    x = normal(1, 4, seed=11).expand(50, 4)
    outputs = {e: noisy_outputs(model, x, e, generator(1)) for e in (*ESTIMATORS, "no noise")}
    for name in ("local", "per example"):
        assert torch.pdist(outputs[name]).min() > 1e-6, "each example has noise of its own"
    for name in ("per minibatch", "no noise"):
        torch.testing.assert_close(outputs[name], outputs[name][:1].expand_as(x[:, :2]))
    torch.testing.assert_close(outputs["no noise"], model(x, "mean"))


def test_all_estimators_have_the_same_mean_gradient():
    model = initialise(mlp((4, 6, 2), BayesByBackprop(init_log_sigma2=-2.0)), generator()).double()
    x, y = normal(5, 4, seed=12), torch.tensor([0, 1, 1, 0, 1])
    parameters = [model[0].weight, model[0].noise.log_sigma2, model[2].noise.log_sigma2]
    means, errors = [], []
    for estimator in ESTIMATORS:
        draws = []
        for seed in range(500):
            loss = cross_entropy(noisy_outputs(model, x, estimator, generator(seed)), y)
            grads = torch.autograd.grad(loss, parameters)
            draws.append(torch.cat([grad.flatten() for grad in grads]))
        draws = torch.stack(draws)
        means.append(draws.mean(0))
        errors.append(draws.var(0) / len(draws))
    for i in (1, 2):
        z = (means[i] - means[0]) / (errors[i] + errors[0]).sqrt()
        assert z.abs().max() < 4.5


def test_a_row_of_zeros_has_no_noise():
    x = torch.tensor([[0.0, 0.0], [1.0, 2.0]], dtype=torch.float64)
    y, mu, var = torch.ones(2).double(), torch.ones(2).double(), torch.ones(2).double()
    parts = regression_parts(x, y, mu, var, 1.0, "log_sigma2", "local")
    assert all(map(math.isfinite, parts))


def test_no_parameters_are_refused():
    with pytest.raises(ValueError, match="gradients must"):
        gradient_variance(torch.zeros(3, 0))


@pytest.mark.parametrize(("number", "name"), [(1, "y"), (2, "mu"), (3, "var")])
def test_columns_and_missing_values_are_refused(regression, number, name):
    for change in (lambda v: v[..., None], lambda v: v[:1], lambda v: v * math.nan):
        arguments = list(regression)
        arguments[number] = change(arguments[number])
        with pytest.raises(ValueError, match=r"must (have shape|be finite)") as caught:
            regression_parts(*arguments, "mu", "local")
        assert name in str(caught.value) or number == 0
