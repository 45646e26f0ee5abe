"""Validation of arguments: each function returns what is right and names what is wrong.

They are called at the borders: factories, ``fit``, ``predict``, metrics, loaders. Formulas check
shapes alone: to look at values, the processor has to wait for the GPU.
"""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import get_args

import numpy as np
import torch
from beartype import BeartypeConf, BeartypeViolationVerbosity, beartype
from numpy.typing import ArrayLike
from torch import Tensor

border = beartype(
    conf=BeartypeConf(
        is_pep484_tower=True,  # an int will do for a float
        violation_param_type=TypeError,
        violation_verbosity=BeartypeViolationVerbosity.MINIMAL,
    )
)
"""Decorates a function that users call: an argument of another type than its signature says is
refused with a TypeError that names it. Of a list only one element is looked at, a random one, so a
signature names no type of elements (``Sequence``, not ``Sequence[int]``)."""


def floating(name: str, value: Tensor) -> Tensor:
    """``value`` if it is a floating-point tensor (else TypeError) and finite (else ValueError)."""
    return finite(name, floating_type(name, value))


def floating_type(name: str, value: Tensor) -> Tensor:
    """``value`` if it is a floating-point tensor, else TypeError; its entries are not looked at."""
    if not isinstance(value, Tensor) or not value.is_floating_point():
        found = value.dtype if isinstance(value, Tensor) else type(value).__name__
        raise TypeError(f"{name} must be a floating-point tensor, got {found}")
    return value


def finite(name: str, value: Tensor) -> Tensor:
    """``value`` if it has no NaN and no infinity, else ValueError."""
    if not value.isfinite().all():
        raise ValueError(f"{name} must be finite, it has a NaN or an infinity")
    return value


def variance(name: str, value: Tensor) -> Tensor:
    """``value`` if all of it is positive and finite, else ValueError."""
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
    if isinstance(value, Real):  # written by the device: a copy would wait for it
        value = reference.new_full((), value)
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
    finite(name, has_shape(name, cov, size, size))
    if not torch.allclose(cov, cov.mT, rtol=1e-5, atol=1e-8):
        raise ValueError(f"{name} must be symmetric")
    factor, info = torch.linalg.cholesky_ex(cov)
    if info.item():
        raise ValueError(f"{name} must be positive definite (it is a covariance)")
    return factor


def real_array(name: str, values: ArrayLike) -> np.ndarray:
    """``values`` as an array of float64, else TypeError: text, None and complex numbers."""
    if np.asarray(values).dtype.kind not in "fiub":
        raise TypeError(f"{name} must be real numbers, got {values!r}")
    return np.asarray(values, dtype=float)


def valid_p_drop(p_drop: float) -> float:
    """``p_drop`` if it is a number (else TypeError) in [0, 1) (else ValueError)."""
    if not 0 <= number("p_drop", p_drop) < 1:
        raise ValueError(
            f"p_drop must lie in [0, 1), got {p_drop}: it is the probability to DROP a unit, "
            "and at 1 nothing would be left"
        )
    return float(p_drop)


def one_of(name: str, value: str, choices: object) -> str:
    """``value`` if the ``Literal`` type ``choices`` allows it, else ValueError."""
    if value not in get_args(choices):
        raise ValueError(f"{name} must be one of {get_args(choices)}, got {value!r}")
    return value


def positive(name: str, value: float) -> float:
    """``value`` if it is a number (else TypeError), finite and above 0 (else ValueError)."""
    if not 0 < number(name, value) < math.inf:
        raise ValueError(f"{name} must be positive and finite, got {value}")
    return value


def non_negative(name: str, value: float) -> float:
    """``value`` if it is a finite number of at least 0; errors as for :func:`positive`."""
    if not 0 <= number(name, value) < math.inf:
        raise ValueError(f"{name} must be finite and >= 0, got {value}")
    return value


def integer(name: str, value: int, least: int) -> int:
    """``value`` if it is an ``int`` (else TypeError) of at least ``least`` (else ValueError)."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an int, got {value!r}")
    if value < least:
        raise ValueError(f"{name} must be >= {least}, got {value}")
    return value


def has_shape(name: str, value: Tensor, *shape: int) -> Tensor:
    """``value`` if it has this shape, else ValueError: broadcasting would hide a mistake."""
    if value.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, got {tuple(value.shape)}")
    return value


def same_shape(name: str, value: Tensor, other: str, reference: Tensor) -> None:
    """Raise ValueError unless both tensors have one shape: broadcasting would hide a mistake."""
    if value.shape != reference.shape:
        raise ValueError(
            f"{name} has shape {tuple(value.shape)}, {other} has {tuple(reference.shape)}; "
            "they must have one shape"
        )


def number(name: str, value: float) -> float:
    """``value`` if it is a real number, else TypeError; True and False are none."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, got {value!r}")
    return value
