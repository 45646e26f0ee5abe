"""What can go wrong with a data file, and how it is said."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


class DatasetError(RuntimeError):
    """A data set cannot be used; the message names the file and the remedy."""


class DatasetUnavailable(DatasetError):
    """A file is not on this machine and could not be downloaded."""


class DatasetCorrupt(DatasetError):
    """A file is there, but it is not what its name says: wrong hash, truncated, wrong layout."""


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn whatever a parser trips over into one ``DatasetCorrupt`` that names the file.

    The parsers of gzip, tar, npz and mat files raise a dozen unrelated exceptions on a truncated
    file; for the person in front of it they all mean the same.
    """
    try:
        yield
    except (DatasetError, MemoryError):
        raise
    except Exception as error:
        reason = str(error) or "it ends too early"
        raise DatasetCorrupt(
            f"cannot read {path}: {reason} ({type(error).__name__}).\n"
            "  The file is damaged or of another layout: move it away and fetch it again."
        ) from error


def unknown(what: str, got: object, known: Iterable[str]) -> ValueError:
    """The error for a name that is not one of ``known``: it lists them and guesses the nearest."""
    by_lower = {choice.lower(): choice for choice in known}
    close = difflib.get_close_matches(str(got).lower(), by_lower, n=1, cutoff=0.5)
    hint = f" Did you mean {by_lower[close[0]]!r}?" if close else ""
    return ValueError(f"unknown {what} {got!r}.{hint} Known: {', '.join(by_lower.values())}.")
