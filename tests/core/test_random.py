import pytest
import torch

from bdl_lessons.core.random import standard_normal
from tests.draws import seeded


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_normals_have_the_dtype_of_a_tensor_and_the_precision_of_that_dtype(dtype):
    like = torch.zeros((), dtype=dtype)
    first, same, other = (standard_normal((2, 50_000), seeded(s), like) for s in (0, 0, 1))
    assert first.dtype == dtype
    torch.testing.assert_close(first, same)
    assert not torch.allclose(first, other)
    assert first.double().mean().item() == pytest.approx(0, abs=0.02)
    assert first.double().var().item() == pytest.approx(1, abs=0.02)
    if dtype == torch.float64:  # drawn in float32, they would be float32 numbers
        assert (first != first.float().double()).double().mean() > 0.9
