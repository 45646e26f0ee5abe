"""Recording what was measured: a line of ``data/results/<name>.jsonl`` for each finished trial.

A line is written whole, under a lock, and flushed to disk before the lock is released. A process
that dies while writing leaves at most one line without an end; reading ignores it and the next
append removes it. A line holds a digest of itself: what was changed on the way is not read.
"""

from __future__ import annotations

import json
import os
import platform
import tempfile
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock
from torch import Tensor

from bdl_lessons.core.devices import float64
from bdl_lessons.core.validation import typechecked
from bdl_lessons.datasets.records import (
    RESULTS_FOLDER,
    Record,
    check_numbers,
    parse_records,
    record_digest,
    trial_key,
)
from reproductions.machine import gpu_facts

SCALES = ("quick", "paper")
"""``"quick"``: seconds, to see that everything works. ``"paper"``: the published architecture."""


@typechecked
def records_path(name: str, scale: str, folder: Path = RESULTS_FOLDER) -> Path:
    """File of the records of an experiment; quick ones are kept apart from measured ones.

    Raises:
        ValueError: if there is no such scale.
    """
    if scale not in SCALES:
        raise ValueError(f"scale must be one of {', '.join(SCALES)}, got {scale!r}")
    return (folder if scale == "paper" else folder / scale) / f"{name}.jsonl"


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
        ValueError: if there is no metric, or a metric or an array holds something else than finite
            numbers; the message names it.
    """
    record = {
        "experiment": experiment,
        "scale": scale,
        "key": trial_key(config, seed),
        "config": dict(config),
        "seed": seed,
        "metrics": dict(metrics),
        "arrays": dict(arrays or {}),
        "seconds": round(seconds, 1),
        "device": _describe(device),
        "threads": torch.get_num_threads(),
        "versions": _versions() | gpu_facts(device),
    }
    check_numbers(record)
    return record | {"digest": record_digest(record)}


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
        content = file.read()
        records, length = parse_records(path, content)
        if any(known["key"] == record["key"] for known in records):
            return False
        file.truncate(length)
        if records and content[length - 1 : length] != b"\n":  # all but the end of its line
            line = b"\n" + line
        file.write(line)
        file.flush()
        os.fsync(file.fileno())
    return True


def require_writable(path: Path) -> None:
    """Raise ValueError unless files can be written beside ``path``: found by writing one."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent) as file:
            file.write(bytes(2**20))  # more than many records: a full disk refuses it
    except OSError as error:
        raise ValueError(f"nothing can be written to {path}: {error}") from error


def rounded(values: Tensor, digits: int) -> list:
    """The nested list of a tensor for the arrays of a record, to ``digits`` decimal places."""
    return float64(values).round(decimals=digits).tolist()


def _describe(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def _versions() -> dict[str, str]:
    try:
        package = version("bdl-lessons")
    except PackageNotFoundError:
        package = "not installed"
    return {"python": platform.python_version(), "torch": torch.__version__, "bdl_lessons": package}
