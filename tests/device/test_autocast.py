"""bfloat16 autocast: every layer works, and gives what it gives in float32 up to rounding."""

import pytest
import torch

from tests.device.calculations import METHODS, MODES, layer


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["linear", "conv2d"])
@pytest.mark.parametrize("method", METHODS)
def test_every_layer_works_under_autocast(method, kind, mode):
    full = layer(method, kind, mode, torch.device("cpu"), torch.Generator().manual_seed(0))
    with torch.autocast("cpu", torch.bfloat16):
        half = layer(method, kind, mode, torch.device("cpu"), torch.Generator().manual_seed(0))
    for name in ("output", "kl", "gradient of 0.weight"):
        if name in full:
            assert (half[name] - full[name]).norm() <= 0.05 * full[name].norm(), name
    assert all(value.isfinite().all() for value in half.values())
