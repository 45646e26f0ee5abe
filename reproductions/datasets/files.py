"""Find a data file, or download it: ``BDL_DATA_DIR``, ``data/``, the cache, the network.

The first two folders belong to the user: a file there with a wrong hash is an error and is left
alone. The cache belongs to the package: a damaged file there is replaced by a download.
"""

import os
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pooch
from pooch.hashes import hash_matches

from bdl_lessons.core.files import DATA

ROUNDS = 2
"""How often the addresses of a file are tried, a second apart."""
TIMEOUT_S = (10, 20)
"""The longest wait for a connection, and for the next bytes."""


class DatasetError(RuntimeError):
    """A data set cannot be used; the message names the file and the remedy."""


@dataclass(frozen=True)
class Source:
    """Where the files of a data set come from.

    Attributes:
        folder: of its files, below ``BDL_DATA_DIR``, ``data/`` and the cache.
        title: what it holds, with the licence and the citation.
        files: name to hash of the official file, ``"sha256:…"``, or ``"md5:…"`` where only that is
            published.
        addresses: folders on the network that have each of the files.
        note: where a set without any address comes from.
    """

    folder: str
    title: str
    files: Mapping[str, str]
    addresses: tuple[str, ...] = ()
    note: str = ""


def fetch(source: Source, name: str) -> Path:
    """The path of one file of a data set, its hash checked; downloads it if need be.

    Raises DatasetError if the file is nowhere and cannot be downloaded, has a wrong hash in
    ``BDL_DATA_DIR`` or ``data/``, or if ``BDL_DATA_DIR`` names no folder.
    """
    expected = source.files[name]
    for root in _user_folders():
        path = root / source.folder / name
        if path.is_file():
            if not hash_matches(path, expected):
                raise DatasetError(
                    f"{path} is not the official file, whose hash is {expected}.\n"
                    "  It was probably cut off or altered on its way. Replace it by a fresh copy, "
                    "or move it away to let the package download one."
                )
            return path
    path = Path(pooch.os_cache("bdl_lessons")) / source.folder / name
    if path.is_file() and hash_matches(path, expected):
        return path
    return _download(source, path, expected)


def _user_folders() -> Iterator[Path]:
    named = os.environ.get("BDL_DATA_DIR", "")
    if named:
        folder = Path(os.path.expanduser(named))  # the name of no user stays as it is
        if not folder.is_dir():
            raise DatasetError(
                f"BDL_DATA_DIR is {named!r}, which is not a folder.\n"
                "  Set it to the folder that holds the data sets (mnist/, uci/, ...), or unset it."
            )
        yield folder
    yield DATA


def _download(source: Source, path: Path, expected: str) -> Path:
    """Try the addresses in turn. pooch writes to another name and renames when the hash is right,
    so that what was cut off, and two processes at once, leave no half file.
    """
    get = pooch.HTTPDownloader(progressbar=sys.stderr.isatty(), timeout=TIMEOUT_S)
    troubles = {"": source.note} if source.note else {}
    for attempt in range(ROUNDS if source.addresses else 0):
        time.sleep(attempt)
        for url in (address + path.name for address in source.addresses):
            try:
                return Path(pooch.retrieve(url, expected, path.name, path.parent, downloader=get))
            except (OSError, ValueError) as error:  # no connection, 404, a full disk; a wrong hash
                troubles[url] = f"{url}: {error}"
    folder = Path(os.environ.get("BDL_DATA_DIR") or "$BDL_DATA_DIR") / source.folder
    reasons = "\n  ".join(troubles.values())
    raise DatasetError(
        f"{path.name} of {source.title} is not on this machine.\n  {reasons}\n"
        f"  By hand: put it, unchanged, into {folder} or {path.parent}\n"
        f"  Expected hash: {expected}"
    )
