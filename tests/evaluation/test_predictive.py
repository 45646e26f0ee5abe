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
    score_taus,
)
from tests.draws import normal
from tests.tables import refused


@pytest.mark.parametrize(
    ("n_outputs", "tau"),
    [
        (1, 2.5),
        (2, torch.tensor([0.5, 4.0], dtype=torch.float64)),
        (2, normal(9, 5, 2, seed=2).exp()),
    ],
    ids=["a number", "one for each output", "predicted"],
)
def test_likelihood_and_variance_are_those_of_the_mixture(n_outputs, tau):
    draws = normal(9, 5, n_outputs)
    y = normal(5, n_outputs, seed=1)
    noise_var = (1 / torch.as_tensor(tau, dtype=torch.float64)).expand_as(draws)
    second_moment = (noise_var + draws.square()).mean(0)
    torch.testing.assert_close(predictive_var(draws, tau), second_moment - draws.mean(0).square())
    cov = torch.diag_embed(noise_var)
    densities = MultivariateNormal(draws, cov).log_prob(y).exp()
    torch.testing.assert_close(
        log_predictive_likelihood(draws, y, tau), densities.mean(0).log(), atol=1e-12, rtol=1e-10
    )


def test_the_scores_of_taus_are_those_of_each_and_find_the_noise():
    draws = 0.1 * normal(50, 2000, 1)
    y = 0.5 * normal(2000, 1, seed=1)  # noise of variance 1/4 around 0
    taus = torch.logspace(-1, 2, 31, dtype=torch.float64)
    scores = score_taus(draws, y, taus)
    one_by_one = [log_predictive_likelihood(draws, y, tau.item()).mean() for tau in taus]
    torch.testing.assert_close(scores, torch.stack(one_by_one))
    assert 3 < taus[scores.argmax()].item() < 5
    pairs = torch.stack([taus, taus.flip(0)], 1)
    of_two = score_taus(draws.expand(-1, -1, 2), y.expand(-1, 2), pairs)
    torch.testing.assert_close(of_two, scores + scores.flip(0), rtol=0.05, atol=0)


LOGITS = normal(9, 5, 3)

test_logits_and_shapes_that_do_not_fit_are_refused_with_a_remedy = refused(
    (lambda: predictive_var(LOGITS, 1.0), r"tau .* 3 outputs.*log_mean_probs\(draws\)\.exp\(\)"),
    (lambda: predictive_var(LOGITS, torch.ones(1)), r"tau .* a tensor of 3 precisions"),
    (lambda: log_predictive_likelihood(LOGITS, LOGITS[0], 1.0), r"tau .* 3 outputs"),
    (lambda: predictive_var(LOGITS, torch.ones(5, 3)), r"tau must .*shape.*\(5, 3\)"),
    (lambda: score_taus(LOGITS, LOGITS[0], torch.ones(4)), r"tau .* 3 outputs"),
    (lambda: score_taus(LOGITS, LOGITS[0], torch.tensor([1.0, -1.0])), "taus must be precisions"),
)


def test_likelihood_survives_where_densities_underflow():
    draws = torch.zeros(3, 1, 1)
    y = torch.full((1, 1), 100.0)
    expected = -5000 - 0.5 * math.log(2 * math.pi)
    assert log_predictive_likelihood(draws, y, 1.0).item() == pytest.approx(expected)


def test_probabilities_are_averaged_not_logits():
    logits = 3 * normal(6, 4, 5)
    mean_probs = logits.softmax(-1).mean(0)
    total = Categorical(mean_probs).entropy()
    torch.testing.assert_close(log_mean_probs(logits).exp(), mean_probs)
    torch.testing.assert_close(predictive_entropy(logits), total)
    entropy_of_draws = Categorical(logits=logits).entropy().mean(0)
    torch.testing.assert_close(mutual_information(logits), total - entropy_of_draws)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_draws_that_agree_have_no_mutual_information_below_zero(dtype):
    logits = (3 * normal(1, 500, 10)).to(dtype).expand(20, 500, 10)
    information = mutual_information(logits)
    assert information.min() >= 0
    torch.testing.assert_close(information, torch.zeros_like(information), rtol=0, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_draws_in_half_precision_are_averaged_in_single(dtype):
    """1000 draws: a sum of their squares in float16 would overflow, one in bfloat16 stop early."""
    draws = (100 + 10 * normal(1000, 3, 2)).to(dtype)
    y = (100 + normal(3, 2, seed=1)).to(dtype)
    logits = normal(1000, 3, 4).to(dtype)
    tau = torch.ones(2)
    pairs = [
        (predictive_var(draws, 2 * tau), predictive_var(draws.double(), 2 * tau)),
        (
            log_predictive_likelihood(draws, y, 0.01 * tau),
            log_predictive_likelihood(draws.double(), y.double(), 0.01 * tau),
        ),
        (mutual_information(logits), mutual_information(logits.double())),
        (predictive_entropy(logits), predictive_entropy(logits.double())),
    ]
    for single, double in pairs:
        assert single.dtype == torch.float32
        torch.testing.assert_close(single.double(), double, rtol=1e-4, atol=1e-5)
    entropies = entropy(logits.log_softmax(-1))
    expected = entropy(logits.double().log_softmax(-1))
    torch.testing.assert_close(entropies.double(), expected, rtol=0.03, atol=0)


def test_the_two_extremes_of_disagreement():
    confident = torch.tensor([[[60.0, 0.0]], [[0.0, 60.0]]], dtype=torch.float64)
    assert mutual_information(confident).item() == pytest.approx(math.log(2))
    uncertain = torch.zeros(2, 1, 2, dtype=torch.float64)
    assert mutual_information(uncertain).item() == pytest.approx(0, abs=1e-12)
    assert predictive_entropy(uncertain).item() == pytest.approx(math.log(2))


def test_a_class_of_probability_0_adds_no_entropy():
    assert entropy(torch.tensor([0.0, -torch.inf])).item() == 0


def test_the_predictive_variance_is_that_of_the_noise_plus_that_of_the_draws():
    draws = torch.tensor([[[1.0]], [[5.0]]], dtype=torch.float64)
    assert predictive_var(draws, tau=4.0).item() == pytest.approx(1 / 4.0 + 2.0**2)
