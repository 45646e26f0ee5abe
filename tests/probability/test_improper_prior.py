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

    edges = [log_w_min, *(u for u in (-2.0, 0.0, math.log(z_score + 1)) if u > log_w_min)]
    edges = sorted({*edges, math.log(z_score + 40)})
    pieces = itertools.pairwise(edges)
    return sum(quad(both_signs, *piece, epsabs=0, epsrel=1e-11, limit=500)[0] for piece in pieces)


@pytest.mark.parametrize("z_score", [0.0, 0.5, 2.0, 6.0, 20.0])
@pytest.mark.parametrize("lower", [1e-6, 3e-4, 0.01, 0.5, 2.0])
def test_evidence_is_the_integral(z_score, lower):
    expected = by_quadrature(z_score, math.log(lower))
    log_w_min = math.log(lower)
    for sign in (1, -1):
        found = truncated_evidence(sign * z_score, log_w_min).item()
        assert found == pytest.approx(expected, rel=1e-9)


@given(st.floats(0, 5), st.floats(5, 1e6))
def test_each_decade_adds_twice_the_likelihood_at_zero(z_score, k):
    step = truncated_evidence(z_score, -(k + 1) * LOG10) - truncated_evidence(z_score, -k * LOG10)
    expected = 2 * math.exp(-(z_score**2) / 2) * LOG10
    assert step.item() == pytest.approx(expected, abs=1e-9 * max(1, k))


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
