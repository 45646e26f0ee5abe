"""What was measured and what was published: the numbers that lessons show beside each other.

``data/results/<name>.jsonl`` holds the records of a reproduction, one JSON line for each finished
trial with its configuration, seed and metrics. ``data/published/<name>.csv`` is a table of a paper,
as printed. Lessons 05 to 08 and 12.
"""

from __future__ import annotations

import csv
import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bdl_lessons.core.files import DATA
from bdl_lessons.core.validation import typechecked
from bdl_lessons.datasets.errors import unknown

RESULTS_FOLDER = DATA / "results"
PUBLISHED = DATA / "published"
CHOSEN_ON = "fashion-mnist"
"""The images on whose validation part the settings of a classifier were chosen."""

_DISPLAY_NAMES = {
    "bostonHousing": "Boston",
    "fashion-mnist": "Fashion-MNIST",
    "mnist": "MNIST",
    "naval-propulsion-plant": "Naval",
    "power-plant": "Power Plant",
    "wine-quality-red": "Wine",
}

Record = dict[str, Any]
Value = tuple[float, float] | None
"""Mean and standard error, or nothing."""


@typechecked
def load_records(name: str) -> list[Record]:
    """The records of a reproduction, e.g. ``"uci"``, in the order of its trials.

    Raises:
        ValueError: if there are none of that name, or a line is damaged; the message names it.
    """
    return read_records(_existing(RESULTS_FOLDER / f"{name}.jsonl"))


@typechecked
def published_table(name: str) -> list[dict[str, str | float]]:
    """The rows of ``data/published/<name>.csv``. A column of numbers gives floats, another text.

    Raises:
        ValueError: if there is no such table; the message names those there are.
    """
    with _existing(PUBLISHED / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    columns = [_numbers(column) or column for column in zip(*rows, strict=True)]
    return [dict(zip(header, row, strict=True)) for row in zip(*columns, strict=True)]


def read_records(path: Path) -> list[Record]:
    """The records of a file in the order in which they were added; none if there is no file.

    Raises:
        ValueError: if the file cannot be read, or a line other than an unfinished last one is not
            a record of this experiment and scale, as it was written, of a trial that no line
            before it has; the message names file and line.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ValueError(f"the records in {path} cannot be read: {error.strerror}") from error
    return parse_records(path, content)[0]


def trial_key(config: Mapping[str, Any], seed: int) -> str:
    """16 hex digits that name a trial: the hash of its configuration and seed as canonical JSON.

    The order of the entries does not matter; any change of a value does.

    Raises:
        TypeError: if the configuration holds something that JSON cannot.
        ValueError: if it holds NaN or infinity.
    """
    return _hash({"config": config, "seed": seed})


def record_digest(record: Record) -> str:
    """16 hex digits: the hash of all entries but ``"digest"`` as canonical JSON."""
    return _hash({name: value for name, value in record.items() if name != "digest"})


def parse_records(path: Path, content: bytes) -> tuple[list[Record], int]:
    """The records in a file's content, and how many of its bytes belong to them.

    Raises:
        ValueError: as :func:`read_records`.
    """
    records: dict[str, Record] = {}
    length = 0
    for number, line in enumerate(content.splitlines(keepends=True), start=1):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            if length + len(line) == len(content) and not line.endswith(b"\n"):
                break  # the process that wrote it died
            raise _no_record(path, number, error, line) from error
        try:
            _check(record, path)
            if record["key"] in records:
                raise ValueError("a line before it is of the same trial")
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise _no_record(path, number, error, line) from error
        records[record["key"]] = record
        length += len(line)
    return list(records.values()), length


def _check(record: Record, path: Path) -> None:
    """Raise unless it is what was recorded for the file at ``path``."""
    if trial_key(record["config"], record["seed"]) != record["key"]:
        raise ValueError("the key is not that of its configuration and seed")
    if record_digest(record) != record["digest"]:
        raise ValueError("the digest is not that of its entries")
    check_numbers(record)
    scale = "quick" if path.parent.name == "quick" else "paper"
    if (record["experiment"], record["scale"]) != (path.stem, scale):
        raise ValueError(f"it is of {record['experiment']!r} at scale {record['scale']!r}")


def check_numbers(record: Record) -> None:
    """Raise unless metrics are finite numbers, at least one, and arrays nested lists of them."""
    if not record["metrics"]:
        raise ValueError("there are no metrics")
    are_numbers = {name: _is_finite(value) for name, value in record["metrics"].items()}
    for name, values in record["arrays"].items():
        fine = isinstance(values, list) and all(map(_is_finite, _flat(values)))
        are_numbers[name] = are_numbers.get(name, True) and fine
    for name, fine in are_numbers.items():
        if not fine:
            raise ValueError(f"{name} is not finite numbers: a trial that failed is not recorded")


def _is_finite(value: object) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value)


def _flat(values: list) -> Iterator[object]:
    for value in values:
        yield from _flat(value) if isinstance(value, list) else [value]


def _no_record(path: Path, number: int, error: Exception, line: bytes) -> ValueError:
    reason = f"it has no {error}" if isinstance(error, KeyError) else error
    return ValueError(f"{path}, line {number} is not a record: {reason}: {line[:60]!r}")


def _hash(entries: Mapping[str, Any]) -> str:
    canonical = json.dumps(entries, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def display_name(data: str) -> str:
    """How tables and menus write the name of a data set, e.g. ``"Wine"``; that of the papers."""
    return _DISPLAY_NAMES.get(data, data.capitalize())


def group_by(records: Iterable[Record], *names: str) -> dict[Any, list[Record]]:
    """Records by entries of their configuration: one value, or a tuple; in the order they come."""
    groups: dict[Any, list[Record]] = {}
    for record in records:
        values = tuple(record["config"][name] for name in names)
        groups.setdefault(values if len(names) > 1 else values[0], []).append(record)
    return groups


def where(records: Iterable[Record], **wanted: Any) -> list[Record]:
    """Records whose seed and configuration have these values."""
    return [
        r
        for r in records
        if all({**r["config"], "seed": r["seed"]}[k] == wanted[k] for k in wanted)
    ]


def setting(record: Record) -> str:
    """All of the configuration but the data, as one string."""
    config = {k: v for k, v in record["config"].items() if k not in ("data", "ood")}
    return json.dumps(config, sort_keys=True)


def chosen_settings(records: Sequence[Record], data: str = CHOSEN_ON) -> dict[str, str]:
    """Method -> the setting with the smallest ``val_nll`` on ``data`` with the first seed."""
    first = min(record["seed"] for record in records)
    tried = group_by(where(records, data=data, seed=first), "method")
    return {
        method: setting(min(group, key=lambda record: record["metrics"]["val_nll"]))
        for method, group in tried.items()
    }


def with_settings(
    records: Sequence[Record], data: str, settings: Mapping[str, str]
) -> list[Record]:
    """The records of a data set at these settings, methods in their order, seeds together."""
    of_data = group_by(where(records, data=data), "method")
    return [r for m, chosen in settings.items() for r in of_data.get(m, []) if setting(r) == chosen]


class UCIResults:
    """What was recorded of regression on the UCI sets, and what was published of it.

    Attributes:
        sets: the data sets, in the order of the records.
        methods: the recorded methods, in the same order.
        rows: the methods of the published tables, then those that are only recorded.
    """

    def __init__(self, records: Iterable[Record]) -> None:
        self._records = {(r["config"]["data"], r["config"]["method"]): r for r in records}
        self._published = {
            (score, row["dataset"], row["method"]): (row["mean"], row["std_error"])
            for score in ("rmse", "log_likelihood")
            for row in published_table(f"uci_{score}")
        }
        self.sets = list(dict.fromkeys(data for data, _ in self._records))
        self.methods = list(dict.fromkeys(method for _, method in self._records))
        self.rows = list(dict.fromkeys([*(key[2] for key in self._published), *self.methods]))

    def record(self, data: str, method: str) -> Record | None:
        return self._records.get((data, method))

    def of(self, method: str) -> list[Record]:
        """The records of one method, in the order of the sets."""
        return [self._records[data, method] for data in self.sets if self.record(data, method)]

    def ours(self, data: str, method: str, score: str) -> Value:
        """A recorded score, e.g. ``"rmse"``: its mean over the splits, and the standard error."""
        record = self.record(data, method)
        return record and (record["metrics"][score], record["metrics"][f"{score}_error"])

    def published(self, data: str, method: str, score: str) -> Value:
        """The cell of the published table: ``"rmse"`` or ``"log_likelihood"``, original units."""
        return self._published.get((score, display_name(data), method))


def _existing(path: Path) -> Path:
    if not path.is_file():
        known = sorted(other.stem for other in path.parent.glob(f"*{path.suffix}"))
        raise unknown(f"name in data/{path.parent.name}", path.stem, known)
    return path


def _numbers(column: tuple[str, ...]) -> list[float] | None:
    """The column as numbers, or ``None`` if a cell is none."""
    try:
        return [float(cell) for cell in column]
    except ValueError:
        return None
