import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.distributions import Normal

from bdl_lessons.probability import elbo_loss, gaussian_nll, kl_warmup
from tests.draws import normal


def test_the_loss_is_minus_the_elbo_of_a_conjugate_model_per_example():
    """y_n ~ N(w, 1/tau), w ~ N(0, 1), q = the exact posterior: the ELBO is the log evidence."""
    n_train, tau = 5, 2.5
    y = normal(n_train, 1)
    post_var = 1 / (1 + tau * n_train)
    post_mean = post_var * tau * y.sum()
    expected_nll = gaussian_nll(post_mean.expand(n_train, 1), y, tau) + tau * post_var / 2
    kl = 0.5 * (post_var + post_mean**2 - 1 - math.log(post_var))
    covariance = torch.eye(n_train, dtype=y.dtype) / tau + 1
    log_evidence = torch.distributions.MultivariateNormal(
        torch.zeros(n_train, dtype=y.dtype), covariance
    ).log_prob(y[:, 0])
    torch.testing.assert_close(elbo_loss(expected_nll, kl, n_train) * n_train, -log_evidence)


def test_the_kl_is_divided_by_the_training_set_and_weighted():
    assert elbo_loss(torch.tensor(1.0), torch.tensor(8.0), n_train=4, kl_weight=0.5) == 2.0
    assert elbo_loss(torch.tensor(1.0), 8.0, n_train=4) == 3.0


@given(tau=st.floats(0.05, 20))
def test_gaussian_nll_is_the_log_density(tau):
    output, y = normal(6, 3), normal(6, 3, seed=1)
    expected = -Normal(output, tau**-0.5).log_prob(y).sum(-1).mean()
    torch.testing.assert_close(gaussian_nll(output, y, tau), expected)
    torch.testing.assert_close(gaussian_nll(output, y, torch.tensor(tau).double()), expected)


def test_a_sample_axis_is_averaged_in_the_log():
    draws, y = normal(7, 6, 2), normal(6, 2, seed=1)
    each = torch.stack([gaussian_nll(draw, y, 1.3) for draw in draws])
    torch.testing.assert_close(gaussian_nll(draws, y.expand(7, 6, 2), 1.3), each.mean())


def test_warm_up_is_a_clipped_line():
    published, tempered = kl_warmup(15, begin=5), kl_warmup(15, begin=5, final=0.2)
    steps = (0, 5, 6, 12.5, 20, 1000)
    weights = [0, 0, 1 / 15, 0.5, 1, 1]
    assert [published(step) for step in steps] == pytest.approx(weights)
    assert [tempered(step) for step in steps] == pytest.approx([0.2 * w for w in weights])
    assert [kl_warmup(0, begin=3)(step) for step in (2, 3)] == [0, 1]


def test_bad_input_names_the_argument():
    y, one = normal(6, 1), torch.tensor(1.0)
    with pytest.raises(ValueError, match=r"B, D\), got \(6,\)"):
        gaussian_nll(y[:, 0], y[:, 0], 1.0)
    for output in (y[:1], y[:, 0], y.expand(6, 2), y.expand(2, 6, 1)):
        with pytest.raises(ValueError, match="output has shape"):
            gaussian_nll(output, y, 1.0)
    for tau in (0, -1, math.inf, math.nan):
        with pytest.raises(ValueError, match="tau"):
            gaussian_nll(y, y, tau)
    for shape in ((1,), (5,), (5, 1)):
        with pytest.raises(ValueError, match="tau must be a number or"):
            gaussian_nll(y, y, torch.ones(shape))
    for name, value in itertools.product(("n_steps", "final", "begin"), (math.inf, math.nan, "1")):
        with pytest.raises((TypeError, ValueError), match=name):
            kl_warmup(**{"n_steps": 1, name: value})
    for name in ("n_steps", "final"):
        with pytest.raises(ValueError, match=name):
            kl_warmup(**{"n_steps": 1, name: -1})
    for kl in (torch.ones(2), torch.ones(1)):
        with pytest.raises(ValueError, match="kl has shape"):
            elbo_loss(one, kl, 10)
    with pytest.raises(ValueError, match="kl_weight has shape"):
        elbo_loss(torch.ones(3), torch.ones(3), 10, torch.ones(3, 1))
    for n_train in (0, 1.5, True):
        with pytest.raises((TypeError, ValueError), match="n_train"):
            elbo_loss(one, one, n_train)
    for kl_weight in (-0.1, math.nan):
        with pytest.raises(ValueError, match="kl_weight"):
            elbo_loss(one, one, 10, kl_weight=kl_weight)


def test_each_of_several_networks_has_its_own_weight():
    loss = elbo_loss(torch.ones(2), torch.tensor([8.0, 4.0]), 4, torch.tensor([0.5, 3.0]))
    torch.testing.assert_close(loss, torch.tensor([2.0, 4.0]))


def test_the_precision_of_the_likelihood_may_be_learned():
    y = torch.randn(6, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    tau = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda tau: gaussian_nll(0 * y, y, tau), (tau,))
