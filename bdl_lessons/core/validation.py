"""Validation of arguments: each function returns what is right and names what is wrong.

They are called at the borders: factories, ``fit``, ``predict``, metrics, loaders. Formulas check
shapes alone: to look at values, the processor has to wait for the GPU.
"""

import inspect
import math
import re
import reprlib
from collections.abc import Callable, Sequence
from functools import cache, wraps
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

_T = TypeVar("_T", bound=Callable)
_Kind = TypeVar("_Kind")


def typechecked(target: _T) -> _T:
    """Decorates a function or a dataclass that users call: arguments must be what its hints say.

    One of another type is refused with a TypeError that names it, also by ``python -O``. An int
    will do for a float, and so will NumPy's numbers; True and False are no numbers. A list will do
    for a tuple, and a tuple for a list, but neither for a tensor, and no tensor may be complex.

    >>> @typechecked
    ... def half(x: float) -> float:
    ...     return x / 2
    >>> half("1")
    Traceback (most recent call last):
    TypeError: x must be float, got '1'
    """
    function = target.__init__ if isinstance(target, type) else target
    names = list(inspect.signature(function).parameters)

    @cache  # at the first call, when the names in the hints are defined
    def hints() -> dict[str, Any]:
        return get_type_hints(target)

    @wraps(function)
    def checked(*args, **kwargs):
        for name, value in [*zip(names, args, strict=False), *kwargs.items()]:
            if name in hints() and not _fits(value, hints()[name]):
                wanted = _words(hints()[name])
                raise TypeError(f"{name} must be {wanted}, got {_shown(name, value)}")
        return function(*args, **kwargs)

    if function is target:
        return checked
    target.__init__ = checked
    return target


def _fits(value: object, hint: Any) -> bool:
    kind = get_origin(hint) or hint
    if kind is Tensor:
        return isinstance(value, Tensor) and not value.is_complex()
    if kind in (Union, UnionType):
        return any(_fits(value, choice) for choice in get_args(hint))
    if kind is Literal:
        return any(isinstance(value, type(c)) and value == c for c in get_args(hint))
    if kind in (tuple, list, Sequence):
        if isinstance(value, str) or not isinstance(value, Sequence):
            return False
        parts = get_args(hint) or (Any, ...)
        if len(parts) == 1 or parts[1] is ...:
            parts = parts[:1] * len(value)
        return len(value) == len(parts) and all(map(_fits, value, parts))
    if kind in (int, float):
        number_type = Integral if kind is int else Real
        return isinstance(value, number_type) and not isinstance(value, bool)
    return kind is Any or isinstance(value, (bool, np.bool_) if kind is bool else kind)


def _words(hint: Any) -> str:
    kind = get_origin(hint) or hint
    if kind is Literal:
        return " or ".join(map(repr, get_args(hint)))
    if kind in (Union, UnionType):
        return " or ".join(map(_words, get_args(hint)))
    if kind in (tuple, list, Sequence):
        parts = ", ".join("..." if part is ... else _words(part) for part in get_args(hint))
        return f"a sequence ({parts})" if parts else "a sequence"
    words = {Callable: "a function", NoneType: "None", Tensor: "a tensor of real numbers"}
    return words.get(kind, kind.__name__)


def _shown(name: str, value: object) -> str:
    """What a message says that it got; of an array or a data frame also how to make a tensor."""
    if isinstance(value, np.ndarray):
        return f"a NumPy array: torch.from_numpy({name}) is a tensor"
    if hasattr(value, "to_numpy"):
        return f"a {type(value).__name__}: torch.tensor({name}.to_numpy()) is a tensor"
    return reprlib.repr(value)


def floating(name: str, value: Tensor) -> Tensor:
    """``value`` if it is a floating-point tensor, else TypeError; errors of :func:`finite`."""
    return finite(name, floating_type(name, value))


def floating_type(name: str, value: Tensor) -> Tensor:
    """``value`` if it is a floating-point tensor, else TypeError; its entries are not looked at."""
    if isinstance(value, Tensor) and value.is_floating_point():
        return value
    kind = getattr(value, "dtype", type(value).__name__)
    remedy = f"torch.tensor({name}) makes a tensor of numbers"
    if isinstance(value, np.ndarray):
        kind = f"a NumPy array of {kind}"
        remedy = f"torch.from_numpy({name}).double() is one"
    elif isinstance(value, Tensor):
        remedy = f"{name}.double() is one"
    raise TypeError(f"{name} must be a floating-point tensor, got {kind}: {remedy}")


def finite(name: str, value: Tensor) -> Tensor:
    """``value`` if it has numbers, none of them NaN or infinite, else ValueError."""
    if not value.numel():
        raise ValueError(f"{name} must not be empty, got shape {tuple(value.shape)}")
    if not value.isfinite().all():
        raise ValueError(f"{name} must be finite, it has a NaN or an infinity")
    return value


def variance(name: str, value: Tensor, zero: bool = False) -> Tensor:
    """``value`` if all of it is positive, or 0 where ``zero``, and finite, else ValueError."""
    in_range = value >= 0 if zero else value > 0
    wrong = ~(in_range & value.isfinite())
    if wrong.any():
        lowest = ">= 0" if zero else "positive"
        rule = f"it must be {lowest} and finite"
        raise ValueError(f"{name} is a variance: {rule}, got {value[wrong][0]}")
    return value


def like(reference: Tensor, name: str, value: float | Tensor) -> Tensor:
    """``value`` with the dtype and device of ``reference``; it must broadcast to its shape.

    Raises TypeError if it is neither a number nor a tensor of real numbers, ValueError if the shape
    does not broadcast, or only by enlarging ``reference``.
    """
    if isinstance(value, Real):  # written by the device: a copy would wait for it
        value = reference.new_full((), value)
    if not isinstance(value, Tensor) or value.is_complex():
        raise TypeError(f"{name} must be a number or a real tensor, got {reprlib.repr(value)}")
    value = value.to(reference)
    try:
        value.expand_as(reference)
    except RuntimeError:
        wanted = f"it must broadcast to {tuple(reference.shape)}"
        raise ValueError(f"{name} has shape {tuple(value.shape)}, {wanted}") from None
    return value


def cholesky(name: str, cov: Tensor, size: int) -> Tensor:
    """The lower Cholesky factor of ``cov``, ``(size, size)``.

    Raises ValueError if it has another shape, a NaN, or is not symmetric and positive definite.
    """
    shapes(f"{name} must be (K, K) with K = {size}", finite(name, cov), K=size)
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
        meaning = "it is the probability to DROP a unit, and at 1 nothing would be left"
        raise ValueError(f"p_drop must lie in [0, 1), got {p_drop}: {meaning}")
    return float(p_drop)


def one_of(name: str, value: str, choices: object) -> str:
    """``value`` if it is among ``choices``, a ``Literal`` type or a collection, else ValueError."""
    known = get_args(choices) or tuple(choices)
    if not isinstance(value, str) or value not in known:
        raise ValueError(f"{name} must be one of {known}, got {value!r}")
    return value


def instance(name: str, value: _Kind, kind: type[_Kind]) -> _Kind:
    """``value`` if it is one of ``kind``, else TypeError."""
    if not isinstance(value, kind):
        got = _shown(name.split()[-1], value)
        raise TypeError(f"{name} must be a {kind.__name__}, got {got}")
    return value


def flag(name: str, value: bool) -> bool:
    """``value`` if it is True or False, else TypeError: whatever is not empty would count as True.

    NumPy's truth values will do.
    """
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {reprlib.repr(value)}")
    return value


def positive(name: str, value: float) -> float:
    """``value`` if it is a number (else TypeError), finite and above 0 (else ValueError)."""
    if not number(name, value) > 0:
        raise ValueError(f"{name} must be positive, got {value}")
    return value


def non_negative(name: str, value: float) -> float:
    """``value`` if it is a finite number of at least 0; errors as for :func:`positive`."""
    if not number(name, value) >= 0:
        raise ValueError(f"{name} must be >= 0, got {value}")
    return value


def bound(name: str, value: float) -> float:
    """``value`` if it is a number or infinite, else TypeError; ValueError if it is NaN."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, got {value!r}")
    if value != value:
        raise ValueError(f"{name} must be a number, got NaN")
    return value


def integer(name: str, value: int, least: int) -> int:
    """``value`` as an ``int`` if it is one (else TypeError), >= ``least`` (else ValueError)."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an int, got {value!r}")
    if value < least:
        raise ValueError(f"{name} must be >= {least}, got {value}")
    return int(value)


def shapes(rule: str, *values: Tensor | np.ndarray, **sizes: Any) -> None:
    """Raise ValueError unless the values have the shapes in ``rule``, a sentence for the reader.

    A name is the same size wherever it stands; keywords fix some. ``...`` in front are further axes
    of all values that have them, at the end of any. Broadcasting would hide a mistake. TypeError if
    a value is no tensor or array, or complex: an imaginary part would be dropped somewhere.

    >>> shapes("Phi must be (N, K) and y (N,)", torch.ones(3, 2), torch.ones(4))
    Traceback (most recent call last):
    ValueError: Phi must be (N, K) and y (N,), got (3, 2) and (4,)
    """
    for value in values:
        if not isinstance(value, Tensor | np.ndarray) or "complex" in str(value.dtype):
            raise TypeError(f"{rule}, tensors of real numbers, got {reprlib.repr(value)}")
    given = [tuple(value.shape) for value in values]
    for axes, shape in zip(_axes(rule), given, strict=True):
        if axes[-1:] == ["..."]:
            axes = axes[:-1]
            shape = shape[: len(axes)]
        elif axes[:1] == ["..."]:
            n_named = len(axes) - 1
            leading = shape[:-n_named]
            shape = shape[-n_named:]
            if leading:
                shape = (leading, *shape)  # one size: all further axes together
            else:
                axes = axes[1:]
        known = [sizes.setdefault(axis, size) for axis, size in zip(axes, shape, strict=False)]
        if len(axes) != len(shape) or known != list(shape):
            raise ValueError(f"{rule}, got {' and '.join(map(str, given))}")


@cache
def _axes(rule: str) -> list[list[str]]:
    return [re.findall(r"[\w.]+", group) for group in re.findall(r"\(([^()]*)\)", rule)]


def same_shape(name: str, value: Tensor, other: str, reference: Tensor) -> None:
    """Raise ValueError unless both tensors have one shape: broadcasting would hide a mistake."""
    if value.shape != reference.shape:
        both = f"{name} has shape {tuple(value.shape)}, {other} has {tuple(reference.shape)}"
        remedy = ""
        if value.shape == (*reference.shape, 1):
            remedy = f": {other}[:, None] has that of {name}"
        elif reference.shape == (*value.shape, 1):
            remedy = f": {name}[:, None] has that of {other}"
        raise ValueError(f"{both}; they must have one shape{remedy}")


def same_dtype(name: str, value: Tensor, other: str, reference: Tensor) -> None:
    """Raise TypeError unless ``value`` is a tensor of the dtype and on the device of another."""
    floating_type(name, value)
    dtype = reference.dtype
    place = reference.device.type
    if (value.dtype, value.device.type) != (dtype, place):
        rule = f"{name} must have the dtype and device of {other}, {dtype} on {place}"
        remedy = f"{name}.to({place!r}, {dtype}) has them"
        raise TypeError(f"{rule}, got {value.dtype} on {value.device.type}: {remedy}")


def number(name: str, value: float) -> float:
    """``value`` if it is a real number (else TypeError), finite (else ValueError); no True."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, got {value!r}")
    if not math.isfinite(value):
        raise ValueError(f"{name} must be finite, got {value}")
    return value
