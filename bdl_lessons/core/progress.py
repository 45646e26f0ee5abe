"""A bar of progress for loops that a lesson writes itself."""

import os
from collections.abc import Iterable, Iterator
from typing import TypeVar

from tqdm.auto import tqdm

Item = TypeVar("Item")

_AFTER_S = 5


def progress(items: Iterable[Item]) -> Iterator[Item]:
    """The items, with a bar that appears after five seconds and leaves nothing behind.

    No bar is shown where ``TQDM_DISABLE`` is set: how long a machine takes is no result.

    Args:
        items: what the loop runs over; with a length, if the bar is to know how far it is.

    >>> [2 * number for number in progress([1, 2])]
    [2, 4]
    """
    if "TQDM_DISABLE" in os.environ:
        yield from items
    else:
        yield from tqdm(items, leave=False, delay=_AFTER_S)
