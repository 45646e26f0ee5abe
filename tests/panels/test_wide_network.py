import pytest
import torch

from bdl_lessons.panels import wide_network as module
from bdl_lessons.panels.wide_network import BIAS_VAR, GRID, WEIGHT_VAR, draw_noise, sample
from bdl_lessons.reference import RandomFeatures


def gaps(nonlinearity, depth, width, n_networks):
    """The relative errors of the covariances of some networks."""
    exact = module.closed_form(nonlinearity, depth)
    networks = [sample(nonlinearity, depth, width, draw_noise(seed)) for seed in range(n_networks)]
    return torch.stack([(n.covariance - exact).norm() / exact.norm() for n in networks])


@pytest.mark.parametrize("nonlinearity", module.KERNELS)
@pytest.mark.parametrize("depth", module.DEPTHS)
def test_the_widest_network_is_close_to_the_closed_form(nonlinearity, depth):
    narrow, wide = (gaps(nonlinearity, depth, module.WIDTHS[i], 9).median() for i in (0, -1))
    assert wide < 0.06
    assert narrow > 5 * wide


def test_about_300_relu_units_are_right_to_ten_percent():
    """The lesson's answer to its second question."""
    assert 0.07 < gaps("relu", 1, 256, 12).square().mean().sqrt() < 0.16


@pytest.mark.parametrize("nonlinearity", module.KERNELS)
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
