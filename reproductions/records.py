"""Measured results: one JSON line a finished trial, appended to ``data/results/<name>.jsonl``.

A line is written whole, under a lock, and flushed to disk before the lock is released. A process
that dies while writing leaves at most one line without an end; reading ignores it and the next
append removes it.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import tempfile
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, BinaryIO

import torch
from filelock import FileLock
from torch import Tensor

from bdl_lessons.core.device import float64, gpu_facts
from bdl_lessons.core.files import DATA, IS_INSTALLED
from bdl_lessons.core.validation import typechecked

RESULTS_FOLDER = Path("results") if IS_INSTALLED else DATA / "results"
SCALES = ("quick", "paper")
"""``"quick"``: seconds, to see that everything works. ``"paper"``: the published architecture."""

Record = dict[str, Any]


@typechecked
def records_path(name: str, scale: str, folder: Path = RESULTS_FOLDER) -> Path:
    """File of the records of an experiment; quick ones are kept apart from measured ones.

    Raises:
        ValueError: if there is no such scale.
    """
    if scale not in SCALES:
        raise ValueError(f"scale must be one of {', '.join(SCALES)}, got {scale!r}")
    return (folder if scale == "paper" else folder / scale) / f"{name}.jsonl"


def trial_key(config: Mapping[str, Any], seed: int) -> str:
    """16 hex digits that name a trial: the hash of its configuration and seed as canonical JSON.

    The order of the entries does not matter; any change of a value does.

    Raises:
        TypeError: if the configuration holds something that JSON cannot.
        ValueError: if it holds NaN or infinity.
    """
    canonical = json.dumps(
        {"config": config, "seed": seed}, sort_keys=True, separators=(",", ":"), allow_nan=False
    )
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def make_record(
    experiment: str,
    scale: str,
    config: Mapping[str, Any],
    seed: int,
    metrics: Mapping[str, float],
    *,
    arrays: Mapping[str, list] | None = None,
    seconds: float,
    device: torch.device,
) -> Record:
    """Record of one trial: what was run, what came out, how long it took, and on what.

    Args:
        metrics: name -> finite number.
        arrays: name -> nested list of finite numbers, e.g. a curve for a figure.
        seconds: wall time of the trial.

    Raises:
        ValueError: if a metric or an array holds NaN or infinity; the message names it.
    """
    arrays = arrays or {}
    for name, value in (*metrics.items(), *arrays.items()):
        try:
            json.dumps(value, allow_nan=False)
        except ValueError as error:
            message = f"{name} is not finite: a trial that failed is not recorded"
            raise ValueError(message) from error
    return {
        "experiment": experiment,
        "scale": scale,
        "key": trial_key(config, seed),
        "config": dict(config),
        "seed": seed,
        "metrics": dict(metrics),
        "arrays": dict(arrays),
        "seconds": round(seconds, 1),
        "device": _describe(device),
        "threads": torch.get_num_threads(),
        "versions": _versions() | gpu_facts(device),
    }


def append_record(path: Path, record: Record) -> bool:
    """Add one record to the file; ``False`` if its trial is already there.

    Safe against other processes that append to the same file, and against one that died in the
    middle of a line: that line is cut off first.

    Raises:
        ValueError: if a complete line of the file is not a record, or the record holds NaN.
    """
    line = json.dumps(record, allow_nan=False).encode() + b"\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_suffix(".lock")), path.open("a+b") as file:
        file.seek(0)
        records, length = _parse(path, file.read())
        if any(known["key"] == record["key"] for known in records):
            return False
        file.truncate(length)
        if _ends_within_line(file, length):
            line = b"\n" + line
        file.write(line)
        file.flush()
        os.fsync(file.fileno())
    return True


def require_writable(path: Path) -> None:
    """Raise ValueError unless a file of records can be written at ``path``: found by writing."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            path.open("ab").close()
        with tempfile.TemporaryFile(dir=path.parent) as file:
            file.write(bytes(2**20))  # more than many records: a full disk refuses it
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise ValueError(f"no record can be written to {path}: {error}") from error


def load_records(path: Path) -> list[Record]:
    """The records of a file in the order in which they were added; none if there is no file.

    Raises:
        ValueError: if a line other than an unfinished last one is not a record, or its key is not
            that of its configuration and seed; the message names file and line.
    """
    return _parse(path, path.read_bytes())[0] if path.exists() else []


def group_by(records: Iterable[Record], *names: str) -> dict[Any, list[Record]]:
    """Records by entries of their configuration: one value, or a tuple; in the order they come."""
    groups: dict[Any, list[Record]] = {}
    for record in records:
        values = tuple(record["config"][name] for name in names)
        groups.setdefault(values if len(names) > 1 else values[0], []).append(record)
    return groups


def rounded(values: Tensor, digits: int) -> list:
    """The nested list of a tensor for the arrays of a record, to ``digits`` decimal places."""
    return float64(values).round(decimals=digits).tolist()


def _parse(path: Path, content: bytes) -> tuple[list[Record], int]:
    """The records, and how many bytes of the content belong to them."""
    records, length = [], 0
    for number, line in enumerate(content.splitlines(keepends=True), start=1):
        try:
            record = json.loads(line)
            if trial_key(record["config"], record["seed"]) != record["key"]:
                raise ValueError("the key is not that of its configuration and seed")
            record["metrics"]
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            if length + len(line) == len(content) and not line.endswith(b"\n"):
                break  # the process that wrote it died
            message = f"{path}, line {number} is not a record: {error}: {line[:60]!r}"
            raise ValueError(message) from error
        records.append(record)
        length += len(line)
    return records, length


def _ends_within_line(file: BinaryIO, length: int) -> bool:
    """Whether the last record is complete but for the end of its line."""
    if length == 0:
        return False
    file.seek(length - 1)
    return file.read(1) != b"\n"


def _describe(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def _versions() -> dict[str, str]:
    try:
        package = version("bdl-lessons")
    except PackageNotFoundError:
        package = "not installed"
    return {"python": platform.python_version(), "torch": torch.__version__, "bdl_lessons": package}
