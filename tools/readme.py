"""What README.md, CITATION.cff and docs/ take from the course: tables, sentences, a picture."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable
from pathlib import Path

from bdl_lessons.core.files import ROOT
from bdl_lessons.datasets.records import RESULTS_FOLDER
from bdl_lessons.panels import dropout_rate
from reproductions import markdown
from tools import address, metadata
from tools.notebook import write

README = ROOT / "README.md"
PICTURE = ROOT / "data" / "pictures" / "readme.png"
GPU_EVIDENCE = RESULTS_FOLDER / "gpu_evidence.json"  # tests/gpu writes it


def described(package: Path = ROOT / "bdl_lessons") -> dict[str, tuple[str, list[str]]]:
    """What each subpackage holds and which it imports, as the docstring of its ``__init__`` says.

    That is a first paragraph, and a last line ``Imports: core, models.`` or ``Imports: nothing.``
    """
    found = {}
    for path in sorted(package.glob("*/__init__.py")):
        docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        (imports,) = re.findall(r"^Imports: (.+)\.$", docstring, re.M)
        holds = " ".join(docstring.partition("\n\n")[0].split())
        found[path.parent.name] = holds, [] if imports == "nothing" else imports.split(", ")
    return found


def subpackages(package: Path = ROOT / "bdl_lessons") -> str:
    """The subpackages as a Markdown table, each below those that it imports from."""
    found = described(package)

    def below(name: str) -> set[str]:
        return set(found[name][1]).union(*map(below, found[name][1]))

    order = sorted(found, key=lambda name: (len(below(name)), name))
    rows = [[f"`{n}/`", found[n][0], ", ".join(found[n][1]) or "nothing"] for n in order]
    return markdown.table(["subpackage", "holds", "imports from"], rows)


def gpu_summary(path: Path = GPU_EVIDENCE) -> str:
    """What ``make test-gpu`` found on a real GPU, and with which version of the course."""
    if not path.exists():
        return (
            "No part of this course has been seen on a real GPU; one was last looked for in "
            "November 2026. A simulated one (`make test`, `make test-device`) shows mixed devices "
            "and needless waits, but neither numbers nor speed."
        )
    found = json.loads(path.read_text(encoding="utf-8"))
    items = found["items"]
    failed = [name for name, item in items.items() if not item["passed"]]
    state = f"{len(items) - len(failed)} of {len(items)} parts passed"
    state += f", not {', '.join(failed)}" if failed else ""
    return (
        f"`make test-gpu` was last run on {found['date']}, version {found['version']}, on one "
        f"{found['gpu']} with PyTorch {found['torch']} (driver {found['driver']}, CUDA "
        f"{found['cuda']}): {state}."
    )


TABLES: dict[Path, dict[str, Callable[[], str]]] = {
    README: {
        "address": lambda: address.markdown_links(address.address()) or address.FOLDER,
        "lessons": lambda: metadata.lesson_table(link="notebooks/"),
        "gpu": gpu_summary,
    },
    ROOT / "CITATION.cff": {"course": address.citation},
    ROOT / "docs" / "house.md": {"subpackages": subpackages},
    ROOT / "docs" / "reproductions.md": {"gpu": gpu_summary},
}
"""The pages, and what stands in them between ``<!-- name -->`` and ``<!-- end -->``."""


def text(page: Path) -> str:
    """A page with its tables as the notebooks and the package give them.

    Raises:
        ValueError: if the marks of a table are missing.
    """
    content = page.read_text(encoding="utf-8")
    for name, table in TABLES[page].items():
        between = rf"(?s)(<!-- {name} -->\n).*?(?=(?:# )?<!-- end -->)"
        made = table()
        content, found = re.subn(between, lambda m, new=made: f"{m[1]}{new}\n", content)
        if found != 1:
            raise ValueError(f"{page} must have <!-- {name} --> … <!-- end --> once, not {found}")
    return content


def update() -> None:
    """Write the tables into their pages and draw the picture of README.md."""
    for page in TABLES:
        write(page, text(page))
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    PICTURE.write_bytes(dropout_rate.panel().render(p_drop=0.5).png)
