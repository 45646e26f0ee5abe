"""Read members of a ``.tar.gz`` without ever unpacking it to disk, and arrays of an ``.npz``."""

from __future__ import annotations

import tarfile
from pathlib import Path

import numpy as np

from bdl_lessons.datasets.errors import reading


def read_members(path: Path, wanted: dict[str, int]) -> dict[str, bytes]:
    """The content of the wanted members of a ``.tar.gz`` file.

    Nothing is written, so a member called ``../../x`` or a link can do no harm: only regular files
    of exactly the wanted names are read, and none above its largest size. Reading stops at the
    last wanted member (what follows in STL-10 are 2.7 GB of unlabelled images).

    Args:
        path: the archive.
        wanted: member name -> largest size in bytes that is accepted.

    Raises:
        DatasetCorrupt: if the archive is truncated, a member is missing, too large or no file.
    """
    found: dict[str, bytes] = {}
    with reading(path), tarfile.open(path, "r|gz") as archive:
        for member in archive:
            name = member.name.removeprefix("./")
            if name not in wanted:
                continue
            if not member.isreg() or member.size > wanted[name]:
                raise ValueError(f"{name} is not a file of at most {wanted[name]} bytes")
            found[name] = archive.extractfile(member).read()
            if found.keys() == wanted.keys():
                return found
        raise ValueError(f"it has no {', '.join(sorted(wanted.keys() - found.keys()))}")


def read_records(content: bytes, record: int, path: Path) -> np.ndarray:
    """A file of fixed-length records as a uint8 array ``(N, record)``."""
    with reading(path):
        if len(content) % record:
            raise ValueError(f"{len(content)} bytes are not a whole number of {record}-byte rows")
        return np.frombuffer(content, np.uint8).reshape(-1, record)


def read_npz(path: Path, dtypes: dict[str, type]) -> list[np.ndarray]:
    """The named arrays of an ``.npz`` file, each of the dtype given; pickled objects are refused.

    Raises:
        DatasetCorrupt: if the file is truncated, or an array is missing or of another dtype.
    """
    with reading(path), np.load(path, allow_pickle=False) as archive:
        arrays = [archive[name] for name in dtypes]
        for array, (name, dtype) in zip(arrays, dtypes.items(), strict=True):
            if array.dtype != dtype:
                raise ValueError(f"{name} should be {dtype.__name__}, is {array.dtype}")
        return arrays
