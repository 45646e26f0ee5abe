import math

import pytest
import torch

from bdl_lessons.core import random
from bdl_lessons.core.random import dropout_noise, standard_normal
from tests.draws import seeded


def mask_of(shape, p_drop, seed, dtype=torch.float64):
    """The zeros and ones behind the noise."""
    return dropout_noise(shape, p_drop, generator=seeded(seed), dtype=dtype) * (1 - p_drop)


@pytest.mark.parametrize(
    ("bits", "p_drop"),
    [(8, p) for p in (1 / 256, 0.125, 0.3125, 0.5, 255 / 256)]
    + [(16, p) for p in (1 / 65536, 0.3 - 0.3 % 2**-16, 65535 / 65536)],
)
def test_rates_of_eight_and_sixteen_bits_are_exact(bits, p_drop):
    dtype = {8: torch.int8, 16: torch.int16}[bits]
    every_word = torch.arange(-(2 ** (bits - 1)), 2 ** (bits - 1), dtype=dtype)
    n_kept = random._threshold(every_word, p_drop).sum(dtype=torch.long)
    assert n_kept == round(2**bits * (1 - p_drop))


@pytest.mark.parametrize("p_drop", [0.1, 0.25, 0.5, 3 / 2**12])
def test_rate_and_independence(p_drop):
    n = 2**20
    mask = mask_of((n,), p_drop, seed=1)
    torch.testing.assert_close(mask, mask.round(), rtol=0, atol=1e-12)
    std = math.sqrt(p_drop * (1 - p_drop))
    assert abs(mask.mean() - (1 - p_drop)) < 4.5 * std / math.sqrt(n)
    centred = (mask - (1 - p_drop)) / std
    for lag in (1, 2, 7, 8, 16, 64, n // 8):
        assert abs((centred[lag:] * centred[:-lag]).mean()) < 4.5 / math.sqrt(n - lag), lag


@pytest.mark.parametrize("shape", [(), (0, 3), (5,), (3, 4, 5)])
@pytest.mark.parametrize("p_drop", [0.0, 0.1, 0.25, 0.5])
def test_noise_has_the_shape_and_the_dtype_that_are_asked_for(shape, p_drop):
    noise = dropout_noise(shape, p_drop, generator=seeded(), dtype=torch.float16)
    assert (noise.shape, noise.dtype) == (shape, torch.float16)
    assert p_drop > 0 or (noise == 1).all()


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
