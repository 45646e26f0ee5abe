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
    """A published statement beside the records: it ``holds`` in some of so many cases.

    ``published`` and ``ours`` are numbers or words; ``condition`` is that under which it was looked
    at, or why it was not: then it is looked at in 0 cases.
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
    """One published table or figure; ``name`` is that of the file of records.

    ``trials`` gives those of a scale, most important first. ``run`` is a module-level function, so
    that it reaches other processes. From the records of one scale ``table`` makes Markdown with
    ours beside published, ``figure`` a figure, called within the style of the lessons, and
    ``claims`` what is published, held against them. ``on_cpu``: it measures the processor, whatever
    GPU there is.
    """

    name: str
    title: str
    trials: Callable[[str], Sequence[Trial]]
    run: Callable[[Trial], TrialResult]
    table: Callable[[Sequence[Record]], str]
    figure: Callable[[Sequence[Record]], Figure]
    claims: Callable[[Sequence[Record]], Sequence[Claim]]
    on_cpu: bool = False
