"""What an argument must be: one line each to ask, one message that names the argument.

Inside :func:`bdl_lessons.side_by_side.vmap` values cannot be seen and are not asked for.
"""

from __future__ import annotations

import torch
from torch import Tensor

from bdl_lessons.side_by_side import inside_vmap


def floating(name: str, value: Tensor) -> Tensor:
    """``value`` if it is a finite floating-point tensor.

    Raises:
        TypeError: if it is something else.
        ValueError: if it has a NaN or an infinity.
    """
    if not isinstance(value, Tensor) or not value.is_floating_point():
        found = value.dtype if isinstance(value, Tensor) else type(value).__name__
        raise TypeError(f"{name} must be a floating-point tensor, got {found}")
    return finite(name, value)


def finite(name: str, value: Tensor) -> Tensor:
    """``value`` if it has no NaN and no infinity, else ValueError."""
    if not inside_vmap() and not value.isfinite().all():
        raise ValueError(f"{name} must be finite, it has a NaN or an infinity")
    return value


def variance(name: str, value: Tensor) -> Tensor:
    """``value`` if all of it is positive and finite, else ValueError."""
    if inside_vmap():
        return value
    wrong = ~((value > 0) & value.isfinite())
    if wrong.any():
        found = value[wrong][0]
        raise ValueError(f"{name} is a variance: it must be positive and finite, got {found}")
    return value


def like(reference: Tensor, name: str, value: float | Tensor) -> Tensor:
    """``value`` with the dtype and device of ``reference``; it must broadcast to its shape.

    Raises:
        ValueError: if the shape does not broadcast, or only by enlarging ``reference``.
    """
    value = torch.as_tensor(value, dtype=reference.dtype, device=reference.device)
    try:
        fits = torch.broadcast_shapes(value.shape, reference.shape) == reference.shape
    except RuntimeError:
        fits = False
    if not fits:
        raise ValueError(
            f"{name} has shape {tuple(value.shape)}, it must broadcast to {tuple(reference.shape)}"
        )
    return value


def cholesky(name: str, cov: Tensor, size: int) -> Tensor:
    """The lower Cholesky factor of ``cov``, ``(size, size)``.

    Raises:
        ValueError: if it has another shape, a NaN, or is not symmetric and positive definite.
    """
    if cov.shape != (size, size):
        raise ValueError(f"{name} must have shape {(size, size)}, got {tuple(cov.shape)}")
    if not torch.allclose(finite(name, cov), cov.mT, rtol=1e-5, atol=1e-8):
        raise ValueError(f"{name} must be symmetric")
    factor, info = torch.linalg.cholesky_ex(cov)
    if info.item():
        raise ValueError(f"{name} must be positive definite (it is a covariance)")
    return factor
