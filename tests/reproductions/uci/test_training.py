import torch

from bdl_lessons.inference import BatchedNetworks
from bdl_lessons.models import Deterministic, initialise, mlp
from reproductions.uci.training import Task, exact_gp, fitted_process, slang_posterior
from tests.draws import seeded


def test_slang_gets_the_posterior_of_a_likelihood_with_noise_variance_kl_weight():
    """Three lines whose noise has just that variance, so that their exact posterior is SLANG's."""
    kl_weights = torch.tensor([1.0, 0.1, 0.01])
    n = 120
    x = torch.randn(3, n, 2, generator=seeded(1))
    noise = kl_weights.sqrt()[:, None] * torch.randn(3, n, generator=seeded(2))
    y = x @ torch.tensor([0.5, -0.5]) + noise
    networks = [initialise(mlp((2, 1), Deterministic), seeded(seed)) for seed in range(3)]
    config = {"n_steps": 1600, "batch_size": 20, "learning_rate": 0.03}
    points = [{"kl_weight": weight} for weight in kl_weights.tolist()]
    q = slang_posterior(BatchedNetworks(networks), Task(points, x, y, config, seeded(3)))

    design = torch.cat([x, torch.ones(3, n, 1)], -1)
    precision = design.mT @ design / kl_weights[:, None, None] + torch.eye(3)
    exact_var = torch.linalg.inv(precision).diagonal(dim1=1, dim2=2)
    pull = (design.mT @ y[..., None])[..., 0] / kl_weights[:, None]
    exact_mean = torch.linalg.solve(precision, pull)
    precision = q.factor @ q.factor.mT + torch.diag_embed(q.diagonal)
    var = torch.linalg.inv(precision).diagonal(dim1=1, dim2=2)
    assert ((var / exact_var > 0.5) & (var / exact_var < 2)).all()
    assert ((q.mean - exact_mean) / exact_var.sqrt()).abs().max() < 1.5


def test_the_gp_is_fitted_where_the_line_search_tries_vanishing_length_scales():
    """Two levels explain nearly everything. Without the bound: no Cholesky factor."""
    generator = seeded(1)
    level = torch.randint(0, 2, (60, 1), generator=generator).double()
    x = torch.cat([level, torch.randint(0, 5, (60, 1), generator=generator).double()], 1)
    x = torch.cat([x, torch.randn(60, 2, generator=generator).double()], 1)
    x = (x - x.mean(0)) / x.std(0, correction=0)
    y = x[:, 0] + 0.05 * x[:, 1] + 0.02 * torch.randn(60, generator=generator).double()
    predict = exact_gp(None, Task([{}], x[None], y[None], {}, seeded()))
    draws = predict(x[None], 100, seeded())
    assert draws.shape == (100, 1, 60)
    assert (draws.mean(0) - y).square().mean().sqrt() < 0.03
    assert draws.std(0).mean() < 0.03


def test_the_gp_draws_with_the_standard_deviation_of_its_prediction():
    x = torch.randn(30, 1, generator=seeded(1)).double()
    y = x[:, 0].sin() + 0.1 * torch.randn(30, generator=seeded(2)).double()
    far = torch.linspace(-4, 4, 9).double()[:, None]
    predict = exact_gp(None, Task([{}], x[None], y[None], {}, seeded()))
    draws = predict(far[None], 20_000, seeded(3))[:, 0]
    mean, var = fitted_process(x, y).predict(far)
    assert var.max() > 5 * var.min()
    torch.testing.assert_close(draws.var(0).double(), var, rtol=0.05, atol=0)
    assert ((draws.mean(0) - mean) / (var / 20_000).sqrt()).abs().max() < 5
