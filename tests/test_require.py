import math

import pytest
import torch

from bdl_lessons import require


def test_what_is_right_comes_back():
    x = torch.ones(2, 2)
    assert require.floating("x", x) is x
    assert require.finite("x", x) is x
    assert require.variance("x", x) is x
    eye = torch.eye(3)
    torch.testing.assert_close(require.cholesky("x", 4 * eye, 3), 2 * eye)


def test_like_takes_dtype_and_shape_from_the_reference():
    reference = torch.zeros(2, 3, dtype=torch.float64)
    assert require.like(reference, "x", 1).dtype == torch.float64
    for shape in [(), (3,), (2, 1), (2, 3)]:
        require.like(reference, "x", torch.ones(shape))
    for shape in [(2,), (3, 2), (1, 2, 3), (4, 1)]:
        with pytest.raises(ValueError, match="x has shape"):
            require.like(reference, "x", torch.ones(shape))


@pytest.mark.parametrize("value", [1.0, [1.0], torch.ones(2, dtype=torch.int)])
def test_floating_refuses_other_types_by_name(value):
    with pytest.raises(TypeError, match="weight must be a floating-point tensor"):
        require.floating("weight", value)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_not_finite_is_refused_by_name(bad):
    value = torch.tensor([1.0, bad])
    for function in (require.floating, require.finite, require.variance):
        with pytest.raises(ValueError, match="weight"):
            function("weight", value)


@pytest.mark.parametrize("bad", [0.0, -1.0])
def test_a_variance_is_positive(bad):
    with pytest.raises(ValueError, match=f"got {bad}"):
        require.variance("weight_var", torch.tensor([1.0, bad]))


def test_a_covariance_is_square_symmetric_and_positive_definite():
    cases = [
        (torch.eye(2), "shape"),
        (torch.eye(3) * math.nan, "finite"),
        (torch.eye(3) + torch.ones(3, 3).triu(1), "symmetric"),
        (torch.ones(3, 3), "positive definite"),
    ]
    for cov, message in cases:
        with pytest.raises(ValueError, match=f"S .*{message}"):
            require.cholesky("S", cov, 3)
