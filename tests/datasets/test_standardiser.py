from __future__ import annotations

import pytest
import torch

from bdl_lessons.datasets import Standardiser


def made_up(n: int = 40) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(n, 3, dtype=torch.float64, generator=generator) * 5 + 100


def test_standardiser_has_mean_0_std_1_and_an_inverse():
    x = made_up()
    scale = Standardiser.fit(x)
    z = scale.transform(x)
    torch.testing.assert_close(z.mean(0), torch.zeros(3, dtype=torch.float64), atol=1e-12, rtol=0)
    torch.testing.assert_close(
        z.square().mean(0), torch.ones(3, dtype=torch.float64), atol=1e-12, rtol=0
    )
    torch.testing.assert_close(scale.inverse_transform(z), x)


@pytest.mark.parametrize("constant", [0.998, 288.0, 0.0, -1e9])
def test_constant_columns_become_zero_even_where_rounding_leaves_a_deviation(constant):
    x = torch.stack([torch.full((10741,), constant), torch.arange(10741.0)], 1).double()
    x[:, 0] = constant
    scale = Standardiser.fit(x)
    assert Standardiser.fit(x[:, 0]).std == 1
    assert scale.std[0] == 1
    assert scale.transform(x)[:, 0].abs().max() < 1e-6 * max(1, abs(constant))


@pytest.mark.parametrize("shape", [(4, 1), (4,), (3, 4), ()])
def test_other_columns_than_those_that_were_fitted_are_refused(shape):
    scale = Standardiser.fit(torch.randn(50, 3))
    for function, name in ((scale.transform, "x"), (scale.inverse_transform, "z")):
        with pytest.raises(ValueError, match=rf"{name} must end with the columns \(3,\)"):
            function(torch.zeros(shape))
    assert scale.transform(torch.zeros(7, 4, 3)).shape == (7, 4, 3)
