"""Which data sets are on this machine, and how to get the others. Lesson 00."""

from __future__ import annotations

from dataclasses import dataclass

from bdl_lessons.core.validation import typechecked
from bdl_lessons.datasets.errors import DatasetError
from bdl_lessons.datasets.fetch import cache_dir, find_in, place_by_hand, user_roots
from bdl_lessons.datasets.registry import entry, names


@dataclass(frozen=True)
class Status:
    """One data set on this machine.

    ``where`` is ``"scikit-learn"``, ``"BDL_DATA_DIR"``, ``"data/"``, ``"cache"``, several of them,
    or ``""``. ``missing`` names the absent files, ``remedy`` says what to do (``""``: nothing).
    """

    name: str
    title: str
    found: bool
    where: str
    missing: tuple[str, ...]
    remedy: str


@typechecked
def info(name: str) -> Status:
    """Whether a data set is here. Looks at file names only: no hashing, no network, no error.

    Raises:
        ValueError: if there is no such data set.
    """
    item = entry(name)
    if not item.files:
        return Status(name, item.title, True, "scikit-learn", (), "")
    try:
        roots, remedy = {**user_roots(), "cache": cache_dir()}, ""
    except DatasetError as error:  # BDL_DATA_DIR names no folder
        roots, remedy = {}, str(error)
    places = {
        file.name: next((k for k, root in roots.items() if find_in(root / item.folder, file)), "")
        for file in item.files
    }
    missing = tuple(name for name, place in places.items() if not place)
    if missing and not remedy:
        remedy = f"put {', '.join(missing)} into {place_by_hand(item)}"
        if all(item.file(file).urls for file in missing):
            remedy = f"nothing to do: up to {item.download_mb:g} MB on first use; or {remedy}"
        elif item.source:
            remedy = f"{item.source}; or {remedy}"
    where = ", ".join(dict.fromkeys(filter(None, places.values())))
    return Status(name, item.title, not missing, where, missing, remedy)


def status() -> list[Status]:
    """``info`` of every data set, in the order of the registry."""
    return [info(name) for name in names()]
