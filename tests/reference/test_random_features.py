import math

import pytest
import torch

from bdl_lessons import reference
from tests.draws import seeded

EXPECTATIONS = {
    "relu": reference.relu_expectation,
    "erf": reference.erf_expectation,
    "cos": reference.cos_expectation,
}
KERNELS = {"relu": reference.ReLUKernel, "erf": reference.ErfKernel, "cos": reference.CosKernel}
X = torch.tensor([[0.3, -1.0], [1.2, 0.4], [-0.5, 0.9]], dtype=torch.float64)


def gram(features):
    return features @ features.mT


@pytest.mark.parametrize("name", EXPECTATIONS)
def test_deep_wide_networks_tend_to_the_recursion(name):
    """Mean over 200 networks of width 128; the finite-width bias is O(1 / width)."""
    weight_var, bias_var, depth, width = 1.5, 0.2, 3, 128
    kernel = KERNELS[name](depth, weight_var=weight_var, bias_var=bias_var)
    rng = seeded(3)
    options = {"depth": depth, "weight_var": weight_var, "bias_var": bias_var}
    features = [reference.RandomFeatures(2, width, name, rng, **options)(X) for _ in range(200)]
    grams = torch.stack([bias_var + weight_var * gram(phi) for phi in features])
    error = grams.std(0) / math.sqrt(len(grams))
    assert ((grams.mean(0) - kernel(X).to_dense()).abs() < 4 * error + 2 / width).all()


@pytest.mark.parametrize("depth", [1, 3])
def test_growing_the_width_appends_units(depth):
    """Layer 1 of the narrow network is a corner of layer 1 of the wide one."""
    features = reference.RandomFeatures(2, 16, "erf", seeded(), depth=1)
    narrow = features(X, 4) * math.sqrt(4)
    wide = features(X, 16) * math.sqrt(16)
    assert torch.allclose(narrow, wide[:, :4], atol=1e-15)
    assert reference.RandomFeatures(2, 16, "erf", seeded(), depth=depth)(X, 4).shape == (3, 4)


@pytest.mark.parametrize("name", EXPECTATIONS)
def test_a_narrow_part_of_a_wide_network_is_scaled_by_its_own_width(name):
    """16 of 128 units at depth 3: the mean of k(x, x) over networks is that of the recursion."""
    weight_var, bias_var, depth, width = 1.5, 0.2, 3, 16
    kernel = KERNELS[name](depth, weight_var=weight_var, bias_var=bias_var)
    generator = seeded(4)
    variances = []
    for _ in range(400):
        features = reference.RandomFeatures(
            2,
            128,
            name,
            generator,
            depth=depth,
            weight_var=weight_var,
            bias_var=bias_var,
        )
        narrow = features(X, width)
        variances.append(bias_var + weight_var * narrow.square().sum(-1))
    variances = torch.stack(variances)
    error = variances.std(0) / math.sqrt(len(variances))
    bias = 2 / width  # of a finite width
    exact = kernel(X, diag=True)
    assert ((variances.mean(0) - exact).abs() < 4 * error + bias * exact).all()


def test_the_first_layer_is_the_formula():
    features = reference.RandomFeatures(2, 5, "relu", seeded(), weight_var=2.0, bias_var=0.5)
    (weight,) = features.weights
    (shift,) = features.shifts
    torch.testing.assert_close(features(X), (X @ weight.T + shift).relu() / math.sqrt(5))
