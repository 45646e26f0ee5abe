"""Values whose derivative is written down instead of traced.

Autograd stores what every operation needs and goes back through all of them. For a sum over a
million weights that is many passes over memory. Here the caller computes value and slopes together.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def known_slope(value: Tensor, *slopes: tuple[Tensor, Tensor]) -> Tensor:
    r"""``value``, with ``d value / d x = slope`` for each pair ``(x, slope)``.

    ``value`` either has the shape of every ``x`` and belongs to it elementwise, or is a 0-dim sum
    over all of them. Differentiable once; works under ``torch.func``.

    Args:
        value: computed without a graph, as are the slopes (under ``torch.no_grad()``).
        slopes: pairs of a tensor that ``value`` depends on and a slope of its shape.

    Raises:
        ValueError: if the shapes do not fit.
    """
    for x, slope in slopes:
        if slope.shape != x.shape or value.shape not in (x.shape, ()):
            raise ValueError(
                f"slope must have the shape of x, {tuple(x.shape)}, and value that shape or (), "
                f"got {tuple(slope.shape)} and {tuple(value.shape)}"
            )
    inputs, derivatives = zip(*slopes, strict=True)
    return _KnownSlope.apply(value, *inputs, *derivatives)


class _KnownSlope(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(value: Tensor, *inputs_and_slopes: Tensor) -> Tensor:
        return value.clone()

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        n_inputs = len(inputs) // 2
        ctx.save_for_backward(*inputs[1 + n_inputs :])

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor) -> tuple[Tensor | None, ...]:
        slopes = ctx.saved_tensors
        return None, *(grad * slope for slope in slopes), *(None for _ in slopes)


def cholesky(matrix: Tensor) -> Tensor:
    """Lower factor ``(..., K, K)``, in float32 at least; NaN where there is none.

    To raise instead, the processor would have to wait for the GPU.
    """
    half = matrix.dtype in (torch.float16, torch.bfloat16)
    factor, info = torch.linalg.cholesky_ex(matrix.float() if half else matrix)
    return factor.masked_fill((info > 0)[..., None, None], torch.nan)


def without_autocast(function: Callable) -> Callable:
    """``function`` of tensors, with autocast switched off: it would solve systems in bfloat16."""

    @wraps(function)
    def run(*args, **options):
        kind = next(arg.device.type for arg in args if isinstance(arg, Tensor))
        if not torch.is_autocast_enabled(kind):
            return function(*args, **options)
        with torch.autocast(kind, enabled=False):
            return function(*args, **options)

    return run


_inside: ContextVar[bool] = ContextVar("inside_vmap", default=False)


def inside_vmap() -> bool:
    """Whether the caller runs under :func:`vmap`."""
    return _inside.get()


def vmap(function: Callable, in_dims: int | tuple = 0) -> Callable:
    """``function`` over the first axis of its arguments, with fresh random numbers for each."""
    batched = torch.func.vmap(function, in_dims, randomness="different")

    def run(*args):
        token = _inside.set(True)
        try:
            return batched(*args)
        finally:
            _inside.reset(token)

    return run
