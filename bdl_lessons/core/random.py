"""Random draws of the dropout family, from a generator that the caller hands over.

A draw happens where the generator lives: a CPU generator gives the same numbers on every device.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from bdl_lessons.core.validation import valid_p_drop

_WORD_TYPES = {8: torch.int8, 16: torch.int16, 32: torch.int32}


def dropout_noise(
    shape: Sequence[int],
    p_drop: float,
    *,
    generator: torch.Generator,
    device: torch.device | str | None = None,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Inverted dropout: ``xi = z / keep``, ``z ~ Bernoulli(keep)``, mean 1. Lesson 00.

    On a CPU the random bits take longer than the arithmetic, so a unit takes as few as it needs:
    k bits, with k the least of 1, 8, 16, 32 for which ``p_drop * 2**k`` is an integer. Then the
    probability is exact; for any other rate k = 32 and it is off by at most 2**-32. Other devices
    use ``rand < keep``, off by at most 2**-24.

    ``p_drop`` is the probability of a zero, a number (else TypeError) in [0, 1) (else ValueError);
    ``device`` where the result goes, ``None`` leaves it with the generator.

    >>> sorted(set(dropout_noise((100,), 0.5, generator=torch.Generator()).tolist()))
    [0.0, 2.0]
    """
    p_drop = valid_p_drop(p_drop)
    shape = torch.Size(shape)
    if generator.device.type == "cpu":
        mask = _keep_bits(shape.numel(), p_drop, generator).view(shape)
    else:
        mask = torch.rand(shape, generator=generator, device=generator.device) < 1 - p_drop
    return mask.to(device=device or generator.device, dtype=dtype).mul_(1 / (1 - p_drop))


def standard_normal(shape: Sequence[int], generator: torch.Generator, like: Tensor) -> Tensor:
    """Independent ``N(0, 1)`` with the device and dtype of ``like``, drawn in float32 at least.

    >>> standard_normal((2, 3), torch.Generator(), like=torch.zeros((), dtype=torch.float64)).dtype
    torch.float64
    """
    dtype = torch.promote_types(like.dtype, torch.float32)
    return torch.randn(shape, generator=generator, device=generator.device, dtype=dtype).to(like)


def _keep_bits(n: int, p_drop: float, generator: torch.Generator) -> Tensor:
    """``n`` zeros and ones of a small integer type, one with probability ``1 - p_drop``."""
    if p_drop == 0:
        return torch.ones(n, dtype=torch.int8, device="cpu")
    if p_drop == 0.5:
        octets = _random_words(math.ceil(n / 64), generator).view(torch.uint8)
        places = torch.arange(8, dtype=torch.uint8, device="cpu")
        return (octets >> places.view(8, 1) & 1).view(-1)[:n]
    width = next((k for k in _WORD_TYPES if (p_drop * 2**k).is_integer()), 32)
    words = _random_words(math.ceil(n * width / 64), generator)
    return _threshold(words.view(_WORD_TYPES[width])[:n], p_drop)


def _threshold(bits: Tensor, p_drop: float) -> Tensor:
    """Turn uniform k-bit integers into 0 (the lowest ``p_drop * 2**k`` of them) or 1, in place."""
    limits = torch.iinfo(bits.dtype)
    return bits.ge_(min(limits.min + round(p_drop * 2**limits.bits), limits.max))


def _random_words(n: int, generator: torch.Generator) -> Tensor:
    words = torch.empty(n, dtype=torch.int64, device="cpu")
    return words.random_(-(2**63), None, generator=generator)
