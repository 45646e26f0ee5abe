import pytest
import torch
from torch.distributions import Bernoulli, Normal

from bdl_lessons.datasets.bioassay import load
from bdl_lessons.reference import BayesLogistic
from tests.tables import refused


def bioassay(prior_var):
    return BayesLogistic(*load(), prior_var)


def test_the_joint_is_likelihood_times_prior():
    model = bioassay(prior_var=4.0)
    w = torch.randn(6, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    likelihood = Bernoulli(logits=w @ model.X.mT).log_prob(model.y.expand(6, -1)).sum(-1)
    prior = Normal(0, 2.0).log_prob(w).sum(-1)
    torch.testing.assert_close(model.log_likelihood(w), likelihood)
    torch.testing.assert_close(model.log_prior(w), prior)
    torch.testing.assert_close(model.log_joint(w), likelihood + prior)
    torch.testing.assert_close(model.log_joint(w[0]), (likelihood + prior)[0])
    assert model.log_likelihood(torch.tensor([1e3, -1e4]).double()).isfinite()


def test_map_has_zero_gradient():
    model = bioassay(prior_var=25.0)
    w = model.map().requires_grad_()
    (gradient,) = torch.autograd.grad(model.log_joint(w), w)
    assert gradient.abs().max() < 1e-7


def test_map_is_found_in_float32_too():
    w = BayesLogistic(torch.eye(2), torch.tensor([0.0, 1.0]), 1.0).map()
    assert w.tolist() == pytest.approx([-0.4011, 0.4011], abs=1e-4)


def test_a_flat_prior_gives_the_published_maximum_likelihood_fit():
    """(0.8, 7.7) in Gelman et al., Bayesian Data Analysis, section 3.7."""
    intercept, slope = bioassay(prior_var=1e6).map().tolist()
    assert intercept == pytest.approx(0.8, abs=0.06)
    assert slope == pytest.approx(7.7, abs=0.06)


def test_map_survives_separable_data():
    X = torch.tensor([[1.0, -1.0], [1.0, 1.0]], dtype=torch.float64)
    model = BayesLogistic(X, torch.tensor([0.0, 1.0]), prior_var=1e4)
    assert model.map()[1] > 3


test_bad_input_is_refused = refused(
    (lambda: BayesLogistic(torch.zeros(3, 2), torch.tensor([0, 2, 2]), 1.0), "labels 0 and 1"),
    (lambda: bioassay(1.0).map(n_steps=1), "did not converge"),
    errors=(RuntimeError, ValueError),
)
