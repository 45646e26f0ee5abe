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
from tools import address, metadata, references, terms
from tools.notebook import write

README = ROOT / "README.md"
PICTURE = ROOT / "data" / "pictures" / "readme.png"
GPU_EVIDENCE = RESULTS_FOLDER / "gpu_evidence.json"  # tests/gpu writes it


def described(package: Path = ROOT / "bdl_lessons") -> dict[str, tuple[str, list[str]]]:
    """What each subpackage holds and which it imports, as the docstring of its ``__init__`` says.

    That is a first paragraph, and a last line ``Imports: core, models.`` or ``Imports: nothing.``
    """
    by_name = {}
    for path in sorted(package.glob("*/__init__.py")):
        module = ast.parse(path.read_text(encoding="utf-8"))
        docstring = ast.get_docstring(module) or ""
        first_paragraph, _, _ = docstring.partition("\n\n")
        holds = " ".join(first_paragraph.split())
        (listed,) = re.findall(r"^Imports: (.+)\.$", docstring, re.M)
        imports = [] if listed == "nothing" else listed.split(", ")
        by_name[path.parent.name] = holds, imports
    return by_name


def subpackages(package: Path = ROOT / "bdl_lessons") -> str:
    """The subpackages as a Markdown table, each below those that it imports from."""
    by_name = described(package)

    def below(name: str) -> set[str]:
        _, imports = by_name[name]
        names = set(imports)
        for imported in imports:
            names |= below(imported)
        return names

    rows = []
    for name in sorted(by_name, key=lambda name: (len(below(name)), name)):
        holds, imports = by_name[name]
        rows.append([f"`{name}/`", holds, ", ".join(imports) or "nothing"])
    return markdown.table(["subpackage", "holds", "imports from"], rows)


def gpu_summary(path: Path = GPU_EVIDENCE) -> str:
    """What ``make test-gpu`` found on a real GPU, and with which version of the course."""
    if not path.exists():
        return (
            "No part of this course has been seen on a real GPU; one was last looked for in "
            "November 2026. A simulated one (`make test`, `make test-device`) shows mixed devices "
            "and needless waits, but neither numbers nor speed."
        )
    evidence = json.loads(path.read_text(encoding="utf-8"))
    items = evidence["items"]
    failed = [name for name, item in items.items() if not item["passed"]]
    outcome = f"{len(items) - len(failed)} of {len(items)} parts passed"
    if failed:
        outcome += f", not {', '.join(failed)}"
    return (
        f"`make test-gpu` was last run on {evidence['date']}, version {evidence['version']}, "
        f"on one {evidence['gpu']} with PyTorch {evidence['torch']} "
        f"(driver {evidence['driver']}, CUDA {evidence['cuda']}): {outcome}."
    )


TABLES: dict[Path, dict[str, Callable[[], str]]] = {
    README: {
        "address": lambda: address.markdown_links(address.address()) or address.FOLDER,
        "lessons": lambda: metadata.lesson_table(link="notebooks/"),
        "gpu": gpu_summary,
    },
    ROOT / "CITATION.cff": {"course": address.citation},
    ROOT / "docs" / "house.md": {"subpackages": subpackages},
    ROOT / "docs" / "references.md": {"references": lambda: references.page("../notebooks/")},
    ROOT / "docs" / "reproductions.md": {"gpu": gpu_summary},
    ROOT / "docs" / "terms.md": {"terms": lambda: terms.page("../notebooks/")},
}
"""The pages, and what stands in them between ``<!-- name -->`` and ``<!-- end -->``."""


def text(page: Path) -> str:
    """A page with its tables as the notebooks and the package give them.

    Raises:
        ValueError: if the marks of a table are missing.
    """
    content = page.read_text(encoding="utf-8")
    for name, table in TABLES[page].items():
        pattern = rf"(?s)<!-- {name} -->\n.*?(?=(?:# )?<!-- end -->)"
        parts = re.split(pattern, content)
        if len(parts) != 2:
            n = len(parts) - 1
            raise ValueError(f"{page} must have <!-- {name} --> … <!-- end --> once, not {n}")
        before, after = parts
        content = f"{before}<!-- {name} -->\n{table()}\n{after}"
    return content


def update() -> None:
    """Write the tables into their pages and draw the picture of README.md."""
    for page in TABLES:
        write(page, text(page))
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    PICTURE.write_bytes(dropout_rate.panel().render(p_drop=0.5).png)
