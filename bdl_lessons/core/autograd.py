"""Small helpers around PyTorch's autograd and ``vmap``."""

from collections.abc import Callable

import torch
from torch import Tensor


def cholesky(matrix: Tensor) -> Tensor:
    """Lower factor ``(..., K, K)``, in float32 at least; NaN where there is none.

    To raise instead, the processor would have to wait for the GPU.
    """
    half = matrix.dtype in (torch.float16, torch.bfloat16)
    factor, info = torch.linalg.cholesky_ex(matrix.float() if half else matrix)
    return factor.masked_fill((info > 0)[..., None, None], torch.nan)


def vmap(function: Callable, in_dims: int | tuple = 0) -> Callable:
    """``function`` over the first axis of its arguments, with fresh random numbers for each."""
    return torch.func.vmap(function, in_dims, randomness="different")
