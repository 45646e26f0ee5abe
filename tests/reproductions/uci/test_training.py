import torch

from bdl_lessons.inference import BatchedNetworks
from bdl_lessons.models import Deterministic, initialise, mlp
from reproductions.uci.training import Task, exact_gp, fitted_process, slang_posterior
from tests.draws import seeded


def test_slang_gets_the_posterior_of_a_likelihood_with_noise_variance_kl_weight():
    """Three lines whose noise has just that variance, so that their exact posterior is SLANG's."""
    kl_weights = torch.tensor([1.0, 0.1, 0.01])
    x = torch.randn(3, 120, 2, generator=seeded(1))
    noise_std = kl_weights.sqrt()[:, None]
    noise = noise_std * torch.randn(3, 120, generator=seeded(2))
    y = x @ torch.tensor([0.5, -0.5]) + noise
    networks = [initialise(mlp((2, 1), Deterministic), seeded(seed)) for seed in range(3)]
    task = Task(
        points=[{"kl_weight": weight} for weight in kl_weights.tolist()],
        x=x,
        y=y,
        config={"n_steps": 1600, "batch_size": 20, "learning_rate": 0.03},
        generator=seeded(3),
    )
    q = slang_posterior(BatchedNetworks(networks), task)
    precision = q.factor @ q.factor.mT + torch.diag_embed(q.diagonal)
    var = torch.linalg.inv(precision).diagonal(dim1=1, dim2=2)

    exact_mean, exact_var = exact_posterior(x, y, noise_var=kl_weights)
    ratio = var / exact_var
    assert ratio.min() > 0.5
    assert ratio.max() < 2
    assert ((q.mean - exact_mean) / exact_var.sqrt()).abs().max() < 1.5


def exact_posterior(x, y, noise_var):
    """Means and variances of slopes and offset of M lines with standard normal priors."""
    design = torch.cat([x, torch.ones_like(x[..., :1])], dim=-1)
    precision = design.mT @ design / noise_var[:, None, None] + torch.eye(design.shape[-1])
    pull = (design.mT @ y[..., None])[..., 0] / noise_var[:, None]
    mean = torch.linalg.solve(precision, pull)
    var = torch.linalg.inv(precision).diagonal(dim1=1, dim2=2)
    return mean, var


def one_task(x, y):
    """A task of the Gaussian process: one training set, nothing to set."""
    return Task(points=[{}], x=x[None], y=y[None], config={}, generator=seeded())


def test_the_gp_is_fitted_where_the_line_search_tries_vanishing_length_scales():
    """Two levels explain nearly everything. Without the bound: no Cholesky factor."""
    generator = seeded(1)
    of_two_levels = torch.randint(0, 2, (60, 1), generator=generator)
    of_five_levels = torch.randint(0, 5, (60, 1), generator=generator)
    continuous = torch.randn(60, 2, generator=generator)
    x = torch.cat([of_two_levels, of_five_levels, continuous], dim=1).double()
    x = (x - x.mean(0)) / x.std(0, correction=0)
    noise = 0.02 * torch.randn(60, generator=generator).double()
    y = x[:, 0] + 0.05 * x[:, 1] + noise
    predict = exact_gp(None, one_task(x, y))
    draws = predict(x[None], 100, seeded())
    assert draws.shape == (100, 1, 60)
    assert (draws.mean(0) - y).square().mean().sqrt() < 0.03
    assert draws.std(0).mean() < 0.03


def test_the_gp_draws_with_the_standard_deviation_of_its_prediction():
    x = torch.randn(30, 1, generator=seeded(1)).double()
    y = x[:, 0].sin() + 0.1 * torch.randn(30, generator=seeded(2)).double()
    far = torch.linspace(-4, 4, 9).double()[:, None]
    n_draws = 20_000
    predict = exact_gp(None, one_task(x, y))
    draws = predict(far[None], n_draws, seeded(3))[:, 0]
    mean, var = fitted_process(x, y).predict(far)
    assert var.max() > 5 * var.min()
    torch.testing.assert_close(draws.var(0).double(), var, rtol=0.05, atol=0)
    standard_error = (var / n_draws).sqrt()
    assert ((draws.mean(0) - mean) / standard_error).abs().max() < 5
