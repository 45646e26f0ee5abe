"""The exact divergence against independent evaluations, its gradient, and the approximations."""

import math
from itertools import pairwise

import mpmath
import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.special import dawsn

from bdl_lessons.core.autograd import vmap
from bdl_lessons.probability import (
    KL_OFFSET,
    kingma_kl,
    loguniform_kl,
    loguniform_kl_slope,
    molchanov_kl,
)

WIDE = torch.linspace(-20, 20, 2001, dtype=torch.float64)
PRECISIONS = [(torch.float64, 2e-14), (torch.float32, 2e-7)]


def by_definition(log_alpha):
    std = math.exp(log_alpha / 2)

    def integrand(eps):
        return math.log(abs(1 + std * eps)) * math.exp(-(eps**2) / 2) / math.sqrt(2 * math.pi)

    zero_of_weight = max(-1 / std, -40.0)
    borders = sorted({-40.0, zero_of_weight, 0.0, 40.0})
    expected_log_weight = 0.0
    for low, high in pairwise(borders):
        integral, _ = quad(integrand, low, high, limit=400, epsabs=1e-13)
        expected_log_weight += integral
    return -log_alpha / 2 + expected_log_weight + (np.euler_gamma + math.log(2)) / 2


def test_the_exact_divergence_is_that_of_the_definition():
    log_alphas = [-6.0, -1.0, 0.0, 2.0, 6.0]
    kl = loguniform_kl(torch.tensor(log_alphas, dtype=torch.float64))
    expected = [by_definition(log_alpha) for log_alpha in log_alphas]
    np.testing.assert_allclose(kl, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("dtype", "bound"), PRECISIONS)
def test_it_and_its_slope_are_right_to_the_rounding(dtype, bound):
    """z² 2F2(1, 1; 3/2, 2; -z²) with 60 digits, and -z F(z)."""
    meeting_points = [-math.log(2 * 64), -math.log(2 * 16)]
    log_alpha = torch.tensor([*np.linspace(-7, 20, 55), *meeting_points], dtype=dtype)
    with mpmath.workdps(60):
        squares = [mpmath.exp(-mpmath.mpf(value)) / 2 for value in log_alpha.double().tolist()]
        kl = [float(square * mpmath.hyp2f2(1, 1, 1.5, 2, -square)) for square in squares]
    z = np.exp(-log_alpha.double().numpy() / 2) / math.sqrt(2)
    slope = -z * dawsn(z)
    np.testing.assert_allclose(loguniform_kl(log_alpha).double(), kl, rtol=bound)
    np.testing.assert_allclose(loguniform_kl_slope(log_alpha).double(), slope, rtol=bound)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_gradient_is_the_slope_times_what_follows_also_in_a_batch(dtype):
    log_alpha = torch.linspace(-9, 5, 12, dtype=dtype).view(3, 4).requires_grad_()
    upstream = torch.arange(12, dtype=dtype).view(3, 4)
    expected = upstream * loguniform_kl_slope(log_alpha.detach())
    for function in (loguniform_kl, vmap(loguniform_kl)):
        value = function(log_alpha)
        torch.testing.assert_close(value, loguniform_kl(log_alpha))
        (slope,) = torch.autograd.grad(value, log_alpha, upstream)
        torch.testing.assert_close(slope, expected)
    slope_of_row = torch.func.grad(lambda row: loguniform_kl(row).sum())
    slopes = vmap(slope_of_row)(log_alpha.detach())
    torch.testing.assert_close(slopes, loguniform_kl_slope(log_alpha.detach()))


def test_a_second_derivative_is_refused():
    log_alpha = torch.zeros(2, requires_grad=True)
    (slope,) = torch.autograd.grad(loguniform_kl(log_alpha).sum(), log_alpha, create_graph=True)
    with pytest.raises(RuntimeError):
        slope.sum().backward()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("log_alpha", [-1e30, -300.0, -88.0, 88.0, 300.0, 1e30])
def test_far_out_nothing_overflows(log_alpha, dtype):
    log_alpha = torch.tensor(log_alpha, dtype=dtype, requires_grad=True)
    kl = loguniform_kl(log_alpha)
    kl.backward()
    line = max(-log_alpha.item() / 2 + KL_OFFSET, 0.0)
    slope_of_line = -0.5 if log_alpha < 0 else 0.0
    assert kl.item() == pytest.approx(line, rel=1e-6)
    assert log_alpha.grad.item() == pytest.approx(slope_of_line, abs=1e-30)
    assert loguniform_kl(torch.empty(0, 3, dtype=dtype)).shape == (0, 3)


APPROXIMATIONS = [  # with the range, the smallest error and the largest one, and where they are
    (kingma_kl, WIDE[WIDE <= 0], (-0.0403, -2.1), (0.0, -20.0)),
    (molchanov_kl, WIDE, (-0.00435, -1.76), (0.00935, -3.51)),
]


@pytest.mark.parametrize(("approximation", "log_alpha", "smallest", "largest"), APPROXIMATIONS)
def test_an_approximation_has_its_documented_error(approximation, log_alpha, smallest, largest):
    error = approximation(log_alpha) - loguniform_kl(log_alpha)
    for index, (size, location) in ((error.argmin(), smallest), (error.argmax(), largest)):
        assert error[index].item() == pytest.approx(size, abs=6e-5)
        assert log_alpha[index].item() == pytest.approx(location, abs=0.02)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_is_not_a_number_stays_so_and_half_precision_is_refused(dtype):
    out = loguniform_kl(torch.tensor([[0.0, math.nan], [1.0, -30.0]], dtype=dtype))
    assert out.dtype == dtype
    assert out.isnan().tolist() == [[False, True], [False, False]]
    with pytest.raises(TypeError, match="must be a float32 or float64 tensor"):
        loguniform_kl(torch.zeros(2, dtype=torch.float16))
