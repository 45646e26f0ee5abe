import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.distributions import Normal

from bdl_lessons.probability import categorical_nll, elbo_loss, gaussian_nll, kl_warmup, total_kl

positive = st.floats(0.05, 20)


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


class Fixed(nn.Module):
    def __init__(self, value: float, inner: nn.Module | None = None):
        super().__init__()
        self.value, self.inner = nn.Parameter(torch.tensor(value)), inner

    def kl(self) -> torch.Tensor:
        return 3 * self.value


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


@given(tau=positive, y_std=positive)
def test_gaussian_nll_is_the_log_density_in_original_units(tau, y_std):
    y_pred, y = normal(6, 3), normal(6, 3, seed=1)
    expected = -Normal(y_pred * y_std, tau**-0.5).log_prob(y * y_std).sum(-1).mean()
    torch.testing.assert_close(gaussian_nll(y_pred, y, tau, y_std=y_std), expected)


def test_gaussian_nll_takes_one_y_std_per_output():
    y_pred, y, y_std = normal(6, 3), normal(6, 3, seed=1), torch.tensor([0.5, 1.0, 4.0]).double()
    expected = -Normal(y_pred * y_std, 0.5).log_prob(y * y_std).sum(-1).mean()
    torch.testing.assert_close(gaussian_nll(y_pred, y, tau=4.0, y_std=y_std), expected)


def test_a_sample_axis_is_averaged_in_the_log():
    draws, y = normal(7, 6, 2), normal(6, 2, seed=1)
    each = torch.stack([gaussian_nll(draw, y, 1.3) for draw in draws])
    torch.testing.assert_close(gaussian_nll(draws, y, 1.3), each.mean())
    logits, labels = normal(7, 5, 3), torch.tensor([0, 1, 2, 1, 0])
    each = torch.stack([categorical_nll(draw, labels) for draw in logits])
    torch.testing.assert_close(categorical_nll(logits, labels), each.mean())


def test_categorical_nll_is_the_log_probability_of_the_label():
    logits, labels = normal(4, 3), torch.tensor([2, 0, 1, 1])
    probability = logits.exp() / logits.exp().sum(-1, keepdim=True)
    expected = -probability[torch.arange(4), labels].log().mean()
    torch.testing.assert_close(categorical_nll(logits, labels), expected)


@pytest.mark.parametrize(
    ("step", "weight"), [(0, 0), (5, 0), (6, 1 / 15), (12.5, 0.5), (20, 1), (1000, 1)]
)
def test_warm_up_is_a_clipped_line(step, weight):
    assert kl_warmup(step, begin=5, end=20) == pytest.approx(weight)


def test_a_warm_up_of_no_length_is_a_step():
    assert kl_warmup(2, begin=3, end=3) == 0
    assert kl_warmup(3, begin=3, end=3) == 1


def test_total_kl_adds_layers_and_keeps_the_gradient():
    model = nn.Sequential(Fixed(1.0), nn.ReLU(), nn.Sequential(Fixed(2.0)))
    kl = total_kl(model)
    kl.backward()
    assert kl == 9
    assert [p.grad.item() for p in model.parameters()] == [3, 3]


def test_total_kl_counts_shared_and_nested_modules_once():
    shared = Fixed(1.0)
    assert total_kl(nn.Sequential(shared, nn.Sequential(shared))) == 3
    assert total_kl(nn.Sequential(Fixed(1.0, inner=Fixed(100.0)))) == 3
    assert total_kl(Fixed(1.0)) == 3


def test_a_deterministic_model_pays_nothing():
    kl = total_kl(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    assert isinstance(kl, torch.Tensor)
    assert kl == 0


def test_bad_input_names_the_argument():
    y, labels = normal(6, 1), torch.zeros(6, dtype=torch.int64)
    with pytest.raises(ValueError, match=r"y must have shape \(B, D\)"):
        gaussian_nll(y[:, 0], y[:, 0], 1.0)
    with pytest.raises(ValueError, match="y_pred"):
        gaussian_nll(y[:1], y, 1.0)
    for tau in (0, -1, math.inf, math.nan):
        with pytest.raises(ValueError, match="tau"):
            gaussian_nll(y, y, tau)
    for y_std in (0.0, torch.ones(2), math.nan):
        with pytest.raises(ValueError, match="y_std"):
            gaussian_nll(y, y, 1.0, y_std=y_std)
    with pytest.raises(TypeError, match="int64"):
        categorical_nll(normal(6, 3), labels.double())
    with pytest.raises(ValueError, match="logits"):
        categorical_nll(normal(5, 3), labels)
    with pytest.raises(ValueError, match="begin <= end"):
        kl_warmup(1, begin=2, end=1)
    with pytest.raises(ValueError, match="kl must be one number"):
        elbo_loss(torch.tensor(1.0), torch.ones(2), 10)
    for n_train in (0, 1.5, True):
        with pytest.raises(ValueError, match="n_train"):
            elbo_loss(torch.tensor(1.0), torch.tensor(1.0), n_train)
    with pytest.raises(ValueError, match="kl_weight"):
        elbo_loss(torch.tensor(1.0), torch.tensor(1.0), 10, kl_weight=-0.1)


def test_a_kl_per_weight_is_refused():
    layer = Fixed(1.0)
    layer.kl = lambda: torch.ones(3)
    with pytest.raises(ValueError, match=r"Fixed.kl\(\) must return a 0-dim tensor"):
        total_kl(layer)


def test_the_precision_of_the_likelihood_may_be_learned():
    y = torch.randn(6, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    tau = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda tau: gaussian_nll(0 * y, y, tau), (tau,))
