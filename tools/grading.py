"""Submitted notebooks to a table of exercises, for classes without nbgrader.

Every notebook runs in a kernel of its own, with a limit of time for each cell and of memory. What
it raises stays in it.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbformat.v4 import new_code_cell

from bdl_lessons.exercises import grader

_LIMIT = """\
try:
    import resource
    resource.setrlimit(resource.RLIMIT_AS, ({0}, {0}))
except (ImportError, ValueError, OSError):  # a system without limits
    pass"""
_ASK = """\
import json
from bdl_lessons.exercises import api
print("\\n" + json.dumps({number: api.score(number) for number in api._answers}))"""


def grade(path: Path, cell_seconds: int = 60, memory_gb: float = 16) -> dict[str, int]:
    """How many checks each answer of a notebook passes, by the number of the exercise.

    Raises:
        ValueError: if the file is no notebook, or its kernel died or hung; the message names it.
    """
    try:
        made = nbformat.read(path, as_version=4)
    except Exception as error:  # nbformat raises whatever its parser does
        raise ValueError(f"{path.name} is not a notebook: {error}") from error
    made.cells.insert(0, new_code_cell(_LIMIT.format(int(memory_gb * 2**30))))
    made.cells.append(new_code_cell(_ASK))
    client = NotebookClient(
        made,
        timeout=cell_seconds,
        interrupt_on_timeout=True,
        allow_errors=True,
        resources={"metadata": {"path": str(path.parent)}},
    )
    try:
        client.execute()
    except (CellTimeoutError, DeadKernelError) as error:
        raise ValueError(f"{path.name}: the kernel died or did not answer") from error
    printed = "".join(output.get("text", "") for output in made.cells[-1].outputs)
    return json.loads(printed.splitlines()[-1]) if printed else {}


def table(folder: Path, to: Path) -> list[str]:
    """Grade the notebooks of a folder and below it, and write a CSV table, a row for each.

    A cell has the checks that hold and how many there are, ``3/4``; it is empty where nothing was
    handed in. Files of one name in two folders keep their folders.

    Returns:
        A line for each notebook that could not be graded; its row is empty.

    Raises:
        ValueError: if there is no notebook.
    """
    paths = sorted(p for p in folder.rglob("*.ipynb") if ".ipynb_checkpoints" not in p.parts)
    if not paths:
        raise ValueError(f"no notebook in {folder}: it may hold submissions in folders")
    found, trouble = {path.relative_to(folder).as_posix(): {} for path in paths}, []
    for name in found:
        try:
            found[name] = grade(folder / name)
        except ValueError as error:
            trouble.append(str(error))
    numbers = sorted({number for passed in found.values() for number in passed})
    total = {number: len(grader.find(number).criteria) for number in numbers}
    with to.open("w", newline="", encoding="utf-8") as file:
        rows = csv.DictWriter(file, ["notebook", *numbers])
        rows.writeheader()
        for name, passed in found.items():
            marks = {number: f"{n}/{total[number]}" for number, n in passed.items()}
            rows.writerow({"notebook": name} | marks)
    return trouble
