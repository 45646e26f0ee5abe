import math

import pytest
import torch
from torch.distributions import Categorical, MultivariateNormal

from bdl_lessons.evaluation import (
    entropy,
    log_mean_probs,
    log_predictive_likelihood,
    mutual_information,
    predictive_entropy,
    predictive_var,
)


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_variance_adds_the_noise_variance_to_the_spread():
    draws = torch.tensor([[[1.0]], [[5.0]]], dtype=torch.float64)
    assert predictive_var(draws, tau=4.0).item() == pytest.approx(0.25 + 4.0)


@pytest.mark.parametrize("tau", [2.5, torch.tensor([0.5, 4.0], dtype=torch.float64)])
def test_likelihood_is_that_of_the_mixture(tau):
    draws, y = normal(9, 5, 2), normal(5, 2, seed=1)
    cov = torch.diag(1 / (torch.ones(2, dtype=torch.float64) * tau))
    densities = MultivariateNormal(draws, cov).log_prob(y).exp()
    torch.testing.assert_close(
        log_predictive_likelihood(draws, y, tau), densities.mean(0).log(), atol=1e-12, rtol=1e-10
    )


def test_likelihood_survives_where_densities_underflow():
    draws, y = torch.zeros(3, 1, 1), torch.full((1, 1), 100.0)
    expected = -5000 - 0.5 * math.log(2 * math.pi)
    assert log_predictive_likelihood(draws, y, 1.0).item() == pytest.approx(expected)


def test_probabilities_are_averaged_not_logits():
    logits = 3 * normal(6, 4, 5)
    torch.testing.assert_close(log_mean_probs(logits).exp(), logits.softmax(-1).mean(0))


def test_entropy_and_mutual_information():
    logits = 3 * normal(6, 4, 5)
    mean_probs = logits.softmax(-1).mean(0)
    total = Categorical(mean_probs).entropy()
    torch.testing.assert_close(predictive_entropy(logits), total)
    expected = Categorical(logits=logits).entropy().mean(0)
    torch.testing.assert_close(mutual_information(logits), total - expected)


def test_the_two_extremes_of_disagreement():
    sure = torch.tensor([[[60.0, 0.0]], [[0.0, 60.0]]], dtype=torch.float64)
    assert mutual_information(sure).item() == pytest.approx(math.log(2))
    same = torch.zeros(2, 1, 2, dtype=torch.float64)
    assert mutual_information(same).item() == pytest.approx(0, abs=1e-12)
    assert predictive_entropy(same).item() == pytest.approx(math.log(2))


def test_entropy_of_a_certain_class_is_zero():
    assert entropy(torch.tensor([0.0, -torch.inf])).item() == 0


@pytest.mark.parametrize("tau", [0.0, -1.0, math.nan, math.inf, torch.ones(3)])
def test_a_bad_precision_is_refused(tau):
    with pytest.raises(ValueError, match="tau"):
        predictive_var(torch.ones(2, 4, 2), tau)


@pytest.mark.parametrize(
    "draws", [torch.ones(4, 2), torch.ones(2, 0, 2), torch.full((2, 4, 2), math.nan)]
)
def test_bad_draws_are_refused(draws):
    with pytest.raises(ValueError, match="logits must"):
        log_mean_probs(draws)
    with pytest.raises(ValueError, match="draws must"):
        predictive_var(draws, 1.0)


def test_targets_of_another_shape_are_refused():
    with pytest.raises(ValueError, match=r"\(4, 2\), got \(4,\)"):
        log_predictive_likelihood(torch.ones(3, 4, 2), torch.ones(4), 1.0)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_targets_that_are_not_finite_are_refused(bad):
    y = torch.tensor([[0.0], [bad]])
    with pytest.raises(ValueError, match="y must be finite"):
        log_predictive_likelihood(torch.ones(3, 2, 1), y, 1.0)


def test_draws_of_whole_numbers_are_refused():
    with pytest.raises(TypeError, match="logits must"):
        log_mean_probs(torch.ones(2, 4, 3, dtype=torch.int64))


@pytest.mark.parametrize("log_probs", [[-3.0, -5.0], [1.0, 0.0], [math.nan, 0.0]])
def test_the_entropy_of_logits_is_refused(log_probs):
    with pytest.raises(ValueError, match="log_probs must be logarithms of probabilities"):
        entropy(torch.tensor(log_probs))
