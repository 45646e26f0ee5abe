"""The solutions of lesson 04 against the package, and wrong answers the checks must tell apart."""

import math

import pytest
import torch

from bdl_lessons.exercises.grader import grade, of_lesson
from bdl_lessons.exercises.lesson04 import kl_monte_carlo, layer_decays, minibatch_loss, noise_ratio
from bdl_lessons.probability import (
    dropout_mixture,
    elbo_loss,
    gaussian_nll,
    mixture_kl_monte_carlo,
    weight_decay,
)

NOISE, DECAYS, KL, LOSS = of_lesson("04")


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_the_noise_ratio_keeps_the_weight_decay():
    """The noise after, from the ratio, gives the weight decay that the noise before gave."""
    habits = {"data_term": "mse", "scaling": "inverted"}
    before = weight_decay(4.0, 0.7, 100, 0.5, **habits)
    tau_after = 4.0 / noise_ratio(7, 0.5, 0.9) ** 2
    assert weight_decay(tau_after, 0.7, 700, 0.1, **habits) == pytest.approx(before, rel=1e-12)


def test_the_decays_are_those_of_the_package_for_a_negative_log_likelihood():
    wanted = [
        weight_decay(1.0, 1 / 0.3, 50, p_drop, data_term="nll", scaling="inverted")
        for p_drop in (0.0, 0.2, 0.9)
    ]
    assert layer_decays(0.3, 50, [0.0, 0.2, 0.9]) == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("sigma", [0.05, 0.5, 2.0])
def test_the_sampled_kl_is_that_of_the_package(sigma):
    row, prior_var = torch.tensor([1.0, -0.5], dtype=torch.float64), 0.5
    probs, means = dropout_mixture(row[:, None], 0.25)
    wanted, error = mixture_kl_monte_carlo(
        probs, means[0], sigma**2, prior_var, n_samples=40_000, generator=torch.Generator()
    )
    generator = torch.Generator().manual_seed(1)
    found = kl_monte_carlo(row, 0.25, sigma, prior_var**-0.5, 40_000, generator)
    assert abs(found - wanted) < 6 * error


def test_the_minibatch_loss_is_the_elbo_over_tau_up_to_a_constant():
    output, y, tau, kl = normal(6, 3), normal(6, 3, seed=1), 2.5, torch.tensor(9.0).double()
    elbo = elbo_loss(gaussian_nll(output, y, tau), kl, 60) / tau
    constant = 1.5 / tau * math.log(2 * math.pi / tau)
    torch.testing.assert_close(minibatch_loss(output, y, kl, tau, 60), elbo - constant)


def one_coin_for_each_entry(row, p_drop, sigma, length_scale, n_samples, generator):
    """The density is that of rows, but the draws are not."""
    kept = torch.rand(n_samples, len(row), generator=generator) < 1 - p_drop
    w = kept * row + sigma * torch.randn(n_samples, len(row), generator=generator).double()
    each = [-(w - mean).square().sum(1) / (2 * sigma**2) for mean in (row, 0 * row)]
    log_q = torch.logaddexp(each[0] + math.log(1 - p_drop), each[1] + math.log(p_drop))
    log_p = -(length_scale**2) * w.square().sum(1) / 2
    return (log_q - log_p).mean() - len(row) * math.log(sigma * length_scale)


@pytest.mark.parametrize(
    ("exercise", "answer"),
    [
        (NOISE, lambda data_factor, before, after: data_factor**0.5 * after / before),
        (DECAYS, lambda prior_std, n, p_drops: layer_decays(prior_std, n, [max(p_drops)] * 2)),
        (KL, one_coin_for_each_entry),
        (KL, lambda row, *others: kl_monte_carlo(row, *others) * 1.03),
        (LOSS, lambda output, y, kl, tau, n: minibatch_loss(output, y, kl, tau, n) * len(y)),
        (LOSS, lambda output, y, kl, tau, n: (output - y).norm() ** 2 / 12 + kl / (tau * n)),
    ],
)
def test_a_wrong_answer_is_not_solved(exercise, answer):
    assert grade(exercise, exercise.solution).solved
    report = grade(exercise, answer)
    assert not report.solved
    assert report.form is None


def test_an_answer_that_draws_in_another_order_is_right():
    def noise_first(row, p_drop, sigma, length_scale, n_samples, generator):
        noise = torch.randn(n_samples, len(row), generator=generator).double()
        kept = torch.rand(n_samples, generator=generator)[:, None] > p_drop
        w = torch.where(kept, row, 0 * row) + sigma * noise
        spikes = torch.distributions.Normal(torch.stack([row, 0 * row]), sigma)
        log_probs = torch.tensor([1 - p_drop, p_drop]).double().log()
        log_q = (spikes.log_prob(w[:, None]).sum(-1) + log_probs).logsumexp(1)
        prior = torch.distributions.Normal(torch.zeros_like(row), 1 / length_scale)
        return (log_q - prior.log_prob(w).sum(1)).mean()

    assert grade(KL, noise_first).solved


@pytest.mark.parametrize(
    ("lost", "said"),
    [
        ({"sigma"}, "log N(w; m, sigma²) contains"),
        ({"length_scale"}, "log p(w) contains"),
        ({"sigma", "length_scale"}, "both densities lack"),
    ],
)
def test_a_lost_normaliser_is_named(lost, said):
    def unnormalised(row, p_drop, sigma, length_scale, n_samples, generator):
        kept = torch.rand(n_samples, 1, generator=generator) < 1 - p_drop
        w = kept * row + sigma * torch.randn(n_samples, len(row), generator=generator).double()
        each = [-(w - mean).square().sum(1) / (2 * sigma**2) for mean in (row, 0 * row)]
        log_q = torch.logaddexp(each[0] + math.log(1 - p_drop), each[1] + math.log(p_drop))
        log_p = -(length_scale**2) * w.square().sum(1) / 2
        found = (log_q - log_p).mean()
        for name, width in (("sigma", sigma), ("length_scale", length_scale)):
            found = found - (0 if name in lost else len(row) * math.log(width))
        return found

    report = grade(KL, unnormalised)
    assert not report.solved
    assert said in str(report)
