"""What ``show_solution`` prints runs where a reader pastes it: under ``@exercise`` in the lesson.

The stub's function is replaced by the printed one, and nothing is imported besides. An assignment
gives a student no more than the first code cell of the lesson, so that is all a printed solution
may use; the complete variant runs the lesson with all solutions pasted, in a kernel.
"""

import ast
import functools
import inspect
import re

import matplotlib
import nbformat
import pytest
import torch
from nbformat import NotebookNode

from bdl_lessons.exercises import api, show_solution
from bdl_lessons.exercises.grader import find, lessons, of_lesson
from tools import grading, notebook

NUMBERS = [exercise.number for lesson in lessons() for exercise in of_lesson(lesson)]


@functools.cache
def lesson_of(number: str) -> NotebookNode:
    (path,) = notebook.paths([number[:2]])
    return notebook.read(path)


def stub_of(number: str) -> NotebookNode:
    cells = [c for c in lesson_of(number).cells if f'@exercise("{number}")' in c.source]
    assert len(cells) == 1, f"{number} has {len(cells)} stubs"
    return cells[0]


def pasted(stub: str, solution: str) -> str:
    """The cell with the solution in place of the stub's function, below its ``@exercise``."""
    function = ast.parse(stub).body[0]
    lines = stub.splitlines()
    return "\n".join([*lines[: function.lineno - 1], solution, *lines[function.end_lineno :]])


def printed(number: str, capsys) -> str:
    show_solution(number)
    return capsys.readouterr().out


@pytest.fixture
def lesson_imports(monkeypatch):
    """The names of the first code cell of a lesson; what the cell sets is set back."""
    monkeypatch.setattr(api, "_answers", {})
    dtype = torch.get_default_dtype()
    n_threads = torch.get_num_threads()

    def namespace(number: str) -> dict:
        first = notebook.code_of(lesson_of(number))[0].source
        names = {}
        exec(first.partition("\n\nuse_style()")[0], names)
        exec("\n".join(re.findall(r"^torch\.set_default_dtype.*$", first, re.M)), names)
        return names

    with matplotlib.rc_context():
        yield namespace
    torch.set_default_dtype(dtype)
    torch.set_num_threads(n_threads)


@pytest.mark.parametrize("number", NUMBERS)
class TestEveryPrintedSolution:
    def test_it_is_solved_with_all_points_where_it_is_pasted(self, number, lesson_imports, capsys):
        cell = pasted(stub_of(number).source, printed(number, capsys))
        names = lesson_imports(number)
        exec(compile(cell, f"<{number} pasted>", "exec"), names)
        assert "solved.\n" in capsys.readouterr().out
        assert api.score(number) == len(find(number).criteria)

    def test_it_has_the_name_and_the_arguments_of_the_stub(self, number, capsys):
        stub = ast.parse(stub_of(number).source).body[0]
        solution = ast.parse(printed(number, capsys)).body[0]
        assert solution.name == stub.name
        assert ast.unparse(solution.args) == ast.unparse(stub.args)

    def test_it_shows_the_thought_itself(self, number):
        """No function of its module does the work: a reader could not look it up."""
        solution = find(number).solution
        names = {
            n.id
            for n in ast.walk(ast.parse(inspect.getsource(solution)))
            if isinstance(n, ast.Name)
        }
        module = inspect.getmodule(solution)
        hidden = [
            n for n in names if getattr(vars(module).get(n), "__module__", None) == module.__name__
        ]
        assert not hidden


@pytest.mark.slow
@pytest.mark.parametrize("lesson", lessons())
def test_a_lesson_with_all_solutions_pasted_gets_all_points_in_a_kernel(lesson, tmp_path, capsys):
    exercises = of_lesson(lesson)
    copy = lesson_of(lesson).copy()
    for exercise in exercises:
        (cell,) = [c for c in copy.cells if f'@exercise("{exercise.number}")' in c.source]
        cell.source = pasted(cell.source, printed(exercise.number, capsys))
    path = tmp_path / f"my_{lesson}.ipynb"
    nbformat.write(copy, path)
    points = grading.grade(path, cell_seconds=300)
    assert points == {exercise.number: len(exercise.criteria) for exercise in exercises}
