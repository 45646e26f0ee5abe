import pytest
import torch

from bdl_lessons.datasets import Standardiser
from tests.draws import normal
from tests.tables import close


def test_standardiser_has_mean_0_std_1_and_an_inverse():
    x = normal(40, 3) * 5 + 100
    scale = Standardiser.fit(x)
    z = scale.transform(x)
    close(z.mean(0), [0, 0, 0])
    close(z.square().mean(0), [1, 1, 1])
    torch.testing.assert_close(scale.inverse_transform(z), x)
    assert scale.transform(torch.zeros(7, 4, 3)).shape == (7, 4, 3)


@pytest.mark.parametrize("constant", [0.998, 288.0, 0.0, -1e9])
def test_constant_columns_become_zero_even_where_rounding_leaves_a_deviation(constant):
    x = torch.stack([torch.full((10741,), constant), torch.arange(10741.0)], 1).double()
    x[:, 0] = constant
    scale = Standardiser.fit(x)
    assert Standardiser.fit(x[:, 0]).std == 1
    assert scale.std[0] == 1
    assert scale.transform(x)[:, 0].abs().max() < 1e-6 * max(1, abs(constant))
