import math

import pytest
import torch

from bdl_lessons.reference import (
    CosKernel,
    ErfKernel,
    RandomFeatures,
    ReLUKernel,
    cos_expectation,
    erf_expectation,
    relu_expectation,
)

EXPECTATIONS = {"relu": relu_expectation, "erf": erf_expectation, "cos": cos_expectation}
KERNELS = {"relu": ReLUKernel, "erf": ErfKernel, "cos": CosKernel}
X = torch.tensor([[0.3, -1.0], [1.2, 0.4], [-0.5, 0.9]], dtype=torch.float64)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def gram(features):
    return features @ features.mT


@pytest.mark.parametrize("name", EXPECTATIONS)
def test_wide_layer_tends_to_the_closed_form(name):
    features = RandomFeatures(2, 200_000, name, generator(), weight_var=1.5, bias_var=0.4)
    k0 = 0.4 + 1.5 * X @ X.mT / 2
    closed = EXPECTATIONS[name](k0.diagonal().unsqueeze(1), k0.diagonal(), k0)
    phi = features(X)
    products = len(phi.mT) * phi.unsqueeze(0) * phi.unsqueeze(1)
    error = products.std(-1) / math.sqrt(products.shape[-1])
    assert ((gram(phi) - closed).abs() < 4.5 * error).all()


@pytest.mark.parametrize("name", EXPECTATIONS)
def test_deep_wide_networks_tend_to_the_recursion(name):
    """Mean over 300 networks of width 128; the finite-width bias is O(1 / width)."""
    weight_var, bias_var, depth, width = 1.5, 0.2, 3, 128
    kernel = KERNELS[name](depth, weight_var=weight_var, bias_var=bias_var)
    rng = generator(3)
    grams = torch.stack(
        [
            bias_var
            + weight_var
            * gram(
                RandomFeatures(
                    2, width, name, rng, depth=depth, weight_var=weight_var, bias_var=bias_var
                )(X)
            )
            for _ in range(300)
        ]
    )
    error = grams.std(0) / math.sqrt(len(grams))
    assert ((grams.mean(0) - kernel(X).to_dense()).abs() < 4 * error + 2 / width).all()


def test_the_first_layer_is_the_formula():
    features = RandomFeatures(2, 5, "relu", generator(), weight_var=2.0, bias_var=0.5)
    (weight,), (shift,) = features.weights, features.shifts
    by_hand = torch.stack(
        [
            torch.stack(
                [
                    (x @ w + b).clamp(min=0) / math.sqrt(5)
                    for w, b in zip(weight, shift, strict=True)
                ]
            )
            for x in X
        ]
    )
    assert torch.allclose(features(X), by_hand, atol=1e-15)


@pytest.mark.parametrize("depth", [1, 3])
def test_growing_the_width_appends_units(depth):
    """Layer 1 of the narrow network is a corner of layer 1 of the wide one."""
    features = RandomFeatures(2, 16, "erf", generator(), depth=1)
    narrow, wide = features(X, 4) * math.sqrt(4), features(X, 16) * math.sqrt(16)
    assert torch.allclose(narrow, wide[:, :4], atol=1e-15)
    assert RandomFeatures(2, 16, "erf", generator(), depth=depth)(X, 4).shape == (3, 4)


def test_leading_axes_are_kept():
    features = RandomFeatures(2, 8, "cos", generator(), depth=2)
    batch = X.expand(4, 3, 2)
    assert features(batch).shape == (4, 3, 8)
    torch.testing.assert_close(features(batch)[1], features(X))


def test_same_seed_same_network():
    first, second, other = (RandomFeatures(2, 8, "cos", generator(seed))(X) for seed in (0, 0, 1))
    torch.testing.assert_close(first, second)
    assert not torch.allclose(first, other)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"in_features": 0}, "in_features"),
        ({"max_width": 2.0}, "max_width"),
        ({"depth": 0}, "depth"),
        ({"nonlinearity": "tanh"}, "one of relu, erf, cos"),
        ({"weight_var": -1.0}, "weight_var"),
        ({"bias_var": math.nan}, "bias_var"),
    ],
)
def test_bad_options_are_named(options, message):
    good = {"in_features": 2, "max_width": 4, "nonlinearity": "relu", "generator": generator()}
    with pytest.raises((TypeError, ValueError), match=message):
        RandomFeatures(**(good | options))


@pytest.mark.parametrize("width", [0, 5])
def test_width_out_of_range(width):
    with pytest.raises(ValueError, match=r"width must be in 1\.\.4"):
        RandomFeatures(2, 4, "relu", generator())(X, width)


def test_wrong_number_of_columns():
    with pytest.raises(ValueError, match="3 columns"):
        RandomFeatures(3, 4, "relu", generator())(X)
    with pytest.raises(TypeError, match="x must have the dtype"):
        RandomFeatures(2, 4, "relu", generator())(X.to(torch.float16))
    with pytest.raises(TypeError, match="width must be an int"):
        RandomFeatures(2, 4, "relu", generator())(X, 2.5)
