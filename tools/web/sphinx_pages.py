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
from tools.web import page
from tools.web.page import mathml

_FORMULA = re.compile(r"\$\$(.+?)\$\$|(?<![`$])\$([^$`\n]+(?:\n[^$`\n]+)?)\$", re.S)
_TABLE = re.compile(r'<table class="(?:docutils|table).*?</table>', re.S)
_TABLE_HEAD = re.compile(r"<thead>.*?</thead>", re.S)
_FIRST_CELL = re.compile(r"(<tr[^>]*>\s*)<td([^>]*)>(.*?)</td>", re.S)
_EMPTY_HEADER = re.compile(r'<th class="head[^>]*>(<p></p>)?</th>')
_TAG_OR_SPACE = re.compile(r"<[^>]*>|\s")


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

    return _TABLE.sub(_with_scopes, body)


def _with_scopes(match: re.Match[str]) -> str:
    table = match[0].replace("<th>", '<th class="head">')
    head = _TABLE_HEAD.search(table)
    if head and not _TAG_OR_SPACE.sub("", head[0]):
        table = table.replace(head[0], "")
        table = _FIRST_CELL.sub(r'\1<th scope="row"\2>\3</th>', table)
    table = _EMPTY_HEADER.sub("<td></td>", table)
    table = table.replace('<th class="stub', '<th scope="row" class="stub')
    table = table.replace('<th class="head', '<th scope="col" class="head')
    return table.replace(" ± ", "\u00a0±\u00a0")  # a phone breaks no line there


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
    source = html.escape(tex)
    if tag == "div":
        formula = mathml(tex, display="block")
        return f'<div class="math" tabindex="0" data-tex="{source}">{formula}</div>'
    formula = mathml(tex, display="inline")
    return f'<{tag} class="math" data-tex="{source}">{formula}</{tag}>'


def _formulas(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Docstrings write formulas between dollars, as the lessons do."""

    text = _FORMULA.sub(_as_rst, "\n".join(lines))
    lines[:] = text.split("\n")


def _as_rst(match: re.Match[str]) -> str:
    displayed = match[1]
    if displayed:
        formula = "\n".join(f"    {line.strip()}" for line in displayed.splitlines())
        return f"\n\n.. math::\n\n{formula}\n\n"
    on_one_line = " ".join(match[2].split())
    return f":math:`{on_one_line}`"


def _skip(app: Sphinx, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Fields of named tuples and functions of Python, whose docstrings are not ours."""
    docstring = getattr(obj, "__doc__", None) or ""
    is_foreign = docstring.startswith("Alias for field number") or inspect.isbuiltin(obj)
    return True if is_foreign else None


def _page(app: Sphinx, name: str, template: str, context: dict, doctree: Any) -> None:
    """Mend the tables of a page, and say in a lesson what else there is of it."""
    if "body" in context:
        context["body"] = table_headers(context["body"])
    if name.startswith("lessons/"):
        links = _ways(Path(name).name)
        context["body"] = context["body"].replace("</h1>", f"</h1>\n{links}", 1)
    if name == "search":
        app.add_js_file("texts.js")


def _ways(lesson: str) -> str:
    """What else there is of a lesson: its slides, and where it opens."""
    ways = {"slides": f"../slides/{lesson}.html"}
    ways.update(address.links(address.address(), lesson))
    links = [f'<a href="{html.escape(target)}">{words}</a>' for words, target in ways.items()]
    return f'<p class="lesson-ways">{" · ".join(links)}{page.PLACE_OF_PDF}</p>'


def _keep_text(app: Sphinx, doctree: nodes.document) -> None:
    """The text of a page, kept where Sphinx looks after it from one build to the next."""
    app.env.metadata[app.env.docname]["text"] = doctree.astext()


def _write_texts(app: Sphinx, error: Exception | None) -> None:
    """The texts of all pages, for excerpts where a page from the disk may not fetch others."""
    if error is not None:
        return
    texts = {f"{name}.html": app.env.metadata[name]["text"] for name in app.env.found_docs}
    path = Path(app.outdir) / "_static" / "texts.js"
    path.write_text(f"globalThis.bdlTexts={json.dumps(texts)};", encoding="utf-8")
