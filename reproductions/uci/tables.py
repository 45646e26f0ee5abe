"""What the tables and the figure of the UCI experiment are made of: look-ups and formats."""

from __future__ import annotations

from collections.abc import Sequence

from bdl_lessons.datasets import UCI_SETS
from bdl_lessons.datasets.records import Record, UCIResults, Value
from reproductions.uci.methods import METHODS

SCORES = {
    "rmse": ("uci_rmse", "RMSE"),
    "log_likelihood": ("uci_log_likelihood", "log likelihood (nats)"),
}
"""Metric -> its published table and its name."""

PUBLISHED_METHODS = ("BBB", "VMG", "MNF", "SLANG", "MCD", "VD", "D.E", "VSD")


def results(records: Sequence[Record]) -> UCIResults:
    """The records of one scale by data set and method, the methods in the order of ``METHODS``."""
    places = list(METHODS)
    return UCIResults(sorted(records, key=lambda r: places.index(r["config"]["method"])))


def cell(value: Value, data: str = "", score: str = "") -> str:
    """Mean and error; RMSE with more digits where the targets are small."""
    digits = UCI_SETS[data].digits if score == "rmse" else 2
    return "–" if value is None else f"{value[0]:.{digits}f} ± {value[1]:.{digits}f}"
