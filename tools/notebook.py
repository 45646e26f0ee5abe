"""Read, execute, clean and write a lesson's notebook.

A committed notebook is executed from top to bottom in a fresh kernel and then cleaned, so that a
second run of the same code on the same machine gives the same bytes.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from PIL import Image

from bdl_lessons.core.files import NOTEBOOKS, ROOT
from reproductions.files import replacing

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
CELL_METADATA = {"tags", "slideshow", "bdl", "jupyter"}
KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}


def paths(numbers: list[str] | None = None) -> list[Path]:
    """The lessons with these two-digit numbers (all of them without an argument), in order.

    Raises:
        ValueError: if a number belongs to no notebook; a file name is no number.
    """
    by_number = {path.name[:2]: path for path in sorted(NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))}
    if not numbers:
        return list(by_number.values())
    for number in numbers:
        if number not in by_number:
            raise ValueError(f"no lesson {number!r}; write two digits: {', '.join(by_number)}")
    return [path for number, path in by_number.items() if number in numbers]


def code_of(notebook: NotebookNode) -> list[NotebookNode]:
    """The cells of code, in order."""
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def tags_of(cell: Mapping) -> set[str]:
    """The tags of a cell."""
    return set(cell["metadata"].get("tags", []))


def read(path: Path) -> NotebookNode:
    """The notebook in a file, in the format of today."""
    return nbformat.read(path, as_version=4)


def execute(notebook: NotebookNode, cell_limit_s: int = 180) -> NotebookNode:
    """Run every cell in order in a fresh kernel, inside the folder of the notebooks.

    Returns:
        The notebook, whose outputs are those of this run.
    """
    from nbclient import NotebookClient

    client = NotebookClient(
        notebook,
        kernel_name="python3",
        timeout=cell_limit_s,
        coalesce_streams=True,
        record_timing=False,
        extra_arguments=["--log-level=ERROR"],
        resources={"metadata": {"path": str(NOTEBOOKS)}},
    )
    environment = dict(os.environ)
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment["BDL_CHECK_FIGURES"] = "tools.figure_rules"
    environment["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"
    environment["TQDM_DISABLE"] = "1"  # a bar of progress is no result
    client.execute(env=environment)
    return notebook


def clean(notebook: NotebookNode) -> NotebookNode:
    """Drop what differs between runs or readers (views, foreign metadata), and heavy pictures."""
    notebook.metadata = {"kernelspec": KERNEL, "language_info": {"name": "python"}}
    for cell in notebook.cells:
        known = sorted(CELL_METADATA & set(cell.metadata))
        cell.metadata = {key: cell.metadata[key] for key in known}
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            data.pop(WIDGET_VIEW, None)
            if "image/png" in data:
                data["image/png"] = lighten(data["image/png"])
            if "metadata" in output:
                output.metadata = {}
    return notebook


def lighten(png: str) -> str:
    """The picture (base64) in a palette of at most 256 colours, a third of its length."""
    picture = Image.open(BytesIO(base64.b64decode(png)))
    if picture.mode == "P":
        return png
    in_palette = picture.convert("RGB").quantize(
        colors=256,
        method=Image.Quantize.MEDIANCUT,
        dither=Image.Dither.NONE,
    )
    buffer = BytesIO()
    in_palette.save(buffer, format="PNG", optimize=True)
    return base64.b64encode(buffer.getvalue()).decode()


def text(notebook: NotebookNode) -> str:
    """The notebook as its file holds it."""
    return nbformat.writes(notebook) + "\n"


def write(path: Path, content: str) -> None:
    """Replace the file at once: a reader sees the old text or the new one, never half of it."""
    with replacing(path) as file:
        file.write(content.encode())
