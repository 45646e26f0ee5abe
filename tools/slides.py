"""Lessons as slides for reveal.js: panels move, without a network and without a kernel."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from tools import notebook
from tools.web import live

_WEB = Path(__file__).with_name("vendor")


def write(lesson: Path, folder: Path) -> Path:
    """Write the slides of one lesson into ``folder``, and what they load into ``folder/web``.

    A slide starts at a cell of slide type ``slide`` or ``subslide``. Code of cells tagged
    ``hide-input`` and cells of type ``skip`` are left out; notes are shown in the speaker's
    window alone (key S); panels are live. Links to lessons lead to their slides.

    Args:
        lesson: the notebook, with its outputs.
        folder: where to; it is made if it does not exist.

    Returns:
        The page, ``folder/<name of the notebook>.html``.
    """
    from nbconvert import SlidesExporter

    exporter = SlidesExporter(
        template_name="deck",
        extra_template_basedirs=[str(_WEB)],
        exclude_input_prompt=True,
        exclude_output_prompt=True,
    )
    made = notebook.read(lesson)
    live.write_files(live.make_live(made, "web/panels"), folder / "web" / "panels")
    html, _ = exporter.from_notebook_node(made)
    shutil.copytree(_WEB, folder / "web", dirs_exist_ok=True)
    page = folder / f"{lesson.stem}.html"
    notebook.write(page, re.sub(r'(href="\d\d_\w+)\.ipynb', r"\1.html", html))
    return page
