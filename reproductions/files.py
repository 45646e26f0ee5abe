"""Files that are written whole or not at all, and files that know when they are damaged."""

import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

_DIGEST = hashlib.sha256().digest_size


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A binary file to write to, which takes the place of ``path`` when the block ends.

    A reader sees the old content or the new one, never half of it. If the block raises, ``path``
    stays as it was and nothing is left behind.
    """
    for left in path.parent.glob(f"{path.name}.*.unfinished"):
        if time.time() - left.stat().st_mtime > 3600:  # of a process that was killed
            left.unlink(missing_ok=True)
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
    digest = whole[:_DIGEST]
    content = whole[_DIGEST:]
    return content if hashlib.sha256(content).digest() == digest else None
