"""The form of a result: a number or a tensor of the right shape, finite where it must be.

What is wrong in form is told as such, before any claim about the values is tested.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch


class WrongForm(Exception):
    """What is wrong with the form of a result, in a sentence for the reader."""


def numbers(value: Any) -> torch.Tensor | None:
    """``value`` in float64, or ``None`` if it holds anything but numbers."""
    try:
        return torch.as_tensor(value, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError):
        return None


def in_form(answer: Callable[..., Any], reference: Callable[..., Any]) -> Callable[..., Any]:
    """``answer``, whose every result is held to the form of what ``reference`` returns.

    It gets copies of its tensors: changing them in place does not reach the next call. It raises
    ``WrongForm`` where ``answer`` raises or differs in form, and ``NotImplementedError`` for the
    empty stub.
    """
    signature = inspect.signature(reference)

    @functools.wraps(answer)
    def call(*args: Any, **kwargs: Any) -> Any:
        states = [(g, g.get_state()) for g in (*args, *kwargs.values()) if hasattr(g, "get_state")]
        copies = [arg.clone() if isinstance(arg, torch.Tensor) else arg for arg in args]
        try:
            wanted = reference(*args, **kwargs)
        except Exception:  # this input has to be refused
            return answer(*copies, **kwargs)
        for generator, state in states:
            generator.set_state(state)
        try:
            given = answer(*copies, **kwargs)
        except Exception as error:
            if isinstance(error, NotImplementedError) and not error.args:
                raise
            raise WrongForm(f"your function raised {type(error).__name__}: {error}") from error
        return _compared(given, wanted, signature.bind(*args, **kwargs).arguments)

    return call


def _compared(given: Any, wanted: Any, inputs: dict[str, Any], name: str = "your result") -> Any:
    """``given``, as a tensor if ``wanted`` is one."""
    if given is None and wanted is not None:
        raise WrongForm(f"{name} is None: is the `return` missing?")
    if isinstance(wanted, tuple):
        parts = given if isinstance(given, tuple | list) else [given]
        if len(parts) != len(wanted):
            raise WrongForm(f"your function must return {len(wanted)} results, not {len(parts)}")
        pairs = enumerate(zip(parts, wanted, strict=True), 1)
        return tuple(_compared(*pair, inputs, f"result {index}") for index, pair in pairs)
    found, right = numbers(given), numbers(wanted)
    if right is None:
        return given
    if found is None:
        raise WrongForm(f"{name} is a {type(given).__name__}, which holds no numbers")
    if found.shape != right.shape:
        must = f"have shape {tuple(right.shape)}" if right.ndim else "be a single number"
        raise WrongForm(f"{name} has shape {tuple(found.shape)}; it must {must}")
    if len(wrong := (right.isfinite() & ~found.isfinite()).nonzero()):
        place = f" at {wrong[0].tolist()}" if right.ndim else ""
        raise WrongForm(
            f"{name} holds {found[tuple(wrong[0])].item()}{place}{_small(inputs)}: look for "
            "0 · log 0, a division by 0, or a logarithm, root or arccos out of its range"
        )
    as_it_is = isinstance(given, torch.Tensor) or not isinstance(wanted, torch.Tensor)
    return given if as_it_is else found.to(wanted.dtype)


def _small(inputs: dict[str, Any]) -> str:
    """The inputs of at most four numbers, to be printed."""
    shown = []
    for name, value in inputs.items():
        values = numbers(value)
        if values is not None and values.numel() <= 4:
            text = ", ".join(f"{number:.3g}" for number in values.flatten().tolist())
            shown.append(f"{name} = ({text})" if values.ndim else f"{name} = {text}")
    return f" for {', '.join(shown)}" if shown else ""
