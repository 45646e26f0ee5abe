"""One way to make the tables of a report: a line for each record, a format for each column."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from reproductions import markdown

Row = Mapping[str, Any]


def table_of(rows: Iterable[Row], columns: Mapping[str, str | Callable[[Row], str]]) -> str:
    """A Markdown table with a line for each of ``rows``.

    Args:
        rows: such as records, whose entries formats reach as ``{metrics[error]:.2f}``.
        columns: head -> format string for a row, or a function of it that gives the cell.
    """
    lines = [
        [cell(row) if callable(cell) else cell.format_map(row) for cell in columns.values()]
        for row in rows
    ]
    return markdown.table([*columns], lines)
