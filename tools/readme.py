"""What README.md takes from the lessons, the package and the GPU test: tables, text, a picture."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path

from bdl_lessons.core import markdown
from bdl_lessons.core.files import ROOT
from bdl_lessons.panels import dropout_rate
from tools import gpu_evidence, metadata
from tools.notebook import write

README = ROOT / "README.md"
PICTURE = ROOT / "data" / "pictures" / "readme.png"
PACKAGE = ROOT / "bdl_lessons"


def subpackages(package: Path = PACKAGE) -> str:
    """The subpackages as a Markdown table, each below those that it imports from.

    The docstring of its ``__init__`` says what one holds and imports: a first paragraph, and a last
    line ``Imports: core, models.`` (or ``Imports: nothing.``).

    Raises:
        ValueError: if a docstring has no such line.
    """
    holds, imports = {}, {}
    for path in sorted(package.glob("*/__init__.py")):
        name = path.parent.name
        docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        line = re.search(r"^Imports: (.+)\.$", docstring, re.M)
        if not line:
            raise ValueError(f"the docstring of {path} must end with 'Imports: …'")
        holds[name] = " ".join(docstring.partition("\n\n")[0].split())
        imports[name] = [] if line[1] == "nothing" else line[1].split(", ")

    def below(name: str) -> set[str]:
        return set(imports[name]).union(*map(below, imports[name]))

    order = sorted(holds, key=lambda name: (len(below(name)), name))
    rows = [[f"`{name}/`", holds[name], ", ".join(imports[name]) or "nothing"] for name in order]
    return markdown.table(["subpackage", "holds", "imports from"], rows)


TABLES: dict[str, Callable[[], str]] = {
    "lessons": lambda: metadata.lesson_table(link="notebooks/"),
    "subpackages": subpackages,
    "gpu": gpu_evidence.summary,
}
"""Each stands in README.md between ``<!-- name -->`` and ``<!-- end -->``."""


def text() -> str:
    """README.md with its tables as the notebooks and the package give them.

    Raises:
        ValueError: if the marks of a table are missing.
    """
    content = README.read_text(encoding="utf-8")
    for name, table in TABLES.items():
        between = rf"(?<=<!-- {name} -->\n)(?:.*?\n)?(?=<!-- end -->)"
        content, found = re.subn(between, lambda _, make=table: f"{make()}\n", content, flags=re.S)
        if found != 1:
            raise ValueError(f"{README} must have <!-- {name} --> … <!-- end --> once, not {found}")
    return content


def update() -> None:
    """Write the tables into README.md and draw its picture."""
    write(README, text())
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    PICTURE.write_bytes(dropout_rate.panel().render(p_drop=0.5).png)
