import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

from bdl_lessons.probability import decades_to_half, mass_near_zero, truncated_evidence
from tests.tables import refused

LOG10 = math.log(10)


def by_quadrature(z_score, log_w_min):
    def both_signs(u):
        w = math.exp(u)
        return math.exp(-((w - z_score) ** 2) / 2) + math.exp(-((w + z_score) ** 2) / 2)

    end = math.log(z_score + 40)
    inner = [u for u in (-2.0, 0.0, math.log(z_score + 1)) if u > log_w_min]
    borders = sorted({log_w_min, *inner, end})
    total = 0.0
    for low, high in itertools.pairwise(borders):
        integral, _ = quad(both_signs, low, high, epsabs=0, epsrel=1e-11, limit=500)
        total += integral
    return total


@pytest.mark.parametrize("z_score", [0.0, 0.5, 2.0, 6.0, 20.0])
@pytest.mark.parametrize("lower", [1e-6, 3e-4, 0.01, 0.5, 2.0])
def test_evidence_is_the_integral(z_score, lower):
    log_w_min = math.log(lower)
    expected = by_quadrature(z_score, log_w_min)
    for sign in (1, -1):
        evidence = truncated_evidence(sign * z_score, log_w_min)
        assert evidence.item() == pytest.approx(expected, rel=1e-9)


@given(st.floats(0, 5), st.floats(5, 1e6))
def test_each_decade_adds_twice_the_likelihood_at_zero(z_score, k):
    before = truncated_evidence(z_score, -k * LOG10)
    after = truncated_evidence(z_score, -(k + 1) * LOG10)
    likelihood_at_zero = math.exp(-(z_score**2) / 2)
    expected = 2 * likelihood_at_zero * LOG10
    assert (after - before).item() == pytest.approx(expected, abs=1e-9 * max(1, k))


@given(st.floats(0, 4), st.floats(0.05, 2))
def test_mass_is_that_of_the_truncated_posterior(z_score, near):
    log_w_min = math.log(1e-3)
    total = by_quadrature(z_score, log_w_min)
    outside = by_quadrature(z_score, math.log(near))
    mass = mass_near_zero(z_score, log_w_min, near).item()
    assert mass == pytest.approx(1 - outside / total, abs=1e-9)


def test_mass_tends_to_one_and_is_zero_without_room():
    mass = mass_near_zero(2.0, torch.tensor([0.0, -1e3, -1e8]))
    assert mass[0] == 0
    assert mass[-1] > 1 - 1e-7


@pytest.mark.parametrize("z_score", [0.0, 1.0, 2.5, 4.0, 6.0])
def test_at_half_the_mass_is_one_half(z_score):
    k = decades_to_half(z_score)
    assert mass_near_zero(z_score, -k * LOG10).item() == pytest.approx(0.5, abs=1e-4)


test_what_is_out_of_reach_is_refused = refused(
    (lambda: truncated_evidence(31.0, -1.0), "must be at most 30"),
    (lambda: mass_near_zero(1.0, -3.0, 0.0), "near must be positive"),
)
