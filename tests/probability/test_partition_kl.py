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


def line(width, theta=THETA, alpha=0.5):
    return quantised_kl(line_cells(theta, alpha, width), width).item()


def points(width, p_drop=0.3):
    both = torch.stack([torch.zeros_like(THETA), THETA])
    chance = torch.tensor([p_drop, 1 - p_drop], dtype=torch.float64)
    return quantised_kl(point_cells(both, chance, width), width).item()


@pytest.mark.parametrize(("mean", "std"), [(0.0, 1.0), (0.5, 0.3), (-3.0, 2.0), (6.0, 0.1)])
def test_with_a_density_the_grid_finds_its_kl(mean, std):
    exact = kl_divergence(Normal(torch.tensor(mean).double(), std), PRIOR).item()
    width = 2.0**-9
    assert -1e-12 <= exact - quantised_kl(gaussian_cells(mean, std, width), width) < 1e-4


@settings(max_examples=30)
@given(st.floats(-2, 2), st.floats(0.1, 2), st.integers(0, 5))
def test_halving_never_lowers_it(mean, std, halvings):
    coarse = 2.0**-halvings
    fine = 2.0 ** -(halvings + 1)
    kls = [quantised_kl(gaussian_cells(mean, std, width), width) for width in (coarse, fine)]
    assert kls[1] >= kls[0] - 1e-9
    assert line(fine) >= line(coarse) - 1e-9
    assert points(fine) >= points(coarse) - 1e-9


def test_line_cells_hold_what_sampling_finds():
    width, alpha = 0.5, 0.5
    index, probs = line_cells(THETA, alpha, width)
    generator = torch.Generator().manual_seed(0)
    xi = 1 + alpha**0.5 * torch.randn(200_000, 1, generator=generator, dtype=torch.float64)
    cells = (xi * THETA / width).floor().long()
    cells, counts = cells.unique(dim=0, return_counts=True)  # bits: integers
    exact = {tuple(cell): prob for cell, prob in zip(index.tolist(), probs.tolist(), strict=True)}
    assert sum(exact.values()) == pytest.approx(1, abs=1e-9)
    for cell, count in zip(cells.tolist(), counts.tolist(), strict=True):
        assert abs(exact[tuple(cell)] - count / len(xi)) < 5 * (count + 1) ** 0.5 / len(xi)


def test_each_missing_dimension_adds_log_2_a_halving():
    width = 2.0**-12
    assert line(width / 2) - line(width) == pytest.approx(math.log(2), abs=1e-4)
    assert points(width / 2) - points(width) == pytest.approx(2 * math.log(2), abs=1e-3)
    three = torch.tensor([0.5, -1.0, 0.8])
    rise = line(width / 2, three) - line(width, three)
    assert rise == pytest.approx(2 * math.log(2), abs=1e-3)


def test_the_constant_of_points_is_minus_entropy_minus_expected_log_prior():
    width = 2.0**-18
    p = 0.3
    entropy = -p * math.log(p) - (1 - p) * math.log(1 - p)
    expected = -entropy + 0.7 * THETA.square().sum().item() / 2 + math.log(2 * math.pi)
    assert points(width, p) - 2 * math.log(1 / width) == pytest.approx(expected, abs=1e-4)


def test_far_in_the_prior_s_tail_nothing_underflows():
    cells = point_cells(torch.tensor([[30.0]]), torch.ones(1), 2.0**-10)
    expected = 450 + 0.5 * math.log(2 * math.pi) + 10 * math.log(2)
    assert quantised_kl(cells, 2.0**-10).item() == pytest.approx(expected, abs=0.02)
    mirrored = point_cells(torch.tensor([[-30.0 - 2.0**-11]]), torch.ones(1), 2.0**-10)
    assert quantised_kl(mirrored, 2.0**-10).item() == pytest.approx(expected, abs=0.05)


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
