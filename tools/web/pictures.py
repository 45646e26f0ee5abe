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
    """Give every panel in the outputs of a notebook its figure, in place.

    Args:
        notebook: its outputs are changed.
        address: where the files of ``write_files`` are, seen from the page.

    Returns:
        The names of these panels.
    """
    names = []
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            text = output.get("data", {}).get("text/plain", "")
            shown = _SHOWN.match(text)
            if not shown or shown[1] not in store.names():
                continue
            panel = store.load(shown[1])
            output.data["text/html"] = page.figure(
                panel,
                picture=f"{address}/{panel.name}.png",
                source=f"{address}/{panel.name}.js",
            )
            names.append(panel.name)
    return names


def write_files(names: list[str], folder: Path) -> None:
    """Write the player, its style, and recording and picture of the panels into a folder."""
    files = {
        "player.js": page.script().encode(),
        "player.css": page.css("bdl-sans-").encode(),
    }
    for weight in page.WEIGHTS:
        files[f"bdl-sans-{weight}.woff"] = page.font(weight)
    for name in tqdm(names, "panels", leave=False, disable=None):
        panel = store.load(name)
        files[f"{name}.js"] = panel.script.encode()
        files[f"{name}.png"] = panel.png
    for name, content in files.items():
        write_if_changed(folder / name, content)


def write_if_changed(path: Path, content: bytes) -> None:
    """Write a file only if it has another content: what is built from it stays up to date."""
    if path.exists() and path.read_bytes() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write(content)


def describe(notebook: NotebookNode) -> list[str]:
    """Give every picture the sentence under it as its alternative text, in place.

    The text is stored in the metadata of the cell, where myst-nb looks for it. Panels have texts
    of their own.

    Returns:
        The ids of cells with a picture that has no sentence under it.
    """
    missing = []
    heading = ""
    texts_below = [cell.source for cell in notebook.cells[1:]] + [""]
    for cell, text_below in zip(notebook.cells, texts_below, strict=True):
        if cell.cell_type == "markdown":
            headings = _HEADING.findall(cell.source)
            heading = headings[-1] if headings else heading
            continue
        if not any(_is_picture(output) for output in cell.outputs):
            continue
        caption = _CAPTION.match(text_below)
        if caption:
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
    without_links = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", markdown)
    without_marks = re.sub(r"[*`$\\{}]", "", without_links)
    return " ".join(without_marks.split())
