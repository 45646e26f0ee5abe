import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.distributions import MultivariateNormal, Normal

from bdl_lessons.probability import elbo_loss, gaussian_nll, kl_warmup
from tests.draws import normal
from tests.tables import refused


def test_the_loss_is_minus_the_elbo_of_a_conjugate_model_per_example():
    """y_n ~ N(w, 1/tau), w ~ N(0, 1), q = the exact posterior: the ELBO is the log evidence."""
    n_train = 5
    tau = 2.5
    y = normal(n_train, 1)
    post_var = 1 / (1 + tau * n_train)
    post_mean = post_var * tau * y.sum()
    nll_at_mean = gaussian_nll(post_mean.expand(n_train, 1), y, tau)
    expected_nll = nll_at_mean + tau * post_var / 2
    kl = 0.5 * (post_var + post_mean**2 - 1 - math.log(post_var))
    loss = elbo_loss(expected_nll, kl, n_train)

    cov_of_targets = torch.eye(n_train, dtype=y.dtype) / tau + 1
    evidence = MultivariateNormal(torch.zeros_like(y[:, 0]), cov_of_targets)
    torch.testing.assert_close(n_train * loss, -evidence.log_prob(y[:, 0]))


def test_the_kl_is_divided_by_the_training_set_and_weighted_for_each_of_several_networks():
    assert elbo_loss(torch.tensor(1.0), 8.0, n_train=4) == 3.0
    loss = elbo_loss(torch.ones(2), torch.tensor([8.0, 4.0]), 4, torch.tensor([0.5, 3.0]))
    torch.testing.assert_close(loss, torch.tensor([2.0, 4.0]))


@given(tau=st.floats(0.05, 20))
def test_gaussian_nll_is_the_log_density(tau):
    output = normal(6, 3)
    y = normal(6, 3, seed=1)
    expected = -Normal(output, tau**-0.5).log_prob(y).sum(-1).mean()
    torch.testing.assert_close(gaussian_nll(output, y, tau), expected)
    torch.testing.assert_close(gaussian_nll(output, y, torch.tensor(tau).double()), expected)


def test_a_sample_axis_is_averaged_in_the_log():
    draws = normal(7, 6, 2)
    y = normal(6, 2, seed=1)
    of_each_draw = torch.stack([gaussian_nll(draw, y, 1.3) for draw in draws])
    together = gaussian_nll(draws, y.expand(7, 6, 2), 1.3)
    torch.testing.assert_close(together, of_each_draw.mean())


def test_warm_up_is_a_clipped_line():
    to_one = kl_warmup(15, begin=5)
    to_a_fifth = kl_warmup(15, begin=5, final=0.2)
    for step, weight in [(0, 0), (5, 0), (6, 1 / 15), (12.5, 0.5), (20, 1), (1000, 1)]:
        assert to_one(step) == pytest.approx(weight)
        assert to_a_fifth(step) == pytest.approx(0.2 * weight)
    at_once = kl_warmup(0, begin=3)
    assert at_once(2) == 0
    assert at_once(3) == 1


Y = normal(6, 1)
ONE = torch.tensor(1.0)

test_bad_input_names_the_argument = refused(
    (lambda: gaussian_nll(Y[:, 0], Y[:, 0], 1.0), r"B, D\), got \(6,\)"),
    (lambda: gaussian_nll(Y[:1], Y, 1.0), "output has shape"),
    (lambda: gaussian_nll(Y[:, 0], Y, 1.0), "output has shape"),
    (lambda: gaussian_nll(Y, Y, 0), "tau"),
    (lambda: gaussian_nll(Y, Y, torch.ones(1)), "tau must be a number"),
    (lambda: kl_warmup(-1), "n_steps"),
    (lambda: elbo_loss(ONE, torch.ones(1), 10), "kl has shape"),
    (lambda: elbo_loss(torch.ones(3), torch.ones(3), 10, torch.ones(3, 1)), "kl_weight has shape"),
    (lambda: elbo_loss(ONE, ONE, 0), "n_train"),
    (lambda: elbo_loss(ONE, ONE, 10, -0.1), "kl_weight"),
)
