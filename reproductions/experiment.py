"""What an experiment is: independent trials, how records are shown, and what was published."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from bdl_lessons.core.files import DATA
from bdl_lessons.core.validation import typechecked
from reproductions.records import Record

PUBLISHED = DATA / "published"
"""Tables of papers, as printed: the reference column beside our own measurements."""


@dataclass(frozen=True)
class Trial:
    """One run: a configuration of plain JSON values and a seed. It needs nothing of other trials.

    ``checkpoint`` is a file where a long run may keep its state until its record is there.
    """

    config: Mapping[str, Any]
    seed: int
    checkpoint: Path | None = field(default=None, compare=False)


@dataclass(frozen=True)
class TrialResult:
    """What a trial returns: named numbers, and named lists of numbers for figures."""

    metrics: Mapping[str, float]
    arrays: Mapping[str, list] = field(default_factory=dict)


@dataclass(frozen=True)
class Experiment:
    """One published table or figure.

    Args:
        name: name of the module and of the file of records.
        title: what is measured again, with its source.
        trials: scale -> the trials, most important first.
        run: measures a trial. A module-level function, so that it reaches other processes.
        table: records of one scale -> Markdown: ours beside published, and what differs.
        figure: the same records -> a figure.
        on_cpu: whether it measures the processor, whatever GPU there is.
    """

    name: str
    title: str
    trials: Callable[[str], Sequence[Trial]]
    run: Callable[[Trial], TrialResult]
    table: Callable[[Sequence[Record]], str]
    figure: Callable[[Sequence[Record]], Figure]
    on_cpu: bool = False


@typechecked
def published_table(name: str) -> list[dict[str, str | float]]:
    """The rows of ``data/published/<name>.csv``. A column of numbers gives floats, another text.

    Raises:
        ValueError: if there is no such table; the message names those there are.
    """
    path = PUBLISHED / f"{name}.csv"
    if not path.is_file():
        known = ", ".join(sorted(p.stem for p in PUBLISHED.glob("*.csv")))
        raise ValueError(f"no published table has the name {name!r}; there are {known}")
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
