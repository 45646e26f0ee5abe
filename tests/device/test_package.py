"""Everything the package computes, on a simulated GPU: nothing mixes devices."""

import pytest
import torch

from bdl_lessons.core import device
from tests.device.calculations import everything
from tests.device.simulated_gpu import SimulatedGPU

CALCULATIONS = dict(everything())


CASES = [(name, "cuda") for name in CALCULATIONS]  # and what draws, from the CPU too
CASES += [(name, "cpu") for name in CALCULATIONS if "conv2d" not in name and "mean" not in name]


@pytest.mark.parametrize(("name", "where"), CASES)
def test_it_stays_on_the_device(name, where):
    with SimulatedGPU() as gpu:
        generator = torch.Generator(where).manual_seed(0)
        found = CALCULATIONS[name](device(), generator)
        assert found
        assert all(tensor.isfinite().all() for tensor in found.values())
        assert any(gpu.holds(tensor) for tensor in found.values())
