"""An assignment from its source to grades and feedback, with submissions of many kinds."""

import csv
import functools
import linecache
import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from bdl_lessons.exercises import grader
from tools import assignments, grading, selftest
from tools.metadata import Lesson
from tools.notebook import paths

NAME = "00_start_here.ipynb"
CELL = "answer-00-1"
RIGHT = "    return p_drop * (1 - p_drop)"
WRONG = "    return (p_drop * (1 - p_drop)) ** 0.5"
HALF = "    return 0.25"
KEY = {
    number: question.key
    for number, question in enumerate(Lesson(paths(["00"])[0]).record.self_test, start=1)
}
TAUGHT = [path for path in paths() if not Lesson(path).is_index]
LOOP = "    return p_drop * (1 - p_drop)\n\nwhile True:\n    pass"
FORGED = WRONG + "\n\nfrom bdl_lessons import exercises\nexercises.score = lambda number: 4"


def nbgrader(folder, *arguments, output="stderr"):
    command = [sys.executable, "-m", "nbgrader", *arguments]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # it calls alembic
    where = {"cwd": folder, "env": os.environ | {"PATH": path}}
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, **where)
    assert done.returncode == 0, done.stderr
    return getattr(done, output)


def source_of(path):
    """The instructor's notebook of a lesson."""
    return assignments.source(nbformat.read(path, 4), Lesson(path).record)


def cell_of(notebook, name):
    return next(cell for cell in notebook.cells if cell.id == name)


def handed_in(release, body=None, test=None, drop=(), choices=None):
    """The notebook of a student who wrote ``body``, and changed or deleted other cells."""
    submission = nbformat.read(release, 4)
    if body:
        answer = cell_of(submission, CELL)
        answer.source = answer.source.replace("    raise NotImplementedError", body)
    if test:
        cell_of(submission, "test-00-1").source = test
    if choices:
        cell_of(submission, "choices").source = f"choices = {choices}"
    submission.cells = [cell for cell in submission.cells if cell.id not in drop]
    return submission


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """The folder of a course with the assignment of lesson 00, released."""
    pytest.importorskip("nbgrader")
    folder = tmp_path_factory.mktemp("course")
    assignments.write(paths(["00"])[0], folder)
    with (folder / "nbgrader_config.py").open("a") as file:
        file.write("c.ExecutePreprocessor.timeout = 20\n")
    nbgrader(folder, "generate_assignment", "lesson00")
    return folder


@pytest.fixture(scope="module")
def submitted(course):
    release = course / "release" / "lesson00" / NAME
    notebooks = {
        "right": handed_in(release, RIGHT),
        "chooser": handed_in(release, choices=KEY | {1: "E", 2: None}),
        "half": handed_in(release, HALF),
        "wrong": handed_in(release, WRONG),
        "empty": handed_in(release),
        "changer": handed_in(release, WRONG, test="4"),
        "forger": handed_in(release, FORGED),
        "remover": handed_in(release, RIGHT, drop=("test-00-1",)),
        "endless": handed_in(release, LOOP),
    }
    for student, notebook in notebooks.items():
        folder = course / "submitted" / student / "lesson00"
        folder.mkdir(parents=True)
        nbformat.write(notebook, folder / NAME)
    return notebooks


@pytest.mark.classroom
def test_students_get_the_stub_and_no_answer(course):
    text = (course / "release" / "lesson00" / NAME).read_text()
    assert "raise NotImplementedError" in text
    for hidden in ("SOLUTION", "solution(", "keep * p_drop", "HIDDEN", "said", "Right:"):
        assert hidden not in text
    nbgrader(course, "validate", f"source/lesson00/{NAME}")


@pytest.mark.classroom
def test_points_and_feedback(course, submitted):
    assert "does not exist" not in nbgrader(course, "autograde", "lesson00")
    nbgrader(course, "generate_feedback", "lesson00")
    nbgrader(course, "export")
    with (course / "grades.csv").open() as file:
        points = {row["student_id"]: float(row["score"] or 0) for row in csv.DictReader(file)}
    full = len(grader.find("00.1").criteria)
    assert points["right"] == points["endless"] == full
    assert 0 < points["half"] < full
    assert points["wrong"] == points["changer"] == points["forger"] < full
    assert points["empty"] == points["remover"] == 0  # nothing is gained by deleting a test
    assert points["chooser"] == 3  # one of five does not exist, one is not answered
    page = course / "feedback" / "wrong" / "lesson00" / NAME.replace("ipynb", "html")
    assert "this is the standard deviation" in page.read_text()


@pytest.mark.parametrize("lesson", paths(), ids=lambda path: path.name[:2])
def test_every_exercise_has_its_cells_and_points(lesson):
    if lesson.name.startswith("90"):
        return
    taught = nbformat.read(lesson, 4)
    assignment = source_of(lesson)
    given = {cell.id: cell for cell in assignment.cells}
    assert len(given) == len(assignment.cells)
    assert ("open-answer" in given) == (assignment.cells[-1].id == "open-answer")
    assert "are equations of the lesson" in given["t"].source
    imports = next(cell.source for cell in taught.cells if cell.cell_type == "code")
    assert imports.startswith(given["first"].source), "and so it installs what the lesson does"
    exec(given["first"].source, names := {})
    assert {"exercise", "hint"} <= names.keys()
    assert ("08.4, in formulas" in str(assignment)) == (lesson.name[:2] == "08")
    assert given["test-choices"].metadata["nbgrader"]["points"] == selftest.N_QUESTIONS
    for exercise in grader.of_lesson(lesson.name[:2]):
        name = exercise.number.replace(".", "-")
        assert given[f"test-{name}"].metadata["nbgrader"]["points"] == len(exercise.criteria)
        assert "### BEGIN SOLUTION" in given[f"answer-{name}"].source, "which nbgrader takes out"
        assert "grader" not in given[f"answer-{name}"].source
        exec(given[f"answer-{name}"].source, names := {"exercise": lambda number: lambda it: it})
        with grader.double_precision():
            shown, right = map(exercise.probe, ([*names.values()][-1], exercise.solution))
        assert grader.close(shown, right, exercise.probe_atol), "the reference runs as it stands"


def test_the_self_test_replies_to_each_letter(capsys):
    test = cell_of(source_of(paths(["00"])[0]), "test-choices").source
    assert test.startswith("# The replies to your letters")  # which is all that students see
    spelled = KEY | {1: "E", 2: None, 4: f" {KEY[4].lower()}"}
    for choices, said in ((spelled, "2. no such option\n3. right"), ([*KEY], "no dict of letters")):
        exec(test.replace("\nsum(", "\npoints = sum("), names := {"choices": choices})
        shown = capsys.readouterr().out
        assert names["points"] == 3 * (choices is spelled)
        assert said in shown
        assert "](" not in shown


MARKED_SOLUTION = re.compile(r" *### BEGIN SOLUTION.*### END SOLUTION", re.S)


def released(notebook):
    """The sources of the cells that students get, by name: nbgrader takes out what is marked."""
    marked = re.compile(r"^[^\n]*BEGIN (SOLUTION|HIDDEN TESTS).*?END \1[^\n]*$", re.S | re.M)
    return {cell.id: marked.sub("", cell.source) for cell in notebook.cells}


@pytest.mark.parametrize("lesson", TAUGHT, ids=lambda path: path.name[:2])
def test_neither_key_nor_reasons_nor_solutions_reach_students(lesson):
    record = Lesson(lesson).record
    taught = nbformat.read(lesson, 4)
    lines_of_the_lesson = {line for cell in taught.cells for line in cell.source.splitlines()}
    given = released(source_of(lesson))
    assert given["test-choices"].splitlines() == assignments.SELF_TEST.splitlines()[:1]
    assert given["choices"] == "choices = {1: '', 2: '', 3: '', 4: '', 5: ''}  # a letter for each"
    text = "\n".join(given.values())
    for question in record.self_test:
        assert question.text in text
        for option in question.options:
            assert option.text in text
            assert option.reason not in text
    if record.open_question:
        assert given["open-answer"] == ""
        assert record.open_question.model_answer not in text
    for exercise in grader.of_lesson(record.number):
        answer = given[f"answer-{exercise.number.replace('.', '-')}"]
        assert set(answer.splitlines()) <= lines_of_the_lesson, "the stub and nothing else"


def test_a_configuration_that_a_teacher_changed_is_kept(tmp_path):
    (lesson,) = paths(["00"])
    configuration = tmp_path / "nbgrader_config.py"
    assignments.write(lesson, tmp_path)
    assert configuration.read_text() == assignments.CONFIGURATION
    configuration.write_text("# of the teacher")
    assignments.write(lesson, tmp_path)
    assert configuration.read_text() == "# of the teacher"


def told_by_progress(notebook, capsys, choices):
    """What the cell without points says of the answers of a notebook, and whether it fails."""
    names = {}
    for cell in notebook.cells:
        if cell.id.startswith(("first", "answer-")):
            run_as_a_cell(cell, names)
    names["choices"] = choices
    capsys.readouterr()
    run_as_a_cell(cell_of(notebook, "progress"), names)
    said = capsys.readouterr()
    return said.out or said.err, bool(said.err)


def run_as_a_cell(cell, names):
    """Run it as a kernel does, where ``inspect`` finds the source of its functions."""
    file = f"<{cell.id} {id(cell)}>"
    linecache.cache[file] = (len(cell.source), None, cell.source.splitlines(True), file)
    exec(compile(cell.source, file, "exec"), names)


@pytest.mark.parametrize("lesson", TAUGHT, ids=lambda path: path.name[:2])
def test_validate_says_how_many_exercises_were_attempted(lesson, capsys):
    assignment = source_of(lesson)
    assert cell_of(assignment, "progress").metadata["nbgrader"]["points"] == 0
    answers = [cell for cell in assignment.cells if cell.id.startswith("answer-")]
    n = len(answers)
    solved = told_by_progress(assignment, capsys, KEY)
    all_said = f"{n} of {n} exercises attempted, 5 of 5 questions of the self-test answered.\n"
    assert solved == (all_said, False), "the solutions pass, and so does the cell"
    for cell in answers:
        cell.source = MARKED_SOLUTION.sub("    raise NotImplementedError", cell.source)
    nothing = f"0 of {n} exercises attempted, 0 of 5 questions of the self-test answered.\n"
    assert told_by_progress(assignment, capsys, dict.fromkeys(KEY, "")) == (nothing, True)
    answers[0].source = answers[0].source.replace("    raise", "    return 1\n    raise")
    one = f"1 of {n} exercises attempted, 2 of 5 questions of the self-test answered.\n"
    assert told_by_progress(assignment, capsys, {1: "A", 2: "C", 3: ""}) == (one, True)


@pytest.mark.parametrize(
    ("answer", "is_attempted"),
    [
        (None, False),
        ("def mask_variance(p_drop):\n    'Only this.'", False),
        ("def mask_variance(p_drop):\n    raise NotImplementedError", False),
        ("def mask_variance(p_drop):\n    raise NotImplementedError('later')", True),
        ("mask_variance = lambda p_drop: 0", True),
        ("import math\nmask_variance = math.sqrt", True),
        ("mask_variance = 4", True),
    ],
)
def test_what_is_handed_in_is_counted_whatever_it_is(answer, is_attempted, capsys):
    assignment = source_of(paths(["00"])[0])
    if answer is None:
        assignment.cells.remove(cell_of(assignment, CELL))
    else:
        cell_of(assignment, CELL).source = answer
    said, fails = told_by_progress(assignment, capsys, choices=None)
    assert said.startswith(f"{int(is_attempted)} of 1 exercises attempted, 0 of 5 questions")
    assert fails


@pytest.mark.classroom
def test_validate_tells_an_untouched_notebook_from_a_finished_one(course, submitted):
    def said(notebook):
        nbformat.write(notebook, course / NAME)
        return " ".join(nbgrader(course, "validate", NAME, output="stdout").split())

    release = course / "release" / "lesson00" / NAME
    untouched = said(handed_in(release))
    assert "VALIDATION FAILED ON 2 CELL(S)" in untouched
    assert "0 of 1 exercises attempted, 0 of 5 questions of the self-test answered." in untouched
    finished = said(handed_in(release, RIGHT, choices=KEY))
    assert "Success! Your notebook passes all the tests." in finished
    assert "attempted" not in finished


@pytest.mark.classroom
def test_submitted_notebooks_become_a_table(course, submitted, tmp_path, monkeypatch):
    folder = tmp_path / "in"
    release = course / "release" / "lesson00" / NAME
    notebooks = {student: submitted[student] for student in ("half", "empty", "endless")} | {
        "dead": handed_in(release, "    import os\n    os._exit(1)"),
        "loud": handed_in(release, f"    import warnings\n    warnings.warn('loud')\n{RIGHT}"),
        "slow": handed_in(release, "    return time.sleep(60)\n\nimport time"),
        "void": handed_in(release, drop=(CELL,)),
    }
    notebooks["loud"].metadata.kernelspec.name = "of-the-student"
    for student, notebook in notebooks.items():
        path = folder / student / NAME
        path.parent.mkdir(parents=True)
        nbformat.write(notebook, path)
    (folder / "no.ipynb").write_text("hello")
    monkeypatch.setattr(grading, "grade", functools.partial(grading.grade, cell_seconds=15))
    trouble = grading.table(folder, tmp_path / "grades.csv")
    assert [line.split(": ")[:2] for line in trouble] == [
        [f"dead/{NAME}", "no mark for 00.1"],
        ["no.ipynb", "not a notebook"],
        [f"slow/{NAME}", "no mark for 00.1"],
        [f"void/{NAME}", "no exercise in it"],
    ]
    with (tmp_path / "grades.csv").open() as file:
        marks = {row["notebook"].split("/")[0]: row["00.1"] for row in csv.DictReader(file)}
    assert marks.pop("half") in {"1/4", "2/4", "3/4"}
    nothing = dict.fromkeys(("dead", "no.ipynb", "slow", "void"), "")
    assert marks == nothing | {"empty": "0/4", "loud": "4/4", "endless": "4/4"}
