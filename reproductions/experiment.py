"""What an experiment is: independent trials, and how their records are shown."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from bdl_lessons.datasets.records import Record


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
class Claim:
    """A published statement beside the records, in cases that hold or do not.

    Args:
        statement: what the paper says.
        published: its numbers, or a word.
        ours: what the records say.
        holds: in how many cases the statement is true of the records.
        of: how many cases were looked at; 0 if it was not run.
        condition: under which it was looked at, or why it was not.
    """

    statement: str
    published: str
    ours: str
    holds: int
    of: int
    condition: str

    @property
    def verdict(self) -> str:
        """One rule for all: in every case, in half of them or more, in fewer."""
        if not self.of:
            return "not run"
        if self.holds == self.of:
            return "reproduced"
        return "in part" if 2 * self.holds >= self.of else "not reproduced"


@dataclass(frozen=True)
class Experiment:
    """One published table or figure.

    Args:
        name: name of the module and of the file of records.
        title: what is measured again, with its source.
        trials: scale -> the trials, most important first.
        run: measures a trial. A module-level function, so that it reaches other processes.
        table, figure, claims: from the records of one scale: Markdown with ours beside published;
            a figure, called within the style of the lessons; what is published, held against them.
        on_cpu: whether it measures the processor, whatever GPU there is.
    """

    name: str
    title: str
    trials: Callable[[str], Sequence[Trial]]
    run: Callable[[Trial], TrialResult]
    table: Callable[[Sequence[Record]], str]
    figure: Callable[[Sequence[Record]], Figure]
    claims: Callable[[Sequence[Record]], Sequence[Claim]]
    on_cpu: bool = False
