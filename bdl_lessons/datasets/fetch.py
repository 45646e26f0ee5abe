"""Find a data file, or download it: ``BDL_DATA_DIR``, ``data/``, the cache, the network.

The first two folders belong to the user: a file there with a wrong hash is an error and is left
alone. The cache belongs to the package: a damaged file there is replaced by a download.
"""

from __future__ import annotations

import functools
import hashlib
import os
from pathlib import Path

from bdl_lessons.core.files import DATA
from bdl_lessons.datasets.download import download
from bdl_lessons.datasets.errors import DatasetCorrupt, DatasetUnavailable, reading
from bdl_lessons.datasets.registry import Entry, RemoteFile, entry

REPOSITORY_DATA = DATA


def fetch(dataset: str, file_name: str) -> Path:
    """The path of one file of a data set, its hash checked; downloads it if need be.

    Args:
        dataset: a name of the registry, e.g. ``"mnist"``.
        file_name: one of its files, e.g. ``"t10k-labels-idx1-ubyte.gz"``; the path may end without
            ``.gz`` if the user has put the unpacked file there.

    Raises:
        DatasetUnavailable: if it is nowhere and cannot be downloaded (no network, 404, a download
            with a wrong hash or beyond the limits, a cache folder one cannot write to), or if
            ``BDL_DATA_DIR`` names no folder.
        DatasetCorrupt: if the file in ``BDL_DATA_DIR`` or ``data/`` has a wrong hash.
        ValueError: if the data set is unknown, or has no such file.
    """
    item = entry(dataset)
    file = item.file(file_name)
    for root in user_roots().values():
        found = find_in(root / item.folder, file)
        if found:
            path, expected = found
            if _hash(path, expected) != expected:
                raise DatasetCorrupt(_wrong_hash(path, expected))
            return path
    cached = find_in(cache_dir() / item.folder, file)
    if cached and _hash(*cached) == cached[1]:
        return cached[0]
    return _download(item, file)


def user_roots() -> dict[str, Path]:
    """The folders that belong to the user, in the order in which they are searched.

    Raises:
        DatasetUnavailable: if ``BDL_DATA_DIR`` is set but names no folder.
    """
    named = os.environ.get("BDL_DATA_DIR", "")
    if not named:
        return {"data/": REPOSITORY_DATA}
    folder = Path(named).expanduser()
    if not folder.is_dir():
        raise DatasetUnavailable(
            f"BDL_DATA_DIR is {named!r}, which is not a folder.\n"
            "  Set it to the folder that holds the data sets (mnist/, uci/, ...), or unset it."
        )
    return {"BDL_DATA_DIR": folder, "data/": REPOSITORY_DATA}


def cache_dir() -> Path:
    """The user's cache folder, e.g. ``~/.cache/bdl_lessons``; nothing is created."""
    import pooch

    return Path(pooch.os_cache("bdl_lessons"))


def find_in(folder: Path, file: RemoteFile) -> tuple[Path, str] | None:
    """The file in this folder and the hash expected of it, or ``None`` if it is not there."""
    for name, expected in file.on_disk():
        if (folder / name).is_file():
            return folder / name, expected
    return None


def place_by_hand(item: Entry) -> str:
    """The folders in which a file of this set may be put by hand, in words."""
    named = os.environ.get("BDL_DATA_DIR", "")
    base = Path(named).expanduser() / item.folder if named else f"$BDL_DATA_DIR/{item.folder}"
    return f"{base} or {cache_dir() / item.folder}"


def _download(item: Entry, file: RemoteFile) -> Path:
    if not file.urls:
        raise _unavailable(item, file, [item.source])
    import filelock

    folder = cache_dir() / item.folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # One process at a time downloads; the others wait here and then find the file.
        with filelock.FileLock(folder / ".lock"):
            for leftover in folder.glob("tmp????????"):  # pooch's name for a half-written file
                leftover.unlink()
            path, troubles = download(file, folder, item.max_bytes)
    except OSError as error:
        trouble = f"cannot write to the cache folder {folder}: {error}"
        raise _unavailable(item, file, [trouble]) from error
    if path is None:
        raise _unavailable(item, file, troubles)
    return path


def _unavailable(item: Entry, file: RemoteFile, troubles: list[str]) -> DatasetUnavailable:
    cached = find_in(cache_dir() / item.folder, file)
    lines = [f"{item.name}: the file {file.name!r} is not on this machine"]
    if cached:
        lines = [f"{item.name}: no usable {file.name!r}. {_wrong_hash(*cached)}"]
    lines += [f"  {trouble}" for trouble in troubles]
    if file.urls:
        lines += ["  Official addresses:", *(f"    {url}" for url in file.urls)]
    lines += [
        f"  By hand: put it, unchanged, into {place_by_hand(item)}",
        f"  Expected hash: {file.hash}",
    ]
    return DatasetUnavailable("\n".join(lines))


def _wrong_hash(path: Path, expected: str) -> str:
    return (
        f"{path} is not the official file:\n"
        f"  expected {expected}\n"
        f"  found    {_hash(path, expected)}\n"
        "  It was probably cut off or altered on its way. It has been left as it is: replace it by "
        "a fresh copy, or move it away to let the package download one."
    )


def _hash(path: Path, like: str) -> str:
    algorithm = like.partition(":")[0]
    status = path.stat()
    return f"{algorithm}:{_digest(path, algorithm, status.st_size, status.st_mtime_ns)}"


@functools.lru_cache(maxsize=256)
def _digest(path: Path, algorithm: str, size: int, mtime_ns: int) -> str:
    """Hash once per process and version of the file: STL-10 is 2.6 GB."""
    with reading(path), path.open("rb") as stream:
        return hashlib.file_digest(stream, algorithm).hexdigest()
