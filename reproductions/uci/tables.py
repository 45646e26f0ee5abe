"""What the tables and the figure of the UCI experiment are made of: look-ups and formats."""

from __future__ import annotations

from collections.abc import Sequence

from reproductions.experiment import published_table
from reproductions.records import Record
from reproductions.uci.methods import METHODS
from reproductions.uci.trials import TAU_GRIDS

SCORES = {
    "rmse": ("uci_rmse", "RMSE"),
    "log_likelihood": ("uci_log_likelihood", "log likelihood (nats)"),
}
"""Metric -> its published table and its name."""

PUBLISHED_NAMES = {
    "yacht": "Yacht",
    "bostonHousing": "Boston",
    "energy": "Energy",
    "concrete": "Concrete",
    "wine-quality-red": "Wine",
    "kin8nm": "Kin8nm",
    "power-plant": "Power Plant",
    "naval-propulsion-plant": "Naval",
}
PUBLISHED_METHODS = ("BBB", "VMG", "MNF", "SLANG", "MCD", "VD", "D.E", "VSD")

Value = tuple[float, float] | None
"""Mean and standard error, or nothing."""


class Results:
    """The records of one scale by data set and method."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._found = {(r["config"]["data"], r["config"]["method"]): r for r in records}
        self.sets = [data for data in TAU_GRIDS if any(data == key[0] for key in self._found)]
        self.methods = [name for name in METHODS if any(name == key[1] for key in self._found)]
        extra = [name for name in self.methods if name not in PUBLISHED_METHODS]
        self.rows = [*PUBLISHED_METHODS, *extra]
        """Methods in the order of the published tables, then those of our own that were run."""

    def record(self, data: str, method: str) -> Record | None:
        return self._found.get((data, method))

    def of(self, method: str) -> list[Record]:
        """The records of one method, in the order of the sets."""
        records = [self.record(data, method) for data in self.sets]
        return [record for record in records if record]

    def ours(self, data: str, method: str, metric: str) -> Value:
        record = self.record(data, method)
        return record and (record["metrics"][metric], record["metrics"][f"{metric}_error"])


def published(data: str, method: str, score: str) -> Value:
    """The cell of the published table."""
    for row in published_table(SCORES[score][0]):
        if (row["dataset"], row["method"]) == (PUBLISHED_NAMES[data], method):
            return row["mean"], row["std_error"]
    return None


def cell(value: Value, data: str = "", score: str = "") -> str:
    """Mean and error; RMSE with more digits where the targets are small."""
    digits = {("rmse", "kin8nm"): 4, ("rmse", "naval-propulsion-plant"): 5}.get((score, data), 2)
    return "–" if value is None else f"{value[0]:.{digits}f} ± {value[1]:.{digits}f}"
