"""Recording what was measured: a line of ``data/results/<name>.jsonl`` for each finished trial.

A line is written whole, under a lock, and flushed to disk before the lock is released. A process
that dies while writing leaves at most one line without an end; reading ignores it and the next
append removes it. A line holds a digest of itself: what was changed on the way is not read.
"""

import hashlib
import json
import os
import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock
from torch import Tensor

from bdl_lessons.core.devices import float64
from bdl_lessons.core.validation import one_of, typechecked
from bdl_lessons.datasets.records import RESULTS_FOLDER, Record, published_table, where
from reproductions.experiment import Trial, TrialResult

SCALES = ("quick", "paper")
"""``"quick"``: seconds, to see that everything works. ``"paper"``: the published architecture."""


@typechecked
def records_path(name: str, scale: str, folder: Path | str = RESULTS_FOLDER) -> Path:
    """File of the records of an experiment; quick ones are kept apart from measured ones.

    Raises ValueError if there is no such scale.
    """
    one_of("scale", scale, SCALES)
    return Path(folder, "" if scale == "paper" else scale, f"{name}.jsonl")


def trial_key(config: Mapping[str, Any], seed: int) -> str:
    """16 hex digits that name a trial: the hash of its configuration and seed as canonical JSON.

    The order of the entries does not matter; any change of a value does. Raises TypeError if the
    configuration holds something that JSON cannot, ValueError if it holds NaN or infinity.
    """
    return _hash({"config": config, "seed": seed})


def make_record(
    experiment: str, scale: str, trial: Trial, result: TrialResult, seconds: float, on: torch.device
) -> Record:
    """What was run, what came out, its wall time in seconds, and on what.

    Raises ValueError if a metric or a number in an array is not finite.
    """
    versions = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "bdl_lessons": _package_version(),
        **gpu_facts(on),
    }
    record = {
        "experiment": experiment,
        "scale": scale,
        "key": trial_key(trial.config, trial.seed),
        "config": dict(trial.config),
        "seed": trial.seed,
        "metrics": dict(result.metrics),
        "arrays": dict(result.arrays),
        "seconds": round(seconds, 1),
        "device": torch.cuda.get_device_name(on) if on.type == "cuda" else on.type,
        "threads": torch.get_num_threads(),
        "versions": versions,
    }
    try:
        record["digest"] = _digest(record)
    except ValueError:
        raise ValueError("a metric is not finite: a trial that failed is not recorded") from None
    return record


def read_records(path: Path) -> list[Record]:
    """The records of a file in the order in which they were added; none if there is no file.

    Raises ValueError if a line other than an unfinished last one is not a record of this
    experiment, as it was written, of a trial that no line before it has.
    """
    try:
        return _parse(path, path.read_bytes())
    except FileNotFoundError:
        return []


def append_record(path: Path, record: Record) -> bool:
    """Add one record to the file; ``False`` if its trial is already there.

    Safe against other processes that append to the same file, and against one that died in the
    middle of a line: that line is cut off first. Raises ValueError as :func:`read_records` does.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_suffix(".lock")), path.open("a+b") as file:
        file.seek(0)
        content = file.read()
        if any(known["key"] == record["key"] for known in _parse(path, content)):
            return False
        file.truncate(content.rfind(b"\n") + 1)
        file.write(json.dumps(record).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
    return True


def gpu_facts(on: torch.device) -> dict[str, Any]:
    """What of a CUDA device may change results: its driver, libraries and TF32; else nothing."""
    if on.type != "cuda":
        return {}
    return {
        "driver": _driver_version(),
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
        "tf32": {
            "products": torch.backends.cuda.matmul.allow_tf32,
            "convolutions": torch.backends.cudnn.allow_tf32,
        },
    }


def rounded(values: Tensor, digits: int) -> list:
    """The nested list of a tensor for the arrays of a record, to ``digits`` decimal places."""
    return float64(values).round(decimals=digits).tolist()


def metric(records: Iterable[Record], name: str) -> list[float]:
    """One of the metrics of each record."""
    return [record["metrics"][name] for record in records]


def longest(records: Sequence[Record], name: str) -> list[Record]:
    """Those that were trained longest: with the most of ``name``, such as ``"n_steps"``."""
    most = max(record["config"][name] for record in records)
    return where(records, **{name: most})


def published_by(column: str, name: str) -> dict[str, dict[str, Any]]:
    """The rows of a published table by what stands in one of its columns."""
    return {row[column]: row for row in published_table(name)}


def _package_version() -> str:
    """The version of the course that is installed."""
    for distribution in distributions(name="bdl-lessons"):
        return distribution.version
    return "not installed"


def _driver_version() -> str:
    """The version of the NVIDIA driver, as its kernel module tells it."""
    path = Path("/proc/driver/nvidia/version")
    if not path.exists():
        return "unknown"
    match = re.search(r"Module\D*([\d.]+)", path.read_text())
    return match[1] if match else "unknown"


def _parse(path: Path, content: bytes) -> list[Record]:
    """The records in a file's content; the process that wrote a line without an end died."""
    records: dict[str, Record] = {}
    whole_lines = content[: content.rfind(b"\n") + 1].splitlines()
    for number, line in enumerate(whole_lines, start=1):
        try:
            record = json.loads(line)
            as_written = record["digest"] == _digest(record)
            is_new = record["key"] not in records
        except (TypeError, KeyError, ValueError):
            as_written = False
        if not (as_written and is_new and record["experiment"] == path.stem):
            raise ValueError(
                f"{path}, line {number} is not a record of {path.stem} as it was written, of a "
                f"trial that no line before it has: {line[:60]!r}"
            )
        records[record["key"]] = record
    return list(records.values())


def _digest(record: Record) -> str:
    """The hash of all entries but ``"digest"``."""
    return _hash({name: value for name, value in record.items() if name != "digest"})


def _hash(entries: Mapping[str, Any]) -> str:
    """16 hex digits of the SHA-256 of the entries as canonical JSON."""
    canonical = json.dumps(entries, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]
