"""``torch.func.vmap``, and whether code runs inside it.

Inside, a tensor stands for many at once. Its values cannot be looked at, so arguments are not
checked there (``require`` asks :func:`inside_vmap`), and random numbers are drawn for each.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

import torch

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
