"""Files that are written whole or not at all, and files that know when they are damaged."""

import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

_DIGEST_LENGTH = hashlib.sha256().digest_size  # bytes


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A binary file to write to, which takes the place of ``path`` when the block ends.

    A reader sees the old content or the new one, never half of it. If the block raises, ``path``
    stays as it was and nothing is left behind.
    """
    for leftover in path.parent.glob(f"{path.name}.*.unfinished"):
        age = time.time() - leftover.stat().st_mtime
        if age > 3600:  # seconds: it is of a process that was killed
            leftover.unlink(missing_ok=True)
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.unfinished")
    try:
        with unfinished.open("wb") as file:
            yield file
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def write_checked(path: Path, content: bytes | memoryview) -> None:
    """Put the SHA-256 of ``content``, then ``content``, into a file and onto the disk."""
    with replacing(path) as file:
        file.write(hashlib.sha256(content).digest())
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def read_checked(path: Path) -> memoryview | None:
    """What :func:`write_checked` put into the file; ``None`` if these are not its bytes."""
    whole = memoryview(path.read_bytes())
    digest = whole[:_DIGEST_LENGTH]
    content = whole[_DIGEST_LENGTH:]
    if hashlib.sha256(content).digest() != digest:
        return None
    return content
