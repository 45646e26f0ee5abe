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
    named = os.environ.get("BDL_DATA_DIR")
    user = Path(os.path.expanduser(named)) if named else None
    if user and not user.is_dir():
        raise DatasetError(
            f"BDL_DATA_DIR is {named!r}, which is not a folder.\n"
            "  Set it to the folder that holds the data sets (mnist/, uci/, ...), or unset it."
        )
    for root in filter(None, (user, DATA)):
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
    get = pooch.HTTPDownloader(progressbar=sys.stderr.isatty(), timeout=TIMEOUT_S)
    reasons = []
    for address in source.addresses * 2:  # a server in trouble is asked again
        try:  # pooch writes to another name and renames when the hash is right: no half file
            found = pooch.retrieve(address + name, expected, name, path.parent, downloader=get)
            return Path(found)
        except (OSError, ValueError) as error:  # no connection, 404, a full disk; a wrong hash
            reasons.append(f"{address + name}: {error}")
            time.sleep(1)
    told = "\n  ".join(dict.fromkeys(reasons))
    raise DatasetError(
        f"{name} of {source.title} is not on this machine.\n  {told}\n"
        f"  By hand: put it, unchanged, into {(user or DATA) / source.folder} or {path.parent}\n"
        f"  Expected hash: {expected}"
    )
