"""Execute, clean and guard the lessons."""

from __future__ import annotations

import time
from pathlib import Path

from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

from tools import address, guards, instructor, metadata, notebook, timing


def rebuild_lesson(path: Path) -> tuple[list[str], float]:
    """Rebuild one lesson.

    Returns what is wrong (empty if nothing is) and the seconds that execution took. A lesson with
    anything wrong, or one that stops with an error, is not written.
    """
    fresh = notebook.read(path)
    began = time.perf_counter()
    taught = not path.name.startswith("90")
    if taught:
        address.fill_first_cell(fresh)
    try:
        fresh = notebook.clean(notebook.execute(fresh))
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
        return [f"{path.name} stopped: {error}"], time.perf_counter() - began
    seconds = time.perf_counter() - began
    if taught:
        timing.fill(fresh)
        metadata.fill_title(fresh, path.stem)
    for cell, text in instructor.generated(fresh):
        cell.source = text
    wrong = guards.problems(fresh, path)
    if not wrong:
        notebook.write(path, notebook.text(fresh))
    return wrong, seconds
