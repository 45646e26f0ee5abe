"""Pictures of a notebook on a page: panels that the player moves, and alternative texts."""

from __future__ import annotations

import re
from pathlib import Path

from nbformat import NotebookNode
from tqdm import tqdm

from reproductions.files import replacing
from tools.web import page, store

_SHOWN = re.compile(r"<panel ([\w-]+):")
_CAPTION = re.compile(r"\*(?!\*)(.+?)(?<!\*)\*(?=\s|$)", re.S)
_HEADING = re.compile(r"^#+ (.+)$", re.M)


def make_live(notebook: NotebookNode, address: str) -> list[str]:
    """Give every panel in the outputs of a notebook its figure, in place; their names.

    ``address`` is where the files of ``write_files`` are, seen from the page.
    """
    found = []
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            shown = _SHOWN.match(output.get("data", {}).get("text/plain", ""))
            if shown and shown[1] in store.names():
                panel = store.load(shown[1])
                files = f"{address}/{panel.name}"
                output.data["text/html"] = page.figure(panel, f"{files}.png", f"{files}.js")
                found.append(panel.name)
    return found


def write_files(names: list[str], folder: Path) -> None:
    """Write the player, its style, and recording and picture of the panels into a folder."""
    files = {"player.js": page.script().encode(), "player.css": page.css("bdl-sans-").encode()}
    files |= {f"bdl-sans-{weight}.woff": page.font(weight) for weight in page.WEIGHTS}
    for name in tqdm(names, "panels", leave=False, disable=None):
        panel = store.load(name)
        files |= {f"{name}.js": panel.script.encode(), f"{name}.png": panel.png}
    for name, content in files.items():
        write_if_changed(folder / name, content)


def write_if_changed(path: Path, content: bytes) -> None:
    """Write a file only if it has another content: what is built from it stays up to date."""
    if not path.exists() or path.read_bytes() != content:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            file.write(content)


def describe(notebook: NotebookNode) -> list[str]:
    """Give every picture the sentence under it as its alternative text, in place.

    The text is stored in the metadata of the cell, where myst-nb looks for it. Panels have their
    own. Returns the ids of cells with a picture that has no sentence under it.
    """
    missing = []
    heading = ""
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
