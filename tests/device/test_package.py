"""Everything the package computes, on a pretended GPU: nothing mixes devices."""

import pytest
import torch

from bdl_lessons.core import device
from tests.device.calculations import everything
from tests.device.pretend import PretendDevice

CALCULATIONS = dict(everything())


@pytest.mark.parametrize("where", ["cpu", "cuda"])
@pytest.mark.parametrize("name", CALCULATIONS)
def test_it_stays_on_the_device(name, where):
    """With either kind of generator."""
    with PretendDevice() as gpu:
        generator = torch.Generator(where).manual_seed(0)
        found = CALCULATIONS[name](device(), generator)
        assert found
        assert all(tensor.isfinite().all() for tensor in found.values())
        assert any(gpu.holds(tensor) for tensor in found.values())
