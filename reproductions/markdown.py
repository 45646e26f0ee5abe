"""Tables as Markdown, and what stands in their cells."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import mean, stdev
from typing import Any

Row = Mapping[str, Any]


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Lines ``| cell | cell |`` with a rule under the head."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def table_by_columns(columns: Mapping[str, Iterable[Any]]) -> str:
    """:func:`table` from head -> cells."""
    return table([*columns], zip(*columns.values(), strict=True))


def table_of(rows: Iterable[Row], columns: Mapping[str, str | Callable[[Row], str]]) -> str:
    """:func:`table` with a line for each of ``rows`` and a format for each column.

    Args:
        rows: such as records, whose entries formats reach as ``{metrics[error]:.2f}``.
        columns: head -> format string for a row, or a function of it that gives the cell. A number
            that is none becomes a dash.
    """

    def cell(row: Row, form: str | Callable[[Row], str]) -> str:
        text = form(row) if callable(form) else form.format_map(row)
        return "–" if text == "nan" else text

    return table([*columns], [[cell(row, form) for form in columns.values()] for row in rows])


def mean_and_error(values: Sequence[float], digits: int) -> str:
    """The mean, and with more than one value its standard error."""
    if len(values) == 1:
        return f"{values[0]:.{digits}f}"
    error = stdev(values) / math.sqrt(len(values))
    return f"{mean(values):.{digits}f} ± {error:.{digits}f}"
