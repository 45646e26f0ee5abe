import copy
import pickle

import gpytorch
import pytest
import torch

from bdl_lessons.reference import CosKernel, ErfKernel, GaussianProcess, ReLUKernel
from tests.tables import refused

KERNELS = [ReLUKernel, ErfKernel, CosKernel]
pytestmark = pytest.mark.filterwarnings("error")


def toy(n=25, seed=0):
    rng = torch.Generator().manual_seed(seed)
    x = torch.linspace(-2, 2, n, dtype=torch.float64)
    noise = torch.randn(n, generator=rng, dtype=torch.float64)
    return x, 300 + 8 * torch.sin(2 * x) + noise


def log_density(k, y, noise_var):
    """``log N(y; 0, k + noise_var I)``."""
    cov = k + noise_var * torch.eye(len(y)).to(k)
    distribution = torch.distributions.MultivariateNormal(torch.zeros_like(y), cov)
    return distribution.log_prob(y)


def conditioned(k, n, y, noise_var):
    """Mean and variance of f at the rows of ``k`` from the first ``n`` on, where ``y`` is known:
    ``K*' (K + noise_var I)^-1 y`` and ``K** - K*' (K + noise_var I)^-1 K*``."""
    cross = k[:n, n:]
    cov_of_y = k[:n, :n] + noise_var * torch.eye(n).to(k)
    gain = torch.linalg.solve(cov_of_y, cross)
    cov = k[n:, n:] - cross.T @ gain
    return gain.T @ y, cov.diagonal()


@pytest.mark.parametrize("kernel_class", KERNELS)
def test_wrapper_conditions_the_joint_gaussian_in_original_units(kernel_class):
    x, y = toy()
    x_test = torch.linspace(-4, 4, 31, dtype=torch.float64)
    gp = GaussianProcess(x, y, kernel_class(2), noise_var=1.3)
    mean, var = gp.predict(x_test)
    n = len(x)
    both = torch.cat([x, x_test]).unsqueeze(-1)
    k = y.var(correction=0) * gp.kernel(both).to_dense().detach()
    centred = y - y.mean()
    f_mean, f_var = conditioned(k, n, centred, 1.3)
    assert torch.allclose(mean, f_mean + y.mean(), atol=1e-8)
    assert torch.allclose(var, f_var, atol=1e-8)
    assert gp.noise_var.item() == pytest.approx(1.3)
    evidence = log_density(k[:n, :n], centred, 1.3)
    assert gp.log_evidence().item() == pytest.approx(evidence.item(), abs=1e-8)


def test_wrapper_is_exact_above_the_size_where_gpytorch_turns_stochastic():
    x, y = toy(900)
    gp = GaussianProcess(x, y, CosKernel(), noise_var=1.0)
    k = y.var(correction=0) * gp.kernel(x.unsqueeze(-1)).to_dense().detach()
    centred = y - y.mean()
    evidence = log_density(k, centred, 1.0)
    assert gp.log_evidence().item() == pytest.approx(evidence.item(), abs=1e-6)
    rows = torch.cat([torch.arange(900), torch.arange(50)])
    mean, var = conditioned(k[rows][:, rows], 900, centred, 1.0)
    predicted_mean, predicted_var = gp.predict(x[:50])
    assert torch.allclose(predicted_mean, mean + y.mean(), atol=1e-7)
    assert torch.allclose(predicted_var, var, atol=1e-7)


@pytest.mark.parametrize("kernel_class", KERNELS)
def test_fit_raises_the_evidence_to_a_stationary_point(kernel_class):
    x, y = toy()
    gp = GaussianProcess(x, y, kernel_class(), noise_var=20.0)
    before = gp.log_evidence().item()
    after = gp.fit(100).log_evidence().item()
    assert after > before + 1
    assert gp.fit(100).log_evidence().item() < after + 0.02
    assert 0.3 < gp.noise_var.item() < 3  # the data were made with variance 1


def test_predictions_follow_a_changed_parameter():
    x, y = toy()
    gp = GaussianProcess(x, y, ErfKernel(), noise_var=1.0)
    gp.predict(x)
    gp.kernel.weight_var = 30.0
    fresh = GaussianProcess(x, y, ErfKernel(weight_var=30.0), noise_var=1.0)
    assert torch.allclose(gp.predict(x)[0], fresh.predict(x)[0], atol=1e-5)


def test_a_state_of_another_data_set_brings_its_parameters_and_not_its_units():
    """What is loaded are parameters of standardised targets; these data differ by units alone."""
    x, y = toy()
    fitted = GaussianProcess(x, y, ErfKernel(), noise_var=1.0).fit()
    other = GaussianProcess(x, 100 + y / 8, ErfKernel(), noise_var=1.0)
    other.load_state_dict(fitted.state_dict())
    mean, var = fitted.predict(x)
    other_mean, other_var = other.predict(x)
    torch.testing.assert_close(other_mean, 100 + mean / 8)
    torch.testing.assert_close(other_var, var / 64)
    torch.testing.assert_close(other.noise_var, fitted.noise_var / 64)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda gp: pickle.loads(pickle.dumps(gp))])
def test_a_copy_predicts_the_same_in_the_same_units(copied):
    x, y = toy()
    gp = GaussianProcess(x, y, ErfKernel(), noise_var=1.0).fit()
    for before, after in zip(gp.predict(x), copied(gp).predict(x), strict=True):
        torch.testing.assert_close(before, after)


def test_equal_inputs_count_as_several_measurements():
    """Two targets at every input are one, their mean, with half the noise."""
    x, y = toy()
    twice = torch.cat([x, x])
    apart = torch.cat([y + 0.5, y - 0.5])
    of_two, _ = GaussianProcess(twice, apart, ErfKernel(), noise_var=2.0).predict(x)
    # the kernel is in units of the targets' variance, so that both have the same prior
    kernel = gpytorch.kernels.ScaleKernel(ErfKernel())
    kernel.outputscale = (apart.var(correction=0) / y.var(correction=0)).item()
    of_one, _ = GaussianProcess(x, y, kernel, noise_var=1.0).predict(x)
    torch.testing.assert_close(of_two, of_one, rtol=1e-6, atol=0)


def test_what_would_answer_in_other_units_is_refused():
    x, y = toy()
    gp = GaussianProcess(x, y, ErfKernel(), noise_var=1.0)
    with pytest.raises(TypeError, match=r"predict\(x\)"):
        gp.eval()(x)
    assert not hasattr(gp, "set_train_data")
    assert not hasattr(gp, "get_fantasy_model")


X = torch.arange(5.0)

test_bad_input_is_refused = refused(
    (lambda: GaussianProcess(X, 0 * X + 0.1, ErfKernel(), 1.0), "constant"),
    (lambda: GaussianProcess(X, X, ErfKernel(), 1.0).fit(0), "n_steps"),
)
