"""Checks and results that a reader can see: a claim, what was measured, what was expected.

The measured digits differ a little between machines, so the comparison of the notebooks masks them
(tests/nbval_sanitize.cfg) and nothing else: claim, reference and tolerance are compared as text.
"""

import html
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import numpy as np
import torch

from bdl_lessons.core.validation import non_negative, number, real_array

Value = float | Sequence[float] | np.ndarray | torch.Tensor

_FEW = 4  # so many numbers are printed one by one; more of them are summed up
_WIDTH = 104  # of a table of checks: JupyterLab breaks longer lines anywhere at 1280 pixels
_NARROWEST_CLAIM = 22
_group: ContextVar[list[tuple[str, str, int, str]] | None] = ContextVar("group", default=None)


class CheckFailed(AssertionError):
    """A claim of a lesson does not hold; the message carries the measured value.

    >>> check("one and one", 1 + 1, expect=3, atol=0)
    Traceback (most recent call last):
    bdl_lessons.core.claims.CheckFailed: one and one: measured 2, expected 3 ± 0
    """


def check(name: str, value: Value, expect: Value, atol: float) -> None:
    """Assert ``|value - expect| <= atol`` elementwise and print both with the tolerance.

    Args:
        name: the claim in words, e.g. ``"Var[z] = keep * p_drop"``.
        value: what was computed: a number, an array or a tensor of any shape.
        expect: the reference: a number, or an array of the same shape as ``value``.
        atol: absolute tolerance in the units of ``value``; finite and >= 0.

    Raises:
        CheckFailed: if any element is further than ``atol`` from the reference, or is NaN.
        TypeError, ValueError: if ``value`` or ``expect`` is complex or empty, the shapes differ, or
            ``expect`` or ``atol`` is out of range.

    >>> check("half of a half", 0.5 * 0.5, expect=0.25, atol=1e-9)
    ok   half of a half: 0.25 (expected 0.25 ± 1e-09)
    """
    value = _array(f"check {name!r}: value", value)
    expect = _array(f"check {name!r}: expect", expect)
    non_negative(f"check {name!r}: atol", atol)
    if not np.isfinite(expect).all():
        raise ValueError(f"check {name!r}: expect must be finite, it is the reference")
    if expect.ndim and expect.shape != value.shape:
        both = f"value has shape {value.shape}, expect has {expect.shape}"
        raise ValueError(f"check {name!r}: {both}; compare one shape, or with a single number")
    error = np.abs(value - expect)
    if not (error <= atol).all():
        worst = int(np.argmax(np.nan_to_num(error, nan=np.inf)))
        wanted = np.broadcast_to(expect, value.shape).flat[worst]
        measured = f"{name}: measured {value.flat[worst]:.10g}"
        raise CheckFailed(f"{measured}, expected {wanted:.10g} ± {atol:g}")
    if expect.size <= _FEW:
        _report(name, *_measured(value), f"{_numbers(expect)} ± {atol:g}")
    else:
        shape = "×".join(map(str, expect.shape))
        reference = f"a reference of shape {shape} ± {atol:g}"
        _report(name, f"off by {error.max():.1e}", 14, reference)


def check_between(
    name: str, value: Value, low: float | None = None, high: float | None = None
) -> None:
    """Assert ``low <= value <= high`` elementwise (either bound may be left out) and print them.

    Raises CheckFailed if any element lies outside the bounds, or is NaN; TypeError if ``value`` is
    complex; ValueError if ``value`` is empty, no or a wrong bound is given, or ``low > high``.

    >>> check_between("two shares", [0.25, 0.75], low=0, high=1)
    ok   two shares: 0.25, 0.75 (expected 0 to 1)
    """
    if low is None and high is None:
        raise ValueError(f"check_between {name!r}: give low, high or both")
    lower = -np.inf if low is None else number(f"check_between {name!r}: low", low)
    upper = np.inf if high is None else number(f"check_between {name!r}: high", high)
    if not lower <= upper:
        raise ValueError(f"check_between {name!r}: low={low} and high={high} leave nothing between")
    value = _array(f"check_between {name!r}: value", value)
    inside = (value >= lower) & (value <= upper)
    one_sided = f"<= {upper:g}" if low is None else f">= {lower:g}"
    bounds = one_sided if None in (low, high) else f"{low:g} to {high:g}"
    if not inside.all():
        outside = value.flat[int(np.argmin(inside))]
        raise CheckFailed(f"{name}: measured {outside:.10g}, expected {bounds}")
    _report(name, *_measured(value), bounds)


@contextmanager
def check_table() -> Iterator[None]:
    """Print the checks of a ``with`` block as one aligned table.

    If one of them fails, those before it are printed and its error is raised.

    >>> with check_table():
    ...     check("half of a half", 0.25, expect=0.25, atol=1e-9)
         claim          │ measured   │ expected
    ok   half of a half │ 0.25       │ 0.25 ± 1e-09
    """
    rows: list[tuple[str, str, int, str]] = []
    token = _group.set(rows)
    try:
        yield
    finally:
        _group.reset(token)
        if rows:
            print("\n".join(_table_lines(rows)))


def _table_lines(rows: list[tuple[str, str, int, str]]) -> Iterator[str]:
    """The lines of a table of checks; a claim that is too long for its column goes on below."""
    measured_width = max(len("measured"), *(width for _, _, width, _ in rows))
    expected_width = max(len("expected"), *(len(expected) for *_, expected in rows))
    room = _WIDTH - len("ok    │  │ ") - measured_width - expected_width
    claims = [_wrapped(name, max(room, _NARROWEST_CLAIM)) for name, *_ in rows]
    claim_width = max(len("claim"), *(len(line) for claim in claims for line in claim))
    yield f"     {'claim':{claim_width}} │ {'measured':{measured_width}} │ expected"
    for (first, *others), (_, measured, _, expected) in zip(claims, rows, strict=True):
        yield f"ok   {first:{claim_width}} │ {measured:{measured_width}} │ {expected}"
        for line in others:
            yield f"     {line:{claim_width}} │ {'':{measured_width}} │"


def _wrapped(name: str, width: int) -> list[str]:
    lines = textwrap.wrap(name, width, break_long_words=False, break_on_hyphens=False)
    return lines or [""]


@dataclass(frozen=True)
class ResultsTable:
    """Measured numbers by row and column; a notebook shows it as a table.

    Attributes:
        rows: what was measured, e.g. ``{"dropout": {"error (%)": [3.9, 4.1], "NLL": 0.12}}``.
            Several numbers are runs with different seeds and become mean ± standard error. Text
            and integers are compared between machines as they are, floats are masked.
        caption: what the numbers are: the data, the number of runs, the units.

    Raises:
        TypeError, ValueError: if rows are missing or differ in columns, or a number is not finite.

    >>> table = ResultsTable({"dropout": {"NLL": [0.5, 0.2], "weights": 100}}, "Two runs")
    >>> print(table)  # doctest: +NORMALIZE_WHITESPACE
    Two runs
            │ NLL               │ weights
    dropout ┃ 0.35 ± 0.15       │ 100
    """

    rows: Mapping[str, Mapping[str, Value | str]]
    caption: str

    def __post_init__(self) -> None:
        if not self.rows or not self.columns:
            raise ValueError("a results table needs at least one row and one column")
        for row, cells in self.rows.items():
            if list(cells) != self.columns:
                raise ValueError(f"row {row!r} has columns {list(cells)}, not {self.columns}")
            for column, value in cells.items():
                _cell(f"{row}, {column}", value)

    @property
    def columns(self) -> list[str]:
        return list(next(iter(self.rows.values())))

    def __repr__(self) -> str:
        """A table in plain text; ┃ stands before what was measured, │ before what was not."""
        first = max(map(len, self.rows))
        lines = [self.caption, " " * first + "".join(f" │ {column:17}" for column in self.columns)]
        for row, cells in self.rows.items():
            lines.append(f"{row:{first}}")
            for column, value in cells.items():
                text, measured = _cell(row, value)
                lines[-1] += f" {'┃' if measured else '│'} {text:{max(17, len(column))}}"
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        head = "".join(f'<th scope="col">{html.escape(column)}</th>' for column in self.columns)
        body = ""
        for row, cells in self.rows.items():
            body += f'<tr><th scope="row">{html.escape(row)}</th>'
            for text, measured in (_cell(row, value) for value in cells.values()):
                kind = ' class="measured"' if measured else ""
                body += f"<td{kind}>{html.escape(text)}</td>"
            body += "</tr>"
        caption = f"<caption>{html.escape(self.caption)}</caption>"
        rows = f"<thead><tr><td></td>{head}</tr></thead><tbody>{body}</tbody>"
        return f"<table>{caption}{rows}</table>"


def _cell(name: str, value: Value | str) -> tuple[str, bool]:
    """The text of a cell, and whether its digits were measured."""
    if isinstance(value, str | int):
        return str(value), False
    numbers = _array(name, value).ravel()
    if not np.isfinite(numbers).all():
        raise ValueError(f"{name}: a result must be finite, got {numbers}")
    if numbers.size == 1:
        return f"{numbers.item():.4g}", True
    error = numbers.std(ddof=1) / np.sqrt(numbers.size)
    decimals = max(0, 1 - int(np.floor(np.log10(error)))) if error > 0 else 2
    return f"{numbers.mean():.{decimals}f} ± {error:.{decimals}f}", True


def _report(name: str, measured: str, width: int, expected: str) -> None:
    rows = _group.get()
    if rows is None:
        print(f"ok   {name}: {measured} (expected {expected})")
    else:
        rows.append((name, measured, width, expected))


def _measured(value: np.ndarray) -> tuple[str, int]:
    """The text of measured numbers, and a width that depends on their shape alone."""
    if value.size <= _FEW:
        return _numbers(value), 10 * value.size + 2 * (value.size - 1)
    return f"{value.min():.4g} to {value.max():.4g}", 24


def _numbers(values: np.ndarray) -> str:
    return ", ".join(f"{value:.4g}" for value in values.flat)


def _array(name: str, value: Value) -> np.ndarray:
    if isinstance(value, list | tuple):
        value = [one.detach().cpu() if isinstance(one, torch.Tensor) else one for one in value]
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().to(torch.promote_types(value.dtype, torch.double)).numpy()
    value = real_array(name, value)
    if not value.size:
        raise ValueError(f"{name} is empty, of shape {value.shape}; there is nothing to compare")
    return value
