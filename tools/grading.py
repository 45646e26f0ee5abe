"""Submitted notebooks to a table of exercises, for classes without nbgrader.

Every notebook runs in a kernel of its own, with a limit of time for each cell and of memory. What
it raises stays in it.
"""

from __future__ import annotations

import contextlib
import csv
import re
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbformat.v4 import new_code_cell
from tqdm import tqdm

from bdl_lessons.exercises import grader

_LIMIT = """\
import contextlib
with contextlib.suppress(ImportError, ValueError, OSError):  # a system without limits
    import resource
    resource.setrlimit(resource.RLIMIT_AS, ({0}, {0}))"""
_ASK = 'from bdl_lessons.exercises.api import score\n\nscore("{}")'


def grade(path: Path, cell_seconds: int = 60, memory_gb: float = 16) -> dict[str, int | None]:
    """How many checks each answer of a notebook passes, by the number of the exercise.

    An answer has no mark, ``None``, if its cell failed, or the kernel died or did not reply.

    Raises:
        ValueError: if the file is not a notebook, or has no exercise.
    """
    try:
        notebook = nbformat.read(path, as_version=4)
        text = "\n".join(cell.source for cell in notebook.cells)
    except Exception as error:  # nbformat raises whatever its parser does
        raise ValueError(f"not a notebook: {error}") from error
    numbers = re.findall(r"^@exercise\(.(\d\d\.\d).\)", text, re.M)
    if not numbers:
        raise ValueError("no exercise in it")
    tests = {number: new_code_cell(_ASK.format(number)) for number in numbers}
    limit = new_code_cell(_LIMIT.format(int(memory_gb * 2**30)))
    notebook.cells = [limit, *notebook.cells, *tests.values()]
    client = NotebookClient(
        notebook,
        kernel_name="python3",
        timeout=cell_seconds,
        iopub_timeout=cell_seconds,
        interrupt_on_timeout=True,
        allow_errors=True,
        resources={"metadata": {"path": str(path.parent)}},
    )
    with contextlib.suppress(CellTimeoutError, DeadKernelError):
        client.execute()
    marks: dict[str, int | None] = {}
    for number, test in tests.items():
        marks[number] = None
        for output in test.outputs:
            if output.output_type == "execute_result":
                marks[number] = int(output.data["text/plain"])
    return marks


def table(folder: Path, to: Path) -> list[str]:
    """Grade the notebooks of a folder and below it, and write a CSV table, a row for each.

    A cell has the checks that hold and how many there are, ``3/4``; it is empty where nothing was
    handed in or graded. Files of one name in two folders keep their folders.

    Returns:
        A line for each notebook, or exercise in it, that could not be graded.

    Raises:
        ValueError: if there is no notebook.
    """
    paths = [path for path in folder.rglob("*.ipynb") if ".ipynb_checkpoints" not in path.parts]
    if not paths:
        raise ValueError(f"no notebook in {folder}: it may hold submissions in folders")
    rows = []
    numbers: set[str] = set()
    trouble = []
    for path in tqdm(sorted(paths), desc="graded", leave=False, disable=None):
        name = path.relative_to(folder).as_posix()
        row = {"notebook": name}
        rows.append(row)
        try:
            marks = grade(path)
        except ValueError as error:
            trouble.append(f"{name}: {error}")
            continue
        for number, mark in marks.items():
            if mark is None:
                trouble.append(f"{name}: no mark for {number}: a cell failed, or the kernel died")
                continue
            numbers.add(number)
            row[number] = f"{mark}/{len(grader.find(number).criteria)}"
    with to.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=["notebook", *sorted(numbers)])
        writer.writeheader()
        writer.writerows(rows)
    return trouble
