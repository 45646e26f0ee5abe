"""Random draws that take a generator, and give what another tensor is like."""

from collections.abc import Sequence

import torch
from torch import Tensor


def standard_normal(shape: Sequence[int], generator: torch.Generator, like: Tensor) -> Tensor:
    """Independent ``N(0, 1)`` with the device and dtype of ``like``, drawn in float32 at least.

    >>> standard_normal((2, 3), torch.Generator(), like=torch.zeros((), dtype=torch.float64)).dtype
    torch.float64
    """
    dtype = torch.promote_types(like.dtype, torch.float32)
    return torch.randn(shape, generator=generator, device=generator.device, dtype=dtype).to(like)
