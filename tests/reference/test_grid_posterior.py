import math

import torch
from torch.distributions import MultivariateNormal

from bdl_lessons.reference import GridPosterior
from tests.tables import close, refused

MEAN = torch.tensor([0.5, -1.0], dtype=torch.float64)
COV = torch.tensor([[1.0, -0.6], [-0.6, 0.8]], dtype=torch.float64)


def gaussian_grid(log_evidence=-3.0, **options):
    q = MultivariateNormal(MEAN, COV)
    options = {"low": (-6, -7), "high": (7, 5)} | options
    return GridPosterior(lambda w: q.log_prob(w) + log_evidence, **options)


def test_a_known_posterior_comes_back():
    grid = gaussian_grid()
    close(grid.log_evidence, -3.0)
    close(grid.probs.sum(), 1.0)
    close(grid.mean, MEAN)
    close(grid.cov, COV, atol=1e-7)
    close(grid.expect(grid.points.prod(-1)), COV[0, 1] + MEAN.prod(), atol=1e-7)


def test_divergence_from_a_gaussian_against_the_closed_form():
    q = MultivariateNormal(MEAN + 0.3, COV * 0.5)
    grid = gaussian_grid()
    expected = torch.distributions.kl_divergence(q, MultivariateNormal(MEAN, COV))
    close(grid.kl_from(q.log_prob(grid.points)), expected, atol=1e-8)
    close(grid.kl_from(MultivariateNormal(MEAN, COV).log_prob(grid.points)), 0.0, atol=1e-8)


def test_sample_follows_the_probabilities():
    grid = gaussian_grid()
    draws = grid.sample(5000, torch.Generator().manual_seed(0))
    assert draws.shape == (5000, 2)
    close(draws.mean(0), MEAN, atol=0.06)
    close(draws.mT.cov(), COV, atol=0.08)


test_bad_input_is_refused = refused(
    (lambda: gaussian_grid(high=(0.5, 5)), "cuts the posterior off"),
    (lambda: GridPosterior(lambda w: w[:, 0] * math.nan, (-1, -1), (1, 1)), "NaN"),
    (lambda: GridPosterior(lambda w: w[:, :1], (-9, -9), (9, 9)), "log_joint must give"),
)
