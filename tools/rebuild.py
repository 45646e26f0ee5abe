"""Execute, render, clean and guard the lessons."""

from __future__ import annotations

import time
from pathlib import Path

from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

from tools import address, guards, metadata, notebook, render


def rebuild_lesson(path: Path) -> tuple[list[str], float]:
    """Rebuild one lesson.

    Returns what is wrong (empty if nothing is) and the seconds that execution took. A lesson with
    anything wrong, or one that stops with an error, is not written.
    """
    fresh = notebook.read(path)
    began = time.perf_counter()
    if not metadata.Lesson(path).is_index:
        address.fill_first_cell(fresh)
    try:
        fresh = notebook.clean(notebook.execute(fresh))
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
        return [f"{path.name} stopped: {error}"], time.perf_counter() - began
    seconds = time.perf_counter() - began
    render.fill(fresh, path)
    wrong = guards.problems(fresh, path)
    if not wrong:
        notebook.write(path, notebook.text(fresh))
    return wrong, seconds


def render_lesson(path: Path) -> list[str]:
    """Write what is rendered into a stored lesson without executing it; say what is then wrong."""
    stored = notebook.read(path)
    render.fill(stored, path)
    notebook.write(path, notebook.text(stored))
    return guards.problems(stored, path)
