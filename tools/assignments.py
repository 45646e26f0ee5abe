"""The exercises of a lesson as an assignment for nbgrader: source notebook and configuration.

An answer cell holds the stub with the reference behind it, between the marks that nbgrader takes
out; the locked test cell after it has a point for each check. The self-test comes first, a point a
question; it is also written as a sheet to print. A cell without points tells whoever validates the
notebook how much of it was attempted. The open question comes last, is graded by hand and has the
model answer, which students do not see.
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

from bdl_lessons.course.lesson_record import LETTERS, LessonRecord, Option, Question
from bdl_lessons.exercises import grader
from tools import notebook, render, selftest
from tools.metadata import Lesson
from tools.notebook import tags_of
from tools.web.page import mathml

FIRST = """\
# Exercises: {}

Fill in the functions and hand in this notebook. Numbers in brackets are equations of the lesson, \
and "above" is in the lesson too. Run the cell below each answer: it says what holds."""
_SECTION_LINK = re.compile(r"\[([^\]]+)\]\(#[^)]*\)")
"""To a section of the lesson, whose name stays."""
_LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")
CONFIGURATION = """\
# What a student's notebook may take: each cell 60 seconds, then the next one runs.
c = get_config()
c.CourseDirectory.course_id = "bdl"
c.ExecutePreprocessor.timeout = 60
c.ExecutePreprocessor.iopub_timeout = 60  # a busy machine is slow to say that a cell is done
c.ExecutePreprocessor.interrupt_on_timeout = True
c.ClearSolutions.code_stub = {"python": "raise NotImplementedError"}
"""
SELF_TEST = """\
# The replies to your letters come with the feedback.
### BEGIN HIDDEN TESTS
said = {replies}
given = choices if isinstance(globals().get("choices"), dict) else {{}}
if not given:
    print("`choices` is no dict of letters, such as {{1: 'A', 2: 'B'}}.")
letters = {{n: str(given.get(n)).strip().upper() for n in range(1, {n_questions} + 1)}}
replies = [said.get(pair, "no such option") for pair in letters.items()]
print(*(f"{{n}}. {{reply}}" for n, reply in enumerate(replies, 1)), sep="\\n")
sum(reply.startswith("right") for reply in replies)
### END HIDDEN TESTS"""
PROGRESS = """\
# Validate shows how much is still open. No points depend on this cell.
import ast, inspect, sys

def is_open(answer):
    try:
        function = ast.parse(inspect.getsource(inspect.unwrap(answer))).body[0]
        code = function.body[bool(ast.get_docstring(function)):]
    except Exception:  # it is no longer the function that was handed out
        return answer is None
    return not code or ast.unparse(code[0]) == "raise NotImplementedError"

answers = [globals().get(name) for name in {names}]
letters = choices.values() if isinstance(globals().get("choices"), dict) else []
n_attempted = sum(not is_open(answer) for answer in answers)
n_answered = sum(bool(letter) for letter in letters)
print(
    f"{{n_attempted}} of {{len(answers)}} exercises attempted, "
    f"{{n_answered}} of {n_questions} questions of the self-test answered.",
    file=sys.stdout if (n_attempted, n_answered) == (len(answers), {n_questions}) else sys.stderr,
)"""
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

    The configuration of the course is written if it has none.

    Returns:
        The instructor's notebook, ``folder/source/lesson05/<name of the notebook>.ipynb``.
    """
    record = Lesson(lesson).record
    name = f"lesson{record.number}"
    path = folder / "source" / name / lesson.name
    path.parent.mkdir(parents=True, exist_ok=True)
    notebook.write(path, notebook.text(source(notebook.read(lesson), record)))
    (folder / "sheets").mkdir(exist_ok=True)
    notebook.write(folder / "sheets" / f"{name}.html", sheet(record))
    configuration = folder / "nbgrader_config.py"
    if not configuration.exists():
        configuration.write_text(CONFIGURATION, encoding="utf-8")
    return path


def source(lesson: NotebookNode, record: LessonRecord) -> NotebookNode:
    """The instructor's notebook: self-test and open question of the record, tasks of the lesson."""
    imports = next(cell.source for cell in lesson.cells if cell.cell_type == "code")
    first = FIRST.format(f"{record.number} · {record.title}")
    cells = [
        _given(new_markdown_cell(first), "t"),
        _given(new_code_cell(imports.partition("\n\nuse_style()")[0]), "first"),
        *_self_test(record),
    ]
    exercises = iter(grader.of_lesson(record.number))
    for cell in lesson.cells:
        if "exercise" in tags_of(cell):
            cells += _task(next(exercises), cell.source)
        elif "task" in tags_of(cell):  # the rest of a task
            cells.append(_given(new_markdown_cell(cell.source), f"text-{len(cells)}"))
    cells.append(_progress(lesson, n_questions=len(record.self_test)))
    if record.open_question:
        cells += _open_question(record)
    assignment = new_notebook(metadata=lesson.metadata)
    assignment.cells = cells
    return assignment


def sheet(record: LessonRecord) -> str:
    """The self-test to print: questions and options, and the answers on a page of their own."""
    title = f"{record.number} · {record.title}"
    questions = []
    answers = []
    for number, question in enumerate(record.self_test, start=1):
        questions.append(selftest.unanswered(number, question))
        answers.append(f"{number}. {question.key}: {_right(question).reason}")
    paragraphs = [f"# {title}", "Name:", *questions, "## Answers", "\n".join(answers)]
    text = "\n\n".join(paragraphs)
    body = _SECTION_LINK.sub(r"\1", text)
    body = re.sub(r"\$\$(.+?)\$\$", lambda match: mathml(match[1], "block"), body, flags=re.S)
    body = re.sub(r"\$(.+?)\$", lambda match: mathml(match[1], "inline"), body, flags=re.S)
    html = MarkdownIt("commonmark", {"html": True}).enable("table").render(body)
    return SHEET.format(title=escape(title), body=html)


def _right(question: Question) -> Option:
    """The option that is right."""
    return question.options[LETTERS.index(question.key)]


def _self_test(record: LessonRecord) -> list[NotebookNode]:
    """The questions, a cell for the letters chosen, and its test, whose key students do not see."""
    numbered = list(enumerate(record.self_test, start=1))
    text = "\n\n".join(selftest.unanswered(number, question) for number, question in numbered)
    replies = {}
    for number, question in numbered:
        for letter, option in zip(LETTERS, question.options, strict=False):
            verdict = "right" if option.right else "not so"
            reason = _LINK.sub(r"\1", option.reason)  # a reply is plain text
            replies[number, letter] = f"{verdict}: {reason}"
    test = SELF_TEST.format(replies=pformat(replies, width=90), n_questions=len(numbered))
    empty = {number: "" for number, _ in numbered}
    choices = f"choices = {empty}  # a letter for each"
    return [
        _given(new_markdown_cell(f"## Self-test\n\n{text}"), "self-test"),
        new_code_cell(choices, id="choices"),
        _given(new_code_cell(test), "test-choices", grade=True, points=len(numbered)),
    ]


def _task(exercise: grader.Exercise, stub: str) -> list[NotebookNode]:
    """The answer cell of an exercise, and its test cell."""
    name = exercise.number.replace(".", "-")
    function = _function_of(stub)
    names = ", ".join(argument.arg for argument in function.args.args)
    call = f"{exercise.solution.__name__}({names})"
    shown = f"{_reference(exercise.solution)}\n\nreturn {call}"
    behind = indent(f"### BEGIN SOLUTION\n{shown}\n### END SOLUTION", "    ")
    answer = stub.partition("\n\n\nautocheck(")[0].replace("    raise NotImplementedError", behind)
    test = f'from bdl_lessons.exercises.api import score\n\nscore("{exercise.number}")'
    return [
        _given(new_code_cell(answer), f"answer-{name}", solution=True, locked=False),
        _given(new_code_cell(test), f"test-{name}", grade=True, points=len(exercise.criteria)),
    ]


def _function_of(stub: str) -> ast.FunctionDef:
    """The function that a cell tagged ``exercise`` hands out."""
    return next(part for part in ast.parse(stub).body if isinstance(part, ast.FunctionDef))


def _progress(lesson: NotebookNode, n_questions: int) -> NotebookNode:
    """The cell that says how many exercises were attempted and how many questions answered.

    It fails while something is open, by a line on stderr, since nbgrader's *Validate* shows nothing
    of what passes. It has no points, so that it changes none.
    """
    stubs = [cell.source for cell in lesson.cells if "exercise" in tags_of(cell)]
    names = [_function_of(stub).name for stub in stubs]
    source = PROGRESS.format(names=names, n_questions=n_questions)
    return _given(new_code_cell(source), "progress", grade=True, points=0)


def _reference(solution: grader.Answer) -> str:
    """The source of a reference solution with what it uses of its module, so that it runs."""
    module = inspect.getsource(inspect.getmodule(solution))
    statement_of: dict[str, ast.stmt] = {}
    for statement in ast.parse(module).body:
        for name in _bound_by(statement):
            statement_of[name] = statement
    needed = [statement_of[solution.__name__]]
    for statement in needed:  # it grows
        for name in _used_by(statement) & statement_of.keys():
            if statement_of[name] not in needed:
                needed.append(statement_of[name])
    needed.sort(key=lambda statement: statement.lineno)
    return "\n\n".join(ast.get_source_segment(module, statement) for statement in needed)


def _bound_by(statement: ast.stmt) -> set[str]:
    """The names that a statement of a module binds."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return {statement.name}
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return {alias.asname or alias.name for alias in statement.names}
    targets = getattr(statement, "targets", [])
    return {target.id for target in targets if isinstance(target, ast.Name)}


def _used_by(statement: ast.stmt) -> set[str]:
    """The names that a statement reads and does not bind inside itself."""
    names = [node for node in ast.walk(statement) if isinstance(node, ast.Name)]
    bound = {name.id for name in names if isinstance(name.ctx, ast.Store)}
    return {name.id for name in names} - bound


def _open_question(record: LessonRecord) -> list[NotebookNode]:
    """The question, and a cell for the answer that is graded by hand."""
    answer = f"### BEGIN SOLUTION\n{record.open_question.model_answer}\n### END SOLUTION"
    return [
        _given(new_markdown_cell(render.open_question_text(record)), "open-question"),
        _given(
            new_markdown_cell(answer),
            "open-answer",
            grade=True,
            solution=True,
            locked=False,
            points=4,
        ),
    ]


def _given(cell: NotebookNode, name: str, **flags: bool | int) -> NotebookNode:
    """The cell with what nbgrader asks of it; locked unless ``flags`` say otherwise."""
    cell.id = name
    cell.metadata["nbgrader"] = {
        "schema_version": 3,
        "grade_id": name,
        "cell_type": cell.cell_type,
        "task": False,
        "grade": False,
        "solution": False,
        "locked": True,
        **flags,
    }
    return cell
