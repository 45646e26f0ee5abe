"""What Sphinx does not do by itself: formulas for KaTeX, table headers, texts for the search."""

from __future__ import annotations

import html
import inspect
import json
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from myst_nb import sphinx_ext
from sphinx.application import Sphinx

from tools import address
from tools.web.page import mathml

_FORMULA = re.compile(r"\$\$(.+?)\$\$|(?<![`$])\$([^$`\n]+(?:\n[^$`\n]+)?)\$", re.S)


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx, which finds this module among the extensions."""
    sphinx_ext.OUTPUT_FOLDER = str(Path(app.srcdir) / ".outputs")  # else beside the site
    app.add_html_math_renderer("katex", (_inline, None), (_block, None))
    app.connect("autodoc-process-docstring", _formulas, priority=100)
    app.connect("autodoc-skip-member", _skip)
    app.connect("doctree-read", _keep_text)
    app.connect("html-page-context", _page)
    app.connect("build-finished", _write_texts)
    return {"env_version": 2, "parallel_read_safe": True, "parallel_write_safe": True}


def slug(heading: str) -> str:
    """The anchor that JupyterLab gives a heading: the lessons link to it."""
    return heading.replace(" ", "-")


def table_headers(body: str) -> str:
    """Tables in which every header names the row or the column that it heads.

    A row of empty headers goes, and the first column heads the rows; an empty corner is a cell.

    Args:
        body: HTML as Sphinx writes it.
    """

    def mend(found: re.Match[str]) -> str:
        table = found[0].replace("<th>", '<th class="head">')
        head = re.search(r"<thead>.*?</thead>", table, re.S)
        if head and not re.sub(r"<[^>]*>|\s", "", head[0]):
            table = table.replace(head[0], "")
            row = r"(<tr[^>]*>\s*)<td([^>]*)>(.*?)</td>"
            table = re.sub(row, r'\1<th scope="row"\2>\3</th>', table, flags=re.S)
        table = re.sub(r"<th class=\"head[^>]*>(<p></p>)?</th>", "<td></td>", table)
        table = re.sub(r'<th class="stub', '<th scope="row" class="stub', table)
        table = table.replace(" ± ", "\u00a0±\u00a0")  # a phone breaks no line there
        return re.sub(r'<th class="head', '<th scope="col" class="head', table)

    return re.sub(r'<table class="(?:docutils|table).*?</table>', mend, body, flags=re.S)


def _inline(writer: Any, node: nodes.math) -> None:
    writer.body.append(_formula("span", node.astext()))
    raise nodes.SkipNode


def _block(writer: Any, node: nodes.math_block) -> None:
    text = node.astext()
    if "&" in text and r"\begin" not in text:
        text = rf"\begin{{aligned}}{text}\end{{aligned}}"
    writer.body.append(_formula("div", text))
    raise nodes.SkipNode


def _formula(tag: str, tex: str) -> str:
    """MathML, which every browser shows; where scripts run, KaTeX takes its place."""
    kind, focus = ("block", ' tabindex="0"') if tag == "div" else ("inline", "")
    shown = mathml(tex, kind)
    return f'<{tag} class="math"{focus} data-tex="{html.escape(tex)}">{shown}</{tag}>'


def _formulas(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Docstrings write formulas between dollars, as the lessons do."""

    def mend(found: re.Match[str]) -> str:
        if found[1]:
            formula = "\n".join(f"    {line.strip()}" for line in found[1].splitlines())
            return f"\n\n.. math::\n\n{formula}\n\n"
        return f":math:`{' '.join(found[2].split())}`"

    lines[:] = _FORMULA.sub(mend, "\n".join(lines)).split("\n")


def _skip(app: Sphinx, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Fields of named tuples and functions of Python, whose docstrings are not ours."""
    foreign = (getattr(obj, "__doc__", None) or "").startswith("Alias for field number")
    return True if foreign or inspect.isbuiltin(obj) else None


def _page(app: Sphinx, name: str, template: str, context: dict, doctree: Any) -> None:
    if "body" in context:
        context["body"] = table_headers(context["body"])
    if name.startswith("lessons/"):
        context["body"] = context["body"].replace("</h1>", f"</h1>\n{_ways(Path(name).name)}", 1)
    if name == "search":
        app.add_js_file("texts.js")


def _ways(lesson: str) -> str:
    """What else there is of a lesson: its slides, and where it opens."""
    ways = {"slides": f"../slides/{lesson}.html"} | address.links(address.address(), lesson)
    links = (f'<a href="{html.escape(to)}">{words}</a>' for words, to in ways.items())
    return f'<p class="lesson-ways">{" · ".join(links)}</p>'


def _keep_text(app: Sphinx, doctree: nodes.document) -> None:
    """The text of a page, kept where Sphinx looks after it from one build to the next."""
    app.env.metadata[app.env.docname]["text"] = doctree.astext()


def _write_texts(app: Sphinx, error: Exception | None) -> None:
    """The texts of all pages, for excerpts where a page from the disk may not fetch others."""
    if error is None:
        texts = {f"{name}.html": app.env.metadata[name]["text"] for name in app.env.found_docs}
        path = Path(app.outdir) / "_static" / "texts.js"
        path.write_text(f"globalThis.bdlTexts={json.dumps(texts)};", encoding="utf-8")
