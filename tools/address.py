"""Where the course is to be had: one setting in ``pyproject.toml``, empty for a private copy.

``[tool.course] address = "https://github.com/OWNER/NAME"``. README, title cells, slides, site and
CITATION.cff show what follows from it. Without it, README and slides name the folder.
"""

from __future__ import annotations

import re
import subprocess
import tomllib
from functools import cache
from pathlib import Path

from nbformat import NotebookNode

from bdl_lessons.core.files import ROOT

ARCHIVE = "bdl-course.zip"
FOLDER = "The course is this folder: copy it, or clone it with git."
_INSTALL = """\
from importlib.util import find_spec

if find_spec("bdl_lessons") is None:  # in Colab, Kaggle or a bare Jupyter
    get_ipython().run_line_magic("pip", "install -q git+{}")

"""


def address(pyproject: Path = ROOT / "pyproject.toml") -> str:
    """The address of the repository, ``""`` if it is not published.

    Raises:
        ValueError: if it is not the address of a GitHub repository.
    """
    settings = tomllib.loads(pyproject.read_text(encoding="utf-8"))
    published = settings.get("tool", {}).get("course", {}).get("address", "")
    if published and not re.fullmatch(r"https://github\.com/[\w.-]+/[\w.-]+", published):
        raise ValueError(
            f"address in [tool.course] of {pyproject} is {published!r}; "
            'it may be "https://github.com/OWNER/NAME" or ""'
        )
    return published


def version(pyproject: Path = ROOT / "pyproject.toml") -> str:
    """The version of the course."""
    return tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]["version"]


def links(published: str, lesson: str = "00_start_here") -> dict[str, str]:
    """What opens a lesson elsewhere: the words of each link and its address; empty if unpublished.

    >>> list(links("https://github.com/me/course"))
    ['github.com/me/course', 'open in Colab', 'open in Binder', 'download', 'how to cite']
    """
    if not published:
        return {}
    name = published.removeprefix("https://github.com/")
    file = f"notebooks/{lesson}.ipynb"
    return {
        f"github.com/{name}": published,
        "open in Colab": f"https://colab.research.google.com/github/{name}/blob/HEAD/{file}",
        "open in Binder": f"https://mybinder.org/v2/gh/{name}/HEAD?labpath={file}",
        "download": f"{published}/archive/HEAD.zip",
        "how to cite": f"{published}/blob/HEAD/CITATION.cff",
    }


def markdown_links(published: str, lesson: str = "00_start_here") -> str:
    """The links in one line of Markdown."""
    return " · ".join(f"[{words}]({to})" for words, to in links(published, lesson).items())


def citation() -> str:
    """The lines of CITATION.cff that ``pyproject.toml`` decides."""
    lines = [f"version: {version()}"]
    published = address()
    if published:
        lines.append(f"repository-code: {published}")
    return "\n".join(lines)


def fill_first_cell(notebook: NotebookNode) -> None:
    """Let the imports of a published lesson install the package where it is missing, in place."""
    imports = next(cell for cell in notebook.cells if cell.cell_type == "code")
    with_any_address = re.escape(_INSTALL).replace(r"\{\}", r"\S+")
    imports.source = re.sub(with_any_address, "", imports.source)
    published = address()
    if published:
        imports.source = _INSTALL.format(published) + imports.source


@cache
def archive() -> bytes:
    """The last commit as a zip archive; nothing where there is no repository or no git."""
    command = ["git", "archive", "--format=zip", "--prefix=bdl-course/", "HEAD"]
    try:
        return subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return b""
