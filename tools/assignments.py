"""The exercises of a lesson as an assignment for nbgrader: source notebook and configuration.

An answer cell holds the stub with the reference behind it, between the marks that nbgrader takes
out; the locked test cell after it has a point for each check. The self-test comes first, a point a
question; it is also written as a sheet to print. The open question comes last, is graded by hand
and has the model answer, which students do not see.
"""

from __future__ import annotations

import ast
import inspect
import re
from html import escape
from pathlib import Path
from pprint import pformat
from textwrap import indent

from markdown_it import MarkdownIt
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from bdl_lessons.exercises import grader
from tools import notebook, selftest, timing
from tools.notebook import tags_of
from tools.web.page import mathml

FIRST = """\
# Exercises: {}

Fill in the functions and hand in this notebook. Numbers in brackets are equations of the lesson, \
and "above" is in the lesson too. Run the cell below each answer: it says what holds."""
_LINK = re.compile(r"\[([^\]]+)\]\(#[^)]*\)")  # to a section of the lesson, whose name stays
CONFIGURATION = """\
# What a student's notebook may take: each cell 60 seconds, then the next one runs.
c = get_config()
c.CourseDirectory.course_id = "bdl"
c.ExecutePreprocessor.timeout = 60
c.ExecutePreprocessor.iopub_timeout = 60  # a busy machine is slow to say that a cell is done
c.ExecutePreprocessor.interrupt_on_timeout = True
c.ClearSolutions.code_stub = {"python": "raise NotImplementedError"}
"""
SHEET = """\
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>
body {{ max-width: 42em; margin: 2em auto; font: 12pt/1.5 sans-serif }}
ul > li {{ list-style: "☐  "; break-inside: avoid }}
table {{ border-collapse: collapse }} td, th {{ border: 1px solid; padding: 0 0.5em }}
h2 {{ break-before: page }}
</style></head><body>
{body}
</body></html>
"""


def write(lesson: Path, folder: Path) -> Path:
    """Write the assignment of a lesson, and its sheet, into the folder of an nbgrader course.

    The configuration of the course is written if it has none. Returns the instructor's notebook,
    ``folder/source/lesson05/<name of the notebook>.ipynb``.
    """
    path = folder / "source" / f"lesson{lesson.name[:2]}" / lesson.name
    path.parent.mkdir(parents=True, exist_ok=True)
    made = notebook.read(lesson)
    notebook.write(path, notebook.text(source(made)))
    (folder / "sheets").mkdir(exist_ok=True)
    notebook.write(folder / "sheets" / f"lesson{lesson.name[:2]}.html", sheet(made))
    configuration = folder / "nbgrader_config.py"
    if not configuration.exists():
        configuration.write_text(CONFIGURATION, encoding="utf-8")
    return path


def source(lesson: NotebookNode) -> NotebookNode:
    """The instructor's notebook, made from the section "Exercises" of a lesson."""
    section = next(s for s in timing.sections(lesson) if s[0].source.startswith("## Exercises"))
    imports = next(cell.source for cell in lesson.cells if cell.cell_type == "code")
    made = new_notebook(metadata=lesson.metadata)
    last = []
    made.cells = [
        _given(new_markdown_cell(FIRST.format(_title(lesson))), "t"),
        _given(new_code_cell(imports.partition("\n\nuse_style()")[0]), "first"),
        *_self_test(selftest.questions(lesson)),
    ]
    for cell in section:
        if "exercise" in tags_of(cell):
            made.cells += _task(cell.source)
        elif re.search(r"\*\*[^*\n]*an open question", cell.source):
            last = _open_question(cell.source)
        elif re.match(r"\*\*\d\d\.\d", cell.source):  # the rest of a task
            made.cells.append(_given(new_markdown_cell(cell.source), f"text-{len(made.cells)}"))
    made.cells += last
    return made


def sheet(lesson: NotebookNode) -> str:
    """The self-test to print: questions and options, and the answers on a page of their own."""
    title = _title(lesson)
    asked = selftest.questions(lesson)
    answers = [f"{q.number}. {q.answer.letter}: {q.answer.reason}" for q in asked]
    text = [f"# {title}", "Name:", *map(selftest.unanswered, asked), "## Answers"]
    body = _LINK.sub(r"\1", "\n\n".join([*text, "\n".join(answers)]))
    for mark, kind in ((r"\$\$", "block"), (r"\$", "inline")):
        body = re.sub(f"{mark}(.+?){mark}", lambda m, k=kind: mathml(m[1], k), body, flags=re.S)
    html = MarkdownIt("commonmark", {"html": True}).enable("table").render(body)
    return SHEET.format(title=escape(title), body=html)


def _title(lesson: NotebookNode) -> str:
    return lesson.cells[0].source.splitlines()[0].removeprefix("# ")


def _self_test(asked: list[selftest.Question]) -> list[NotebookNode]:
    """The questions, a cell for the letters chosen, and its test, whose key students do not see."""
    text = "\n\n".join(map(selftest.unanswered, asked))
    said = {
        (number, letter): ("right: " if right else "not so: ") + _LINK.sub(r"\1", reason)
        for number, _, options in asked
        for letter, _, right, reason in options
    }
    test = f"""\
# The replies to your letters come with the feedback.
### BEGIN HIDDEN TESTS
said = {pformat(said, width=90)}
given = choices if isinstance(globals().get("choices"), dict) else {{}}
if not given:
    print("`choices` is no dict of letters, such as {{1: 'A', 2: 'B'}}.")
letters = {{n: str(given.get(n)).strip().upper() for n in range(1, {len(asked)} + 1)}}
replies = [said.get(pair, "no such option") for pair in letters.items()]
print(*(f"{{n}}. {{reply}}" for n, reply in enumerate(replies, 1)), sep="\\n")
sum(reply.startswith("right") for reply in replies)
### END HIDDEN TESTS"""
    choices = f"choices = {dict.fromkeys(range(1, len(asked) + 1), '')}  # a letter for each"
    return [
        _given(new_markdown_cell(f"## Self-test\n\n{text}"), "self-test"),
        new_code_cell(choices, id="choices"),
        _given(new_code_cell(test), "test-choices", grade=True, points=len(asked)),
    ]


def _task(stub: str) -> list[NotebookNode]:
    """The answer cell of an exercise, and its test cell."""
    number = re.search(r'@exercise\("(\d\d\.\d)"\)', stub)[1]
    exercise = grader.find(number)
    name = number.replace(".", "-")
    arguments = re.search(r"def \w+(\(.*?\))", stub, re.S)[1]
    shown = f"{_reference(exercise.solution)}\n\nreturn {exercise.solution.__name__}{arguments}"
    behind = indent(f"### BEGIN SOLUTION\n{shown}\n### END SOLUTION", "    ")
    answer = stub.partition("\n\n\nautocheck(")[0].replace("    raise NotImplementedError", behind)
    test = f'from bdl_lessons.exercises.api import score\n\nscore("{number}")'
    return [
        _given(new_code_cell(answer), f"answer-{name}", solution=True, locked=False),
        _given(new_code_cell(test), f"test-{name}", grade=True, points=len(exercise.criteria)),
    ]


def _reference(solution: grader.Answer) -> str:
    """The source of a reference solution with what it uses of its module, so that it runs."""
    module = inspect.getsource(inspect.getmodule(solution))
    owner = {}
    for node in ast.parse(module).body:
        bound = [node, *getattr(node, "names", []), *getattr(node, "targets", [])]
        owner |= {getattr(b, key, None): node for b in bound for key in ("name", "asname", "id")}
    needed = [owner[solution.__name__]]
    for node in needed:  # it grows
        names = [part for part in ast.walk(node) if isinstance(part, ast.Name)]
        used = {n.id for n in names} - {n.id for n in names if isinstance(n.ctx, ast.Store)}
        needed += {owner[name] for name in used & owner.keys()} - {*needed}
    parts = sorted(needed, key=lambda node: node.lineno)
    return "\n\n".join(ast.get_source_segment(module, node) for node in parts)


def _open_question(text: str) -> list[NotebookNode]:
    """The question, and a cell for the answer that is graded by hand."""
    question = re.search(r"\*\*[^*\n]*an open question[^*]*\*\*.*?(?=<details>|\Z)", text, re.S)
    model = re.search(r"<details>.*?</summary>(.*?)</details>", text, re.S)
    answer = f"### BEGIN SOLUTION\n{model[1].strip() if model else ''}\n### END SOLUTION"
    flags = {"grade": True, "solution": True, "locked": False, "points": 4}
    return [
        _given(new_markdown_cell(question[0].strip()), "open-question"),
        _given(new_markdown_cell(answer), "open-answer", **flags),
    ]


def _given(cell: NotebookNode, name: str, **flags: bool | int) -> NotebookNode:
    """The cell with what nbgrader asks of it; locked unless ``flags`` say otherwise."""
    named = {"schema_version": 3, "grade_id": name, "cell_type": cell.cell_type}
    default = {"task": False, "grade": False, "solution": False, "locked": True}
    cell.id = name
    cell.metadata["nbgrader"] = named | default | flags
    return cell
