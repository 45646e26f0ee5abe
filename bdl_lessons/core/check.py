"""Checks that a reader can see: a claim, its reference value and its tolerance.

A check prints the *reference*, never the computed float, so its text is the same on every
machine, device and thread count. When the claim fails it raises with the measured value.
"""

from __future__ import annotations

import numpy as np
import torch

Value = float | np.ndarray | torch.Tensor


class CheckFailed(AssertionError):
    """A claim of a lesson does not hold; the message carries the measured value."""


def check(name: str, value: Value, expect: Value, atol: float) -> None:
    """Assert ``|value - expect| <= atol`` elementwise and print one line that says so.

    Args:
        name: the claim in words, e.g. ``"Var[z] = keep * p_drop"``.
        value: what was computed: a number, an array or a tensor of any shape.
        expect: the reference: a number, or an array of the same shape as ``value``.
        atol: absolute tolerance in the units of ``value``; finite and >= 0.

    Raises:
        CheckFailed: if any element is further than ``atol`` from the reference, or is NaN.
        TypeError: if ``value`` or ``expect`` is complex.
        ValueError: if one of them is empty, the shapes differ, or ``expect`` or ``atol`` is out
            of range.
    """
    value = _array(f"check {name!r}: value", value)
    expect = _array(f"check {name!r}: expect", expect)
    if not 0 <= atol < np.inf:
        raise ValueError(f"check {name!r}: atol must be finite and >= 0, got {atol}")
    if not np.isfinite(expect).all():
        raise ValueError(f"check {name!r}: expect must be finite, it is the reference")
    if expect.ndim and expect.shape != value.shape:
        raise ValueError(
            f"check {name!r}: value has shape {value.shape}, expect has {expect.shape}; "
            "compare arrays of one shape, or an array with a single number"
        )
    error = np.abs(value - expect)
    if not (error <= atol).all():
        worst = int(np.argmax(np.nan_to_num(error, nan=np.inf)))
        raise CheckFailed(
            f"{name}: measured {value.flat[worst]:.10g}, expected "
            f"{np.broadcast_to(expect, value.shape).flat[worst]:.10g} ± {atol:g}"
        )
    shape = "×".join(map(str, expect.shape))
    reference = f"{expect.item():.4g}" if expect.size == 1 else f"reference of shape {shape}"
    print(f"ok   {name}: {reference} ± {atol:g}")


def check_between(
    name: str, value: Value, low: float | None = None, high: float | None = None
) -> None:
    """Assert ``low <= value <= high`` elementwise (either bound may be left out).

    Raises:
        CheckFailed: if any element lies outside the bounds, or is NaN.
        TypeError: if ``value`` is complex.
        ValueError: if ``value`` is empty, no bound is given, a bound is NaN, or ``low > high``.
    """
    if low is None and high is None:
        raise ValueError(f"check_between {name!r}: give low, high or both")
    lower, upper = -np.inf if low is None else low, np.inf if high is None else high
    if not lower <= upper:
        raise ValueError(f"check_between {name!r}: low={low} and high={high} leave nothing between")
    value = _array(f"check_between {name!r}: value", value)
    inside = (value >= lower) & (value <= upper)
    bounds = " and ".join(
        f"{sign} {bound:g}" for sign, bound in ((">=", low), ("<=", high)) if bound is not None
    )
    if not inside.all():
        outside = value.flat[int(np.argmin(inside))]
        raise CheckFailed(f"{name}: measured {outside:.10g}, expected {bounds}")
    print(f"ok   {name}: {bounds}")


def _array(name: str, value: Value) -> np.ndarray:
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().to(torch.promote_types(value.dtype, torch.double)).numpy()
    if np.iscomplexobj(value):
        raise TypeError(f"{name} is complex; check its real part, imaginary part or absolute value")
    value = np.asarray(value, dtype=float)
    if not value.size:
        raise ValueError(f"{name} is empty, of shape {value.shape}; there is nothing to compare")
    return value
