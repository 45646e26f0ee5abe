import pytest
import torch

from bdl_lessons.panels.wide_network import (
    BIAS_VAR,
    DEPTHS,
    GRID,
    KERNELS,
    WEIGHT_VAR,
    WIDTHS,
    closed_form,
    draw_noise,
    sample,
)
from bdl_lessons.reference import RandomFeatures


@pytest.mark.parametrize("nonlinearity", KERNELS)
@pytest.mark.parametrize("depth", DEPTHS)
def test_the_widest_network_is_close_to_the_closed_form(nonlinearity, depth):
    exact = closed_form(nonlinearity, depth)
    errors = []
    for width in (WIDTHS[0], WIDTHS[-1]):
        networks = [sample(nonlinearity, depth, width, draw_noise(seed)) for seed in range(9)]
        gaps = [(network.covariance - exact).norm() / exact.norm() for network in networks]
        errors.append(torch.stack(gaps).median())
    assert errors[1] < 0.06
    assert errors[0] > 5 * errors[1]


def test_about_300_relu_units_are_right_to_ten_percent():
    """The lesson's answer to its second question."""
    exact = closed_form("relu", 1)
    networks = [sample("relu", 1, 256, draw_noise(seed)) for seed in range(12)]
    gaps = torch.stack([(n.covariance - exact).norm() / exact.norm() for n in networks])
    assert 0.07 < gaps.square().mean().sqrt() < 0.16


@pytest.mark.parametrize("nonlinearity", KERNELS)
def test_sampled_functions_have_the_distribution_of_sampled_weights(nonlinearity):
    """Mean and standard deviation of a covariance entry over networks, both ways of sampling."""
    width, depth, n = 8, 2, 500
    rng = torch.Generator().manual_seed(0)
    on_grid, by_weights, noise = [], [], draw_noise(0)
    for start in range(0, n * width, width):  # disjoint columns: independent networks
        columns = slice(start, start + width)
        part = noise._replace(units=noise.units[..., columns], phases=noise.phases[columns])
        on_grid.append(sample(nonlinearity, depth, width, part).covariance[30, 12])
        features = RandomFeatures(
            1, width, nonlinearity, rng, depth=depth, weight_var=WEIGHT_VAR, bias_var=BIAS_VAR
        )
        phi = features(GRID[[30, 12], None])
        by_weights.append(BIAS_VAR + WEIGHT_VAR * phi[0] @ phi[1])
    on_grid, by_weights = torch.stack(on_grid), torch.stack(by_weights)
    error = ((on_grid.var() + by_weights.var()) / n).sqrt()
    assert (on_grid.mean() - by_weights.mean()).abs() < 4 * error
    assert 0.6 < on_grid.std() / by_weights.std() < 1.7
