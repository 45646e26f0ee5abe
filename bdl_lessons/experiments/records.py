"""Measured results: one JSON line a finished unit, appended to ``data/results/<name>.jsonl``.

A line is written whole, under a lock, and flushed to disk before the lock is released. A process
that dies while writing leaves at most one line without an end; reading ignores it and the next
append removes it.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, BinaryIO

import torch
from filelock import FileLock

from bdl_lessons.core.files import DATA

RESULTS_FOLDER = DATA / "results"

Record = dict[str, Any]


def trial_key(config: Mapping[str, Any], seed: int) -> str:
    """16 hex digits that name a unit: the hash of its configuration and seed as canonical JSON.

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
    """What one unit leaves behind: what was run, what came out, how long it took, and on what.

    Args:
        metrics: name -> finite number.
        arrays: name -> nested list of finite numbers, e.g. a curve for a figure.
        seconds: wall time of the unit.

    Raises:
        ValueError: if a metric or an array holds NaN or infinity; the message names it.
    """
    arrays = arrays or {}
    for name, value in (*metrics.items(), *arrays.items()):
        if not all(math.isfinite(number) for number in _numbers(value)):
            raise ValueError(f"{name} is not finite: a unit that failed is not recorded")
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
        "versions": _versions(),
    }


def append_record(path: Path, record: Record) -> bool:
    """Add one record to the file; ``False`` if its unit is already there.

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


def load_records(path: Path) -> list[Record]:
    """The records of a file in the order in which they were added; none if there is no file.

    Raises:
        ValueError: if a line other than an unfinished last one is not a record.
    """
    return _parse(path, path.read_bytes())[0] if path.exists() else []


def _parse(path: Path, content: bytes) -> tuple[list[Record], int]:
    """The records, and how many bytes of the content belong to them."""
    records, length = [], 0
    for number, line in enumerate(content.splitlines(keepends=True), start=1):
        try:
            record = json.loads(line)
            record["key"], record["config"], record["metrics"]
        except (ValueError, TypeError, KeyError) as error:
            if length + len(line) == len(content) and not line.endswith(b"\n"):
                break  # the process that wrote it died
            raise ValueError(f"{path}, line {number} is not a record: {line[:60]!r}") from error
        records.append(record)
        length += len(line)
    return records, length


def _ends_within_line(file: BinaryIO, length: int) -> bool:
    """Whether the last record is complete but for the end of its line."""
    if length == 0:
        return False
    file.seek(length - 1)
    return file.read(1) != b"\n"


def _numbers(value: Any) -> Iterator[float]:
    if isinstance(value, list):
        for part in value:
            yield from _numbers(part)
    else:
        yield value


def _describe(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def _versions() -> dict[str, str]:
    try:
        package = version("bdl-lessons")
    except PackageNotFoundError:
        package = "not installed"
    return {"python": platform.python_version(), "torch": torch.__version__, "bdl_lessons": package}
