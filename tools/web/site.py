"""The course as pages: every lesson with its stored outputs and live panels, built by Sphinx."""

from __future__ import annotations

import importlib
import pkgutil
import shutil
from importlib.util import find_spec
from pathlib import Path

import bdl_lessons
from bdl_lessons.core.files import DATA, ROOT
from tools import archive, notebook, slides
from tools.web import front, live, pictures

_STATIC = Path(__file__).with_name("static")
_VENDOR = Path(__file__).parents[1] / "vendor"


def build(folder: Path, numbers: list[str] | None = None, source: Path | None = None) -> Path:
    """Write the site; what has not changed since the last time is not built again.

    Args:
        folder: where to.
        numbers: two-digit numbers of the lessons; default: all.
        source: the folder of the pages' sources; default: ``build/site``.

    Returns:
        The front page, which opens from the disk too.

    Raises:
        ValueError: if Sphinx and its theme are not installed, for an unknown lesson, or if a page
            cannot be built.
    """
    if find_spec("sphinx_book_theme") is None or find_spec("myst_nb") is None:
        raise ValueError("the site needs more packages: pip install -e '.[site]'")
    from sphinx.cmd.build import build_main

    source = source or ROOT / "build" / "site"
    lessons = notebook.paths(numbers)
    unfinished = source / "unfinished"
    interrupted = unfinished.exists()
    live.write_if_changed(unfinished, b"a build has begun")
    _prepare(source, lessons)

    options = ["-q", "-j", "2", "-d", str(source / ".cache")]
    if interrupted:  # a page may be half written, though Sphinx takes it for done
        options += ["-E", "-a"]
    if build_main([*options, str(source), str(folder)]):
        raise ValueError("Sphinx could not build the site; its messages are above")
    for lesson in lessons:
        shutil.copyfile(lesson, folder / "_sources" / "lessons" / lesson.name)
    slides.write_older(lessons, folder / "slides")
    if archive.content():
        live.write_if_changed(folder / archive.NAME, archive.content())
    unfinished.unlink()
    return folder / "index.html"


def _prepare(source: Path, lessons: list[Path]) -> None:
    """The pages' sources: notebooks with live figures, generated pages, files that they load."""
    for path in (source / "lessons").glob("*.ipynb"):
        if path.name not in {lesson.name for lesson in lessons}:
            path.unlink()
    used = [front.PANEL]
    for lesson in lessons:
        made = notebook.read(lesson)
        used += live.make_live(made, "../_static/panels")
        if missing := pictures.describe(made):
            raise ValueError(f"{lesson.name}: no sentence under the figure of {', '.join(missing)}")
        text = notebook.text(made).replace("../data/results/README.md", "../results/index.md")
        live.write_if_changed(source / "lessons" / lesson.name, text.encode())
    live.write_files(sorted(set(used)), source / "_static" / "panels")
    for path in [*sorted((_VENDOR / "katex").rglob("*.*")), *(_VENDOR / "fonts").iterdir()]:
        live.write_if_changed(source / "_static" / path.relative_to(_VENDOR), path.read_bytes())
    for name in ("site.css", "site.js", "scorer.js"):
        live.write_if_changed(source / "_static" / name, (_STATIC / name).read_bytes())
    icons = source / "_static" / "scripts" / "fontawesome.js"  # 1.6 MB; a font has them too
    live.write_if_changed(icons, b"")
    for name in ("home.html", "layout.html"):
        live.write_if_changed(source / "_templates" / name, (_STATIC / name).read_bytes())
    live.write_if_changed(source / "conf.py", (_STATIC / "conf.py.txt").read_bytes())
    for path in sorted((DATA / "results").glob("*.png")):
        live.write_if_changed(source / "results" / path.name, path.read_bytes())
    results = (DATA / "results" / "README.md").read_text(encoding="utf-8")
    live.write_if_changed(source / "results" / "index.md", results.encode())
    subpackages = [m.name for m in pkgutil.iter_modules(bdl_lessons.__path__) if m.ispkg]
    for name in subpackages:
        live.write_if_changed(source / "package" / f"{name}.rst", _subpackage(name).encode())
    live.write_if_changed(source / "index.md", front.text(lessons, subpackages).encode())


def _subpackage(name: str) -> str:
    """The reference of one part of the package: the docstrings of all its modules."""
    top = f"bdl_lessons.{name}"
    subpackage = importlib.import_module(top)
    modules = [m.name for m in pkgutil.walk_packages(subpackage.__path__, f"{top}.") if not m.ispkg]
    lines = [top, "=" * len(top), "", f".. automodule:: {top}", ""]
    for module in modules:
        short = module.removeprefix(f"{top}.")
        lines += [short, "-" * len(short), "", f".. automodule:: {module}", "   :members:", ""]
    return "\n".join(lines)
