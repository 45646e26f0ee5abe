import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.distributions import Normal, kl_divergence

from bdl_lessons.probability import gaussian_cells, line_cells, point_cells, quantised_kl
from tests.tables import refused

THETA = torch.tensor([1.2, -0.7], dtype=torch.float64)
PRIOR = Normal(torch.tensor(0.0, dtype=torch.float64), 1.0)


def kl_of_line(width, theta=THETA, alpha=0.5):
    cells = line_cells(theta, alpha, width)
    return quantised_kl(cells, width).item()


def kl_of_points(width, p_drop=0.3):
    points = torch.stack([torch.zeros_like(THETA), THETA])
    probs = torch.tensor([p_drop, 1 - p_drop], dtype=torch.float64)
    cells = point_cells(points, probs, width)
    return quantised_kl(cells, width).item()


def kl_of_gaussian(width, mean, std):
    cells = gaussian_cells(mean, std, width)
    return quantised_kl(cells, width).item()


@pytest.mark.parametrize(("mean", "std"), [(0.0, 1.0), (0.5, 0.3), (-3.0, 2.0), (6.0, 0.1)])
def test_with_a_density_the_grid_finds_its_kl(mean, std):
    q = Normal(torch.tensor(mean, dtype=torch.float64), std)
    exact = kl_divergence(q, PRIOR).item()
    missing = exact - kl_of_gaussian(2.0**-9, mean, std)
    assert -1e-12 <= missing < 1e-4


@settings(max_examples=30)
@given(st.floats(-2, 2), st.floats(0.1, 2), st.integers(0, 5))
def test_halving_never_lowers_it(mean, std, halvings):
    coarse = 2.0**-halvings
    fine = 2.0 ** -(halvings + 1)
    assert kl_of_gaussian(fine, mean, std) >= kl_of_gaussian(coarse, mean, std) - 1e-9
    assert kl_of_line(fine) >= kl_of_line(coarse) - 1e-9
    assert kl_of_points(fine) >= kl_of_points(coarse) - 1e-9


def test_line_cells_hold_what_sampling_finds():
    width = 0.5
    alpha = 0.5
    index, probs = line_cells(THETA, alpha, width)
    assert probs.sum().item() == pytest.approx(1, abs=1e-9)
    prob_of_cell = {
        tuple(cell): prob for cell, prob in zip(index.tolist(), probs.tolist(), strict=True)
    }

    n_draws = 200_000
    generator = torch.Generator().manual_seed(0)
    eps = torch.randn(n_draws, 1, generator=generator, dtype=torch.float64)
    draws = (1 + alpha**0.5 * eps) * THETA
    cells_of_draws = (draws / width).floor().long()
    cells, counts = cells_of_draws.unique(dim=0, return_counts=True)  # bits: integers
    for cell, count in zip(cells.tolist(), counts.tolist(), strict=True):
        standard_error = (count + 1) ** 0.5 / n_draws
        assert abs(prob_of_cell[tuple(cell)] - count / n_draws) < 5 * standard_error


def test_each_missing_dimension_adds_log_2_a_halving():
    width = 2.0**-12
    of_line = kl_of_line(width / 2) - kl_of_line(width)
    assert of_line == pytest.approx(math.log(2), abs=1e-4)
    of_points = kl_of_points(width / 2) - kl_of_points(width)
    assert of_points == pytest.approx(2 * math.log(2), abs=1e-3)
    three_weights = torch.tensor([0.5, -1.0, 0.8])
    of_line_in_space = kl_of_line(width / 2, three_weights) - kl_of_line(width, three_weights)
    assert of_line_in_space == pytest.approx(2 * math.log(2), abs=1e-3)


def test_the_constant_of_points_is_minus_entropy_minus_expected_log_prior():
    width = 2.0**-18
    p_drop = 0.3
    keep = 1 - p_drop
    entropy = -p_drop * math.log(p_drop) - keep * math.log(keep)
    expected_log_prior = -keep * THETA.square().sum().item() / 2 - math.log(2 * math.pi)
    constant = kl_of_points(width, p_drop) - 2 * math.log(1 / width)
    assert constant == pytest.approx(-entropy - expected_log_prior, abs=1e-4)


def test_far_in_the_prior_s_tail_nothing_underflows():
    width = 2.0**-10
    minus_log_prior = 30**2 / 2 + 0.5 * math.log(2 * math.pi)
    expected = minus_log_prior - math.log(width)
    cells = point_cells(torch.tensor([[30.0]]), torch.ones(1), width)
    assert quantised_kl(cells, width).item() == pytest.approx(expected, abs=0.02)
    mirrored = point_cells(torch.tensor([[-30.0 - width / 2]]), torch.ones(1), width)
    assert quantised_kl(mirrored, width).item() == pytest.approx(expected, abs=0.05)


MASS = torch.ones(2, 1)
FAR = "too far out for cells of this width"

test_what_does_not_fit_is_named = refused(
    (lambda: gaussian_cells(0.0, 1.0, 0.0), "width must be positive"),
    (lambda: line_cells(torch.tensor([1.0, 0.0]), 0.5, 0.5), "without zeros"),
    (lambda: line_cells(MASS, 0.5, 0.5), r"theta must be \(K,\)"),
    (lambda: quantised_kl((MASS.long(), MASS[0]), 0.5), r"index \(M, D\)"),
    (lambda: point_cells(MASS, MASS, 0.5), r"probs \(S,\), got"),
    (lambda: point_cells(1e30 * MASS, MASS[:, 0], 0.5), FAR),
)
