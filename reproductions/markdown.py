"""Tables as Markdown, and what stands in their cells."""

import math
from collections.abc import Iterable, Sequence
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pandas import DataFrame


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Lines ``| cell | cell |`` with a rule under the head.

    >>> print(table(["method", "error (%)"], [["VD", 1.2]]))
    | method | error (%) |
    | --- | --- |
    | VD | 1.2 |
    """
    rule = ["---"] * len(head)
    lines = []
    for cells in (head, rule, *rows):
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def frame_table(frame: "DataFrame") -> str:
    """:func:`table` of a data frame without its index; a number that is none becomes a dash."""
    rows = []
    for cells in frame.itertuples(index=False):
        rows.append(["–" if str(cell) == "nan" else cell for cell in cells])
    return table(list(frame.columns), rows)


def mean_and_error(values: Sequence[float], digits: int) -> str:
    """The mean, and with more than one value its standard error.

    >>> mean_and_error([1.0, 2.0, 3.0], digits=2)
    '2.00 ± 0.58'
    """
    if len(values) == 1:
        return f"{values[0]:.{digits}f}"
    error = stdev(values) / math.sqrt(len(values))
    return f"{mean(values):.{digits}f} ± {error:.{digits}f}"
