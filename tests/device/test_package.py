"""What the package computes: on a simulated GPU, where nothing mixes devices, and in bfloat16."""

import itertools

import pytest
import torch

from bdl_lessons.core import device
from tests.device.calculations import CALCULATIONS, METHODS, MODES, layer
from tests.device.simulated_gpu import SimulatedGPU

CASES = [(name, "cuda") for name in CALCULATIONS]  # and what draws, from the CPU too
CASES += [(name, "cpu") for name in CALCULATIONS if "conv2d" not in name and "mean" not in name]


@pytest.mark.parametrize(("name", "where"), CASES)
def test_it_stays_on_the_device(name, where):
    with SimulatedGPU() as gpu:
        generator = torch.Generator(where).manual_seed(0)
        results = CALCULATIONS[name](device(), generator)
        assert results
        assert all(tensor.isfinite().all() for tensor in results.values())
        assert any(gpu.holds(tensor) for tensor in results.values())


@pytest.mark.parametrize("case", itertools.product(METHODS, ["linear", "conv2d"], MODES))
def test_every_layer_gives_under_autocast_what_it_gives_in_float32_up_to_rounding(case):
    full = layer(*case, torch.device("cpu"), torch.Generator().manual_seed(0))
    with torch.autocast("cpu", torch.bfloat16):
        half = layer(*case, torch.device("cpu"), torch.Generator().manual_seed(0))
    for name in ("output", "kl", "gradient of 0.inner.weight"):
        if name in full:
            assert (half[name] - full[name]).norm() <= 0.05 * full[name].norm(), name
    assert all(value.isfinite().all() for value in half.values())
