"""What was measured and what was published: the numbers that lessons show beside each other.

``data/results/<name>.jsonl`` holds the records of a reproduction, one JSON line for each finished
trial with its configuration, seed and metrics. ``data/published/<name>.csv`` is a table of a paper,
as printed. Lessons 05 to 08 and 13.
"""

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bdl_lessons.core.files import DATA
from bdl_lessons.core.validation import instance, one_of
from bdl_lessons.datasets.uci_sets import display_name

RESULTS_FOLDER = DATA / "results"
PUBLISHED = DATA / "published"
CHOSEN_ON = "fashion-mnist"  # on its validation part the settings of a classifier were chosen

Record = dict[str, Any]
Value = tuple[float, float] | None  # mean and standard error, or nothing


def load_records(name: str) -> list[Record]:
    """The records of a reproduction, e.g. ``"uci"``, in the order of its trials.

    >>> len(load_records("rotated_digit")[0]["metrics"]) > 0
    True

    Raises ValueError if there are none of that name, and names those there are; or for a line that
    is cut.
    """
    path = _existing(RESULTS_FOLDER / f"{instance('name', name, str)}.jsonl")
    records = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            records.append(json.loads(line))
        except ValueError as error:
            raise ValueError(f"{path}, line {number} is not a record: {error}") from error
    return records


def published_table(name: str) -> list[dict[str, str | float]]:
    """The rows of ``data/published/<name>.csv``. A column of numbers gives floats, another text.

    >>> published_table("uci_rmse")[0]
    {'dataset': 'Boston', 'method': 'BBB', 'mean': 3.43, 'std_error': 0.2}

    Raises ValueError if there is no such table; the message names those there are.
    """
    path = _existing(PUBLISHED / f"{instance('name', name, str)}.csv")
    with path.open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    columns = [_numbers(column) or column for column in zip(*rows, strict=True)]
    return [dict(zip(header, row, strict=True)) for row in zip(*columns, strict=True)]


def group_by(records: Iterable[Record], *names: str) -> dict[Any, list[Record]]:
    """Records by entries of their configuration: one value, or a tuple; in the order they come.

    >>> group_by([{"config": {"method": "VD"}, "seed": 0}], "method")
    {'VD': [{'config': {'method': 'VD'}, 'seed': 0}]}
    """
    groups: dict[Any, list[Record]] = {}
    for record in records:
        values = tuple(record["config"][name] for name in names)
        groups.setdefault(values if len(names) > 1 else values[0], []).append(record)
    return groups


def where(records: Iterable[Record], **wanted: Any) -> list[Record]:
    """Records whose seed and configuration have these values.

    >>> len(where(load_records("image_classification"), data="mnist", method="VD", seed=0))
    1
    """
    for name, value in wanted.items():
        records = [r for r in records if {**r["config"], "seed": r["seed"]}[name] == value]
    return list(records)


def setting(record: Record) -> str:
    """All of the configuration but the data, as one string."""
    config = {k: v for k, v in record["config"].items() if k not in ("data", "ood")}
    return json.dumps(config, sort_keys=True)


def chosen_settings(records: Sequence[Record], data: str = CHOSEN_ON) -> dict[str, str]:
    """Method -> the setting with the smallest ``val_nll`` on ``data`` with the first seed.

    >>> "prior_precision" in chosen_settings(load_records("image_classification"))["MAP"]
    True

    Raises ValueError if there are no records on ``data``; the message names what they are on.
    """
    is_sequence = isinstance(records, Sequence)
    if not is_sequence or not all(isinstance(record, dict) for record in records):
        raise TypeError("records must be a sequence of records, as load_records gives it")
    one_of("data", data, dict.fromkeys(record["config"]["data"] for record in records))
    first = min(record["seed"] for record in records)
    tried = group_by(where(records, data=data, seed=first), "method")
    best = {m: min(group, key=lambda r: r["metrics"]["val_nll"]) for m, group in tried.items()}
    return {method: setting(record) for method, record in best.items()}


def with_settings(
    records: Sequence[Record], data: str, settings: Mapping[str, str]
) -> list[Record]:
    """The records of a data set at these settings, methods in their order, seeds together.

    >>> images = load_records("image_classification")
    >>> rows = with_settings(images, "mnist", chosen_settings(images))
    >>> [row["seed"] for row in rows if row["config"]["method"] == "BBB"]
    [0, 1, 2]
    """
    of_data = group_by(where(records, data=data), "method")
    return [r for m, chosen in settings.items() for r in of_data.get(m, []) if setting(r) == chosen]


class UCIResults:
    """What was recorded of regression on the UCI sets, and what was published of it.

    >>> UCIResults(load_records("uci")).published("yacht", "VSD", "rmse")
    (0.69, 0.06)

    Attributes:
        recorded_sets: the data sets in the order of the records, those that no paper has at last.
        sets: those of them that stand in the published tables.
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
        printed = {data for _, data, _ in self._published}
        recorded = dict.fromkeys(data for data, _ in self._records)
        self.recorded_sets = sorted(recorded, key=lambda data: display_name(data) not in printed)
        self.sets = [data for data in recorded if display_name(data) in printed]
        self.methods = list(dict.fromkeys(method for _, method in self._records))
        self.rows = list(dict.fromkeys([*(key[2] for key in self._published), *self.methods]))

    def record(self, data: str, method: str) -> Record | None:
        return self._records.get((data, method))

    def of(self, method: str) -> list[Record]:
        """The records of one method, in the order of the sets."""
        return [one for data in self.recorded_sets if (one := self.record(data, method))]

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
        folder = f"data/{path.parent.name}"
        raise ValueError(f"unknown name {path.stem!r}: {folder} has {', '.join(known)}")
    return path


def _numbers(column: tuple[str, ...]) -> list[float] | None:
    """The column as numbers, or ``None`` if a cell is none."""
    try:
        return [float(cell) for cell in column]
    except ValueError:
        return None
