"""The course as pages: every lesson with its stored outputs and live panels, built by Sphinx."""

from __future__ import annotations

import importlib
import pkgutil
import shutil
from importlib.util import find_spec
from pathlib import Path

import bdl_lessons
from bdl_lessons.core.files import DATA, ROOT
from tools import address, notebook, slides
from tools.web import front, pictures

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
    options = ["-q", "-j", "2", "-d", str(source / ".cache")]
    unfinished = source / "unfinished"
    if unfinished.exists():  # a page may be half written, though Sphinx takes it for done
        options += ["-E", "-a"]
    pictures.write_if_changed(unfinished, b"a build has begun")
    _prepare(source, lessons)
    if build_main([*options, str(source), str(folder)]):
        raise ValueError("Sphinx could not build the site; its messages are above")
    for lesson in lessons:
        shutil.copyfile(lesson, folder / "_sources" / "lessons" / lesson.name)
    slides.write_older(lessons, folder / "slides")
    if address.archive():
        pictures.write_if_changed(folder / address.ARCHIVE, address.archive())
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
        used += pictures.make_live(made, "../_static/panels")
        if missing := pictures.describe(made):
            raise ValueError(f"{lesson.name}: no sentence under the figure of {', '.join(missing)}")
        text = notebook.text(made).replace("../data/results/README.md", "../results/index.md")
        pictures.write_if_changed(source / "lessons" / lesson.name, text.encode())
    pictures.write_files(sorted(set(used)), source / "_static" / "panels")
    subpackages = [m.name for m in pkgutil.iter_modules(bdl_lessons.__path__) if m.ispkg]
    vendored = [*(_VENDOR / "katex").rglob("*.*"), *(_VENDOR / "fonts").iterdir()]
    copies = {f"_static/{path.relative_to(_VENDOR)}": path for path in vendored}
    copies |= {f"_static/{name}": _STATIC / name for name in ("site.css", "site.js", "scorer.js")}
    copies |= {f"_templates/{name}": _STATIC / name for name in ("home.html", "layout.html")}
    copies |= {f"results/{path.name}": path for path in (DATA / "results").glob("*.png")}
    copies |= {"results/index.md": DATA / "results" / "README.md"}
    copies |= {"conf.py": _STATIC / "conf.py.txt"}
    contents = {name: path.read_bytes() for name, path in copies.items()}
    contents |= {f"package/{name}.rst": _subpackage(name).encode() for name in subpackages}
    contents |= {"index.md": front.text(lessons, subpackages).encode()}
    contents["_static/scripts/fontawesome.js"] = b""  # 1.6 MB; a font has the icons too
    for name, content in contents.items():
        pictures.write_if_changed(source / name, content)


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
