"""Where the repository keeps its files, and files that are written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "data"
NOTEBOOKS = ROOT / "notebooks"


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A binary file to write to, which takes the place of ``path`` when the block ends.

    A reader sees the old content or the new one, never half of it. If the block raises, ``path``
    stays as it was and nothing is left behind.
    """
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.unfinished")
    try:
        with unfinished.open("wb") as file:
            yield file
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
