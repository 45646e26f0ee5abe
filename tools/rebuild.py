"""Execute, clean and guard the lessons; with ``check``, say whether that would change them."""

from __future__ import annotations

import difflib
import time
from copy import deepcopy
from pathlib import Path

from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

from tools import address, generated, guards, metadata, notebook, timing


def rebuild_lesson(
    path: Path, check: bool = False, cell_timeout_s: int = 180
) -> tuple[list[str], float]:
    """Rebuild one lesson; with ``check``, compare with the file and leave it alone.

    Returns what is wrong (empty if nothing is) and the seconds that execution took. A lesson with
    anything wrong, or one that stops with an error, is not written.
    """
    stored = notebook.read(path)
    began = time.perf_counter()
    fresh = deepcopy(stored)
    if not path.name.startswith("90"):
        address.fill_first_cell(fresh)
    try:
        fresh = notebook.clean(notebook.execute(fresh, cell_timeout_s))
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
        return [f"{path.name} stopped: {error}"], time.perf_counter() - began
    seconds = time.perf_counter() - began
    if not path.name.startswith("90"):
        timing.fill(fresh)
        metadata.fill_title(fresh, path.stem)
    generated.fill(fresh)
    wrong = guards.problems(fresh, path)
    before, after = path.read_text(encoding="utf-8"), notebook.text(fresh)
    if check and before != after:
        wrong += [f"{path.name}: rebuilding changes it", *_difference(before, after)]
    if not check and not wrong and before != after:
        notebook.write(path, after)
    return wrong, seconds


def _difference(before: str, after: str, most: int = 12) -> list[str]:
    lines = [*difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)]
    return [f"    {line[:110]}" for line in lines[:most] + ["…"] * (len(lines) > most)]
