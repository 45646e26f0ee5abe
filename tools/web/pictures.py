"""Alternative texts of the pictures of a lesson: the sentence under each says what it shows."""

from __future__ import annotations

import re

from nbformat import NotebookNode

_CAPTION = re.compile(r"\*(?!\*)(.+?)(?<!\*)\*(?=\s|$)", re.S)
_HEADING = re.compile(r"^#+ (.+)$", re.M)


def describe(notebook: NotebookNode) -> list[str]:
    """Give every picture the sentence under it as its alternative text, in place.

    The text is stored in the metadata of the cell, where myst-nb looks for it. Panels have their
    own. Returns the ids of cells with a picture that has no sentence under it.
    """
    missing, heading = [], ""
    after = [cell.source for cell in notebook.cells[1:]] + [""]
    for cell, text in zip(notebook.cells, after, strict=True):
        if cell.cell_type == "markdown":
            heading = (_HEADING.findall(cell.source) or [heading])[-1]
        elif any(map(_is_picture, cell.outputs)):
            if caption := _CAPTION.match(text):
                alt = f"Figure in “{_plain(heading)}”. {_plain(caption[1])}"
                cell.metadata["mystnb"] = {"image": {"alt": alt}}
            else:
                missing.append(cell.id)
    return missing


def _is_picture(output: NotebookNode) -> bool:
    data = output.get("data", {})
    return "image/png" in data and not data.get("text/plain", "").startswith("<panel ")


def _plain(markdown: str) -> str:
    """Markdown as it is read aloud: no marks, formulas without dollars and backslashes."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", markdown)
    return " ".join(re.sub(r"[*`$\\{}]", "", text).split())
