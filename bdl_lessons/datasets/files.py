"""What the registry knows about a file and about a data set."""

from __future__ import annotations

from dataclasses import dataclass

from bdl_lessons.datasets.errors import unknown


@dataclass(frozen=True)
class RemoteFile:
    """One file: its name, where it can be had, and the hashes it must have.

    ``unpacked_hash`` is the hash of the content of a ``.gz`` file; where it is given, the unpacked
    file (same name without ``.gz``) is accepted as well.
    """

    name: str
    urls: tuple[str, ...] = ()
    hash: str | None = None
    unpacked_hash: str | None = None

    def on_disk(self) -> list[tuple[str, str | None]]:
        """The names under which the file is accepted, each with the hash expected of it."""
        names = [(self.name, self.hash)]
        if self.unpacked_hash is not None:
            names.append((self.name.removesuffix(".gz"), self.unpacked_hash))
        return names


@dataclass(frozen=True)
class Entry:
    """One data set. ``folder`` is its place below ``BDL_DATA_DIR``, ``data/`` and the cache.

    ``source`` says where a set without any address comes from; ``download_mb`` is what fetching
    costs (0: nothing is downloaded).
    """

    name: str
    title: str
    licence: str
    citation: str
    folder: str = ""
    files: tuple[RemoteFile, ...] = ()
    source: str = ""
    download_mb: float = 0

    def file(self, name: str) -> RemoteFile:
        """The file called ``name``; ``ValueError`` if the set has none of that name."""
        by_name = {file.name: file for file in self.files}
        if name not in by_name:
            raise unknown(f"file of {self.name}", name, by_name)
        return by_name[name]
