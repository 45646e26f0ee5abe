"""Tables of papers, as printed: the reference column beside our own measurements."""

from __future__ import annotations

import csv

from bdl_lessons.core.files import DATA

FOLDER = DATA / "published"


def published_table(name: str) -> list[dict[str, str | float]]:
    """The rows of ``data/published/<name>.csv``. A column of numbers gives floats, another text.

    Raises:
        ValueError: if there is no such table; the message names those there are.
    """
    path = FOLDER / f"{name}.csv"
    if not path.is_file():
        known = ", ".join(sorted(p.stem for p in FOLDER.glob("*.csv")))
        raise ValueError(f"there is no published table {name!r}; there are {known}")
    with path.open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    columns = [_numbers(column) or column for column in zip(*rows, strict=True)]
    return [dict(zip(header, row, strict=True)) for row in zip(*columns, strict=True)]


def _numbers(column: tuple[str, ...]) -> list[float] | None:
    """The column as numbers, or ``None`` if a cell is none."""
    try:
        return [float(cell) for cell in column]
    except ValueError:
        return None
