"""What an answer prints while it is graded: its beginning, and how much was left out."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator
from typing import TextIO

LINES = 100
CHARACTERS = 10_000


class BoundedOutput(io.TextIOBase):
    """A stream that passes on the first lines and characters, and counts the rest.

    Args:
        stream: where the beginning goes.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self.stream = stream
        self.lines_left = LINES
        self.characters_left = CHARACTERS
        self.dropped_lines = 0
        self.dropped_characters = 0

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        """Pass on what there is room for; returns the length of ``text``, as all streams do."""
        begin = text[: self.characters_left]
        lines = begin.splitlines(keepends=True)
        shown = "".join(lines[: self.lines_left])
        if shown:
            self.stream.write(shown)
        dropped = text[len(shown) :]
        self.lines_left -= shown.count("\n")
        self.characters_left -= len(shown)
        self.dropped_lines += dropped.count("\n")
        self.dropped_characters += len(dropped)
        return len(text)

    def flush(self) -> None:
        self.stream.flush()

    def report(self) -> None:
        """Say on the stream itself what was left out, if anything was."""
        if self.dropped_characters:
            self.stream.write(
                f"\n… the rest of what your function printed is left out: "
                f"{self.dropped_lines:,} lines, {self.dropped_characters:,} characters.\n"
            )


@contextlib.contextmanager
def bounded_output() -> Iterator[None]:
    """Bound what is printed, and what goes to the stream of errors, to 100 lines each."""
    printed = BoundedOutput(sys.stdout)
    errors = BoundedOutput(sys.stderr)
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(errors):
            yield
    finally:
        printed.report()
        errors.report()
