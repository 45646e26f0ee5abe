"""The exact divergence against four independent evaluations, and the two approximations."""

import math
from itertools import pairwise

import mpmath
import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.special import dawsn, digamma
from scipy.stats import poisson

from bdl_lessons.probability import (
    KL_OFFSET,
    kingma_kl,
    loguniform_kl,
    loguniform_kl_slope,
    molchanov_kl,
)

WIDE = torch.linspace(-20, 20, 2001, dtype=torch.float64)
COARSE = torch.linspace(-20, 20, 81, dtype=torch.float64)
MEETING_POINTS = [-math.log(2 * 64), -math.log(2 * 16)]
# -1/2 log alpha + E log|1 + sqrt(alpha) eps| + (gamma_E + log 2)/2, evaluated to 11 digits
TABLE = {
    -8: 4.6350136069,
    -4: 2.6257549323,
    -2: 1.5441546448,
    -1: 0.9145313097,
    0: 0.4266856043,
    1: 0.1731938592,
    2: 0.0661684855,
    3: 0.0246883354,
    5: 0.0033651936,
}


def of(function, log_alpha, dtype=torch.float64):
    return function(torch.as_tensor(log_alpha, dtype=dtype)).double().numpy()


def hypergeometric(log_alpha):
    """z² 2F2(1, 1; 3/2, 2; -z²) with 60 digits."""
    with mpmath.workdps(60):
        rate = mpmath.exp(-mpmath.mpf(log_alpha)) / 2
        return float(rate * mpmath.hyp2f2(1, 1, 1.5, 2, -rate))


def relative_error(actual, expected):
    return np.abs(actual / np.asarray(expected) - 1).max()


# The exact divergence


def test_it_is_the_tabulated_one():
    np.testing.assert_allclose(of(loguniform_kl, list(TABLE)), list(TABLE.values()), atol=6e-11)


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 2e-14), (torch.float32, 2e-7)])
def test_it_is_the_hypergeometric_form(dtype, bound):
    spots = [*np.linspace(-7, 20, 55), *MEETING_POINTS]
    log_alpha = torch.tensor(spots, dtype=dtype)
    expected = [hypergeometric(value) for value in log_alpha.double().tolist()]
    assert relative_error(loguniform_kl(log_alpha).double().numpy(), expected) < bound


@pytest.mark.parametrize("log_alpha", [-6.0, -3.0, -1.0, 0.0, 2.0, 6.0])
def test_it_is_the_mean_of_its_definition(log_alpha):
    std = math.exp(log_alpha / 2)

    def integrand(eps):
        return math.log(abs(1 + std * eps)) * math.exp(-(eps**2) / 2) / math.sqrt(2 * math.pi)

    pieces = sorted({-40.0, min(max(-1 / std, -40.0), 40.0), 0.0, 40.0})
    mean = sum(
        quad(integrand, low, high, limit=400, epsabs=1e-13)[0] for low, high in pairwise(pieces)
    )
    offset = (np.euler_gamma + math.log(2)) / 2
    assert of(loguniform_kl, log_alpha) == pytest.approx(-log_alpha / 2 + mean + offset, abs=1e-9)


@pytest.mark.parametrize("log_alpha", [-4.5, -2.0, 0.0, 3.0, 9.0])
def test_it_is_twice_the_integral_of_dawson(log_alpha):
    z = math.exp(-log_alpha / 2) / math.sqrt(2)
    integral = quad(dawsn, 0, z, limit=200, epsabs=0, epsrel=1e-12)[0]
    assert of(loguniform_kl, log_alpha) == pytest.approx(2 * integral, rel=1e-11)


@pytest.mark.parametrize("log_alpha", [-4.0, -1.0, 0.0, 2.0])
def test_it_is_a_poisson_mean_of_digammas(log_alpha):
    rate = math.exp(-log_alpha) / 2
    counts = np.arange(400)
    expected = 0.5 * poisson(rate).pmf(counts) @ (digamma(counts + 0.5) - digamma(0.5))
    assert of(loguniform_kl, log_alpha) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("log_alpha", [-20.0, -10.0, -7.0])
def test_small_alpha_follows_its_expansion(log_alpha):
    alpha = math.exp(log_alpha)
    expected = -log_alpha / 2 + KL_OFFSET - alpha / 2 - 3 * alpha**2 / 4
    assert of(loguniform_kl, log_alpha) == pytest.approx(expected, abs=4 * alpha**3 + 1e-14)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_it_is_positive_and_falls_to_zero(dtype):
    kl = loguniform_kl(WIDE.to(dtype))
    assert (kl > 0).all()
    assert (kl.diff() < 0).all()
    assert kl[-1] < 2e-9


# Its gradient


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 2e-14), (torch.float32, 2e-7)])
def test_the_slope_is_dawsons_function(dtype, bound):
    log_alpha = WIDE.to(dtype).clone().requires_grad_()
    loguniform_kl(log_alpha).sum().backward()
    z = np.sqrt(np.exp(-log_alpha.detach().double().numpy()) / 2)
    assert relative_error(log_alpha.grad.double().numpy(), -z * dawsn(z)) < bound
    torch.testing.assert_close(log_alpha.grad, loguniform_kl_slope(log_alpha.detach()))


def test_a_million_weights_in_float32_are_those_in_float64():
    many = torch.linspace(-22, 40, 1_000_001).view(1, -1, 1).requires_grad_()
    value = loguniform_kl(many)
    (slope,) = torch.autograd.grad(value.sum(), many)
    exact = many.detach().double()
    assert value.shape == slope.shape == many.shape
    assert (value / loguniform_kl(exact) - 1).abs().max() < 2e-7
    assert (slope / loguniform_kl_slope(exact) - 1).abs().max() < 2e-7


def test_without_weights_there_is_nothing_to_pay():
    assert loguniform_kl(torch.empty(0, 3)).shape == (0, 3)


def test_autograd_agrees_with_finite_differences():
    torch.autograd.gradcheck(loguniform_kl, COARSE.clone().requires_grad_(), atol=1e-8)


def test_the_gradient_is_weighted_by_what_follows():
    log_alpha = torch.tensor([-1.0, 2.0], dtype=torch.float64, requires_grad=True)
    (loguniform_kl(log_alpha) * torch.tensor([3.0, -5.0])).sum().backward()
    expected = loguniform_kl_slope(log_alpha.detach()) * torch.tensor([3.0, -5.0])
    torch.testing.assert_close(log_alpha.grad, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("log_alpha", [-1e30, -300.0, -88.0, 88.0, 300.0, 1e30])
def test_far_out_nothing_overflows(log_alpha, dtype):
    log_alpha = torch.tensor(log_alpha, dtype=dtype, requires_grad=True)
    kl = loguniform_kl(log_alpha)
    kl.backward()
    assert kl.item() == pytest.approx(max(-log_alpha.item() / 2 + KL_OFFSET, 0.0), rel=1e-6)
    assert log_alpha.grad.item() == pytest.approx(-0.5 if log_alpha < 0 else 0.0, abs=1e-30)


# The approximations


def test_kingma_is_within_its_documented_error_below_one():
    log_alpha = torch.linspace(-20, 0, 20001, dtype=torch.float64)
    error = kingma_kl(log_alpha) - loguniform_kl(log_alpha)
    assert error.max() <= 0
    assert -0.0404 <= error.min() <= -0.0402
    assert log_alpha[error.argmin()].exp() == pytest.approx(0.1224, abs=1e-3)
    assert error[-1] == pytest.approx(-0.0372, abs=5e-5)
    assert abs(error[0]) < 1e-8


def test_kingma_has_the_papers_coefficients():
    alpha = torch.tensor([0.1, 0.5, 1.0], dtype=torch.float64)
    paper = 0.5 * alpha.log() + 1.16145124 * alpha - 1.50204118 * alpha**2 + 0.58629921 * alpha**3
    torch.testing.assert_close(KL_OFFSET - kingma_kl(alpha.log()), paper, rtol=0, atol=1e-8)


def test_kingma_runs_away_above_one():
    log_alpha = torch.linspace(0.5, 5, 100, dtype=torch.float64)
    kl = kingma_kl(log_alpha)
    assert (kl.diff() < 0).all()
    assert kl[-1] / (-0.586299206 * log_alpha[-1].mul(3).exp()) == pytest.approx(1, abs=0.02)


def test_molchanov_is_within_its_documented_error_everywhere():
    error = molchanov_kl(WIDE) - loguniform_kl(WIDE)
    assert 0.0093 <= error.max() <= 0.0094
    assert -0.0044 <= error.min() <= -0.0043
    assert WIDE[error.argmax()] == pytest.approx(-3.51, abs=0.02)
    assert WIDE[error.argmin()] == pytest.approx(-1.76, abs=0.02)


def test_molchanov_is_the_papers_formula():
    log_alpha = torch.linspace(-8, 8, 33, dtype=torch.float64)
    k1, k2, k3 = 0.63576, 1.87320, 1.48695
    minus_kl = k1 * torch.sigmoid(k2 + k3 * log_alpha) - 0.5 * (1 + 1 / log_alpha.exp()).log() - k1
    torch.testing.assert_close(molchanov_kl(log_alpha), -minus_kl)


@pytest.mark.parametrize("function", [loguniform_kl, kingma_kl, molchanov_kl, loguniform_kl_slope])
def test_shape_and_dtype_stay_and_bad_input_is_named(function):
    for dtype in (torch.float32, torch.float64):
        out = function(torch.zeros(2, 3, dtype=dtype))
        assert out.shape == (2, 3)
        assert out.dtype == dtype
    with pytest.raises(ValueError, match="log_alpha must not have a NaN"):
        function(torch.tensor([0.0, math.nan]))
    with pytest.raises(TypeError, match="log_alpha must be a float32 or float64 tensor"):
        function(torch.zeros(2, dtype=torch.float16))
    with pytest.raises(TypeError, match="got float"):
        function(0.5)
