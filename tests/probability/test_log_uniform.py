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

    pieces = pairwise(sorted({-40.0, min(max(-1 / std, -40.0), 40.0), 0.0, 40.0}))
    mean = sum(quad(integrand, *piece, limit=400, epsabs=1e-13)[0] for piece in pieces)
    return -log_alpha / 2 + mean + (np.euler_gamma + math.log(2)) / 2


def test_the_exact_divergence_is_that_of_the_definition():
    spots = [-6.0, -1.0, 0.0, 2.0, 6.0]
    found = loguniform_kl(torch.tensor(spots, dtype=torch.float64))
    np.testing.assert_allclose(found, [by_definition(spot) for spot in spots], 1e-9, 1e-9)


@pytest.mark.parametrize(("dtype", "bound"), PRECISIONS)
def test_it_and_its_slope_are_right_to_the_rounding(dtype, bound):
    """z² 2F2(1, 1; 3/2, 2; -z²) with 60 digits, and -z F(z)."""
    meeting_points = [-math.log(2 * 64), -math.log(2 * 16)]
    log_alpha = torch.tensor([*np.linspace(-7, 20, 55), *meeting_points], dtype=dtype)
    with mpmath.workdps(60):
        rates = [mpmath.exp(-mpmath.mpf(a)) / 2 for a in log_alpha.double().tolist()]
        kl = [float(rate * mpmath.hyp2f2(1, 1, 1.5, 2, -rate)) for rate in rates]
    z = np.exp(-log_alpha.double().numpy() / 2) / math.sqrt(2)
    np.testing.assert_allclose(loguniform_kl(log_alpha).double(), kl, rtol=bound)
    np.testing.assert_allclose(loguniform_kl_slope(log_alpha).double(), -z * dawsn(z), rtol=bound)


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
    slopes = vmap(torch.func.grad(lambda row: loguniform_kl(row).sum()))(log_alpha.detach())
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
    assert kl.item() == pytest.approx(max(-log_alpha.item() / 2 + KL_OFFSET, 0.0), rel=1e-6)
    assert log_alpha.grad.item() == pytest.approx(-0.5 if log_alpha < 0 else 0.0, abs=1e-30)
    assert loguniform_kl(torch.empty(0, 3, dtype=dtype)).shape == (0, 3)


APPROXIMATE = [  # the range, then smallest and largest error and where
    (kingma_kl, WIDE[WIDE <= 0], (-0.0403, -2.1), (0.0, -20.0)),
    (molchanov_kl, WIDE, (-0.00435, -1.76), (0.00935, -3.51)),
]


@pytest.mark.parametrize(("function", "log_alpha", "smallest", "largest"), APPROXIMATE)
def test_an_approximation_has_its_documented_error(function, log_alpha, smallest, largest):
    error = function(log_alpha) - loguniform_kl(log_alpha)
    for place, (size, where) in ((error.argmin(), smallest), (error.argmax(), largest)):
        assert error[place].item() == pytest.approx(size, abs=6e-5)
        assert log_alpha[place].item() == pytest.approx(where, abs=0.02)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_is_not_a_number_stays_so_and_half_precision_is_refused(dtype):
    out = loguniform_kl(torch.tensor([[0.0, math.nan], [1.0, -30.0]], dtype=dtype))
    assert out.dtype == dtype
    assert out.isnan().tolist() == [[False, True], [False, False]]
    with pytest.raises(TypeError, match="must be a float32 or float64 tensor"):
        loguniform_kl(torch.zeros(2, dtype=torch.float16))
