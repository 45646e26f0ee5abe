"""Find a data file, or download it: ``BDL_DATA_DIR``, ``data/``, the cache, the network.

The first two folders belong to the user: a file there with a wrong hash is an error and is left
alone. The cache belongs to the package: a damaged file there is replaced by a download.
"""

import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pooch
from pooch.hashes import hash_matches

from bdl_lessons.core.files import DATA

TIMEOUT_S = (10, 20)
"""The longest wait for a connection, and for the next bytes."""


class DatasetError(RuntimeError):
    """A data set cannot be used; the message names the file and the remedy."""


@dataclass(frozen=True)
class Source:
    """Where the files of a data set come from.

    Attributes:
        folder: of its files, below ``BDL_DATA_DIR``, ``data/`` and the cache.
        title: what it holds, with the licence and the citation; without an address, whence it came.
        files: name to SHA-256 of the official file, or ``"md5:…"`` where only that is published.
        addresses: folders on the network that have each of the files.
    """

    folder: str
    title: str
    files: Mapping[str, str]
    addresses: tuple[str, ...] = ()


def fetch(source: Source, name: str) -> Path:
    """The path of one file of a data set, its hash checked; downloads it if need be.

    Raises DatasetError if the file is nowhere and cannot be downloaded, has a wrong hash in
    ``BDL_DATA_DIR`` or ``data/``, or if ``BDL_DATA_DIR`` names no folder.
    """
    expected = source.files[name]
    user_folder = _user_folder()
    for root in (user_folder, DATA):
        if root is None:
            continue
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
    return _download(source, name, path, by_hand=(user_folder or DATA) / source.folder)


def _user_folder() -> Path | None:
    """What ``BDL_DATA_DIR`` names, if it is set; DatasetError if that is no folder."""
    value = os.environ.get("BDL_DATA_DIR")
    if not value:
        return None
    folder = Path(os.path.expanduser(value))
    if not folder.is_dir():
        raise DatasetError(
            f"BDL_DATA_DIR is {value!r}, which is not a folder.\n"
            "  Set it to the folder that holds the data sets (mnist/, uci/, ...), or unset it."
        )
    return folder


def _download(source: Source, name: str, path: Path, by_hand: Path) -> Path:
    """The file from the first address that has it, at ``path``.

    Raises DatasetError with what went wrong at each address; ``by_hand`` is the folder for a file
    that comes another way.
    """
    downloader = pooch.HTTPDownloader(progressbar=sys.stderr.isatty(), timeout=TIMEOUT_S)
    reasons = []
    for address in source.addresses * 2:  # a server in trouble is asked again
        try:  # pooch writes to another name and renames when the hash is right: no half file
            return Path(
                pooch.retrieve(
                    address + name,
                    known_hash=source.files[name],
                    fname=name,
                    path=path.parent,
                    downloader=downloader,
                )
            )
        except (OSError, ValueError) as error:  # no connection, 404, a full disk; a wrong hash
            reasons.append(f"{address + name}: {error}")
            time.sleep(1)
    each_reason_once = "\n  ".join(dict.fromkeys(reasons))
    raise DatasetError(
        f"{name} of {source.title} is not on this machine.\n  {each_reason_once}\n"
        f"  By hand: put it, unchanged, into {by_hand} or {path.parent}\n"
        f"  Expected hash: {source.files[name]}"
    )
