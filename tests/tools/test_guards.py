"""Each guard is shown a lesson with exactly one fault, and must name it."""

import re
from pathlib import Path

import nbformat
import pytest

from tools import guards
from tools.guards import problems

new = nbformat.v4


@pytest.fixture(autouse=True)
def without_the_rules_of_the_stage(monkeypatch):
    """``test_form`` shows those; the lessons here are too small to have the form."""
    monkeypatch.setattr("tools.guards.FORM", ())


def code(notebook, index=1):
    return [cell for cell in notebook.cells if cell.cell_type == "code"][index]


def clock(notebook):
    """The ``bdl`` metadata of the first section."""
    return notebook.cells[1].metadata["bdl"]


def with_output(kind, **content):
    """A fault, like all that follow: a function that changes a notebook."""

    def fault(notebook):
        code(notebook).outputs = [new.new_output(kind, **content)]

    return fault


def with_source(source, index=1):
    def fault(notebook):
        code(notebook, index).source = source

    return fault


def with_tags(*tags, index=1, **metadata):
    def fault(notebook):
        code(notebook, index).metadata.update(tags=[*tags], **metadata)

    return fault


def with_replaced(index, before, after):
    """Other words in the cell with this number."""

    def fault(notebook):
        cell = notebook.cells[index]
        cell.source = cell.source.replace(before, after)

    return fault


def with_more_text(added):
    def fault(notebook):
        notebook.cells[1].source += added

    return fault


def with_clock(**entries):
    def fault(notebook):
        clock(notebook).update(entries)

    return fault


def never_run(notebook):
    code(notebook).execution_count = None


def without_picture(notebook):
    code(notebook, 2).outputs = []


def with_two_ignored_outputs(notebook):
    for cell in notebook.cells[2:4]:
        cell.metadata["tags"] = [*cell.metadata.get("tags", []), "nbval-ignore-output"]


def without_slide_type(notebook):
    notebook.cells[1].metadata.pop("slideshow")


def without_clock(notebook):
    notebook.cells[1].metadata.pop("bdl")


def without_open_question(notebook):
    notebook.cells[-4].metadata.pop("tags")


def with_little_time_for_exercises(notebook):
    notebook.cells[-5].metadata["bdl"]["minutes"] = [5, 10]


def hidden_by_its_tag_alone(notebook):
    code(notebook, 0).metadata.pop("jupyter")


def without_result(notebook):
    clock(notebook)["role"].remove("result")


def with_unknown_role(notebook):
    clock(notebook)["role"].append("joke")


def without_deeper_part(notebook):
    notebook.cells[-1].metadata["bdl"].pop("part")


HOME = "/".join(["", "home", "me", "x"])
A_MEGABYTE = "é" * 600_000  # two bytes each
AN_OPEN_FIGURE = "figure, axis = plt.subplots()\nshow(figure)"

FAULTS = {
    "never run": (never_run, "execution counts"),
    "stderr": (with_output("stream", name="stderr", text="UserWarning"), "stderr is stored"),
    "SVG": (with_output("display_data", data={"image/svg+xml": "<svg/>"}), "use PNG"),
    "a path": (
        with_output("stream", name="stdout", text=f"saved to {HOME}"),
        "a path of the author's",
    ),
    "an address": (
        with_output("display_data", data={"text/plain": "<A at 0x7f0011223344>"}),
        "an object's address",
    ),
    "a panel without picture": (without_picture, "no still picture"),
    "unknown tag": (with_tags("exercize"), "unknown tags"),
    "two ignored": (with_two_ignored_outputs, "one ignored output is allowed"),
    "no slide type": (without_slide_type, "slide type is None"),
    "an untimed section": (without_clock, "no bdl metadata"),
    "minutes reversed": (with_clock(minutes=[10, 5]), "minutes must be a range"),
    "unknown mode": (with_clock(mode="alone"), "mode is 'alone'"),
    "too large": (with_more_text(A_MEGABYTE), "the limit is 1 MB"),
    "magic": (with_source("%matplotlib inline"), "not replayable"),
    "dead link": (with_more_text("\n[there](nowhere.ipynb)"), "nowhere.ipynb leads nowhere"),
    "two exercises": (
        with_tags(index=-1),
        "2 exercises, and exercise_minutes of the record has 3",
    ),
    "a title of its own": (
        with_replaced(0, "a claim", "another"),
        "01-00: the rendered text is out of date",
    ),
    "a question of its own": (
        with_replaced(2, "What", "Who"),
        "01-02: the rendered text is out of date",
    ),
    "no open question": (without_open_question, "no cell is tagged 'open-question'"),
    "other minutes": (
        with_source('"(60 minutes)"', index=-1),
        "the stub does not say (10 minutes)",
    ),
    "no time to answer": (
        with_little_time_for_exercises,
        "the exercises take 30 minutes, their section (5, 10)",
    ),
    "unknown part": (with_clock(part="end"), "part is 'end'"),
    "draws in the open": (with_source(AN_OPEN_FIGURE), "it stands open"),
    "hides the idea": (
        with_tags("hide-input", jupyter={"source_hidden": True}),
        "it is hidden",
    ),
    "hidden by tag alone": (hidden_by_its_tag_alone, "go together"),
    "long cell": (with_source("x = 1\n" * 26), "26 lines of code, the limit is 25"),
    "nothing built": (with_tags(index=3), "no cell is tagged 'method'"),
    "printed float": (
        with_output("stream", name="stdout", text="accuracy 0.97\n"),
        "a number outside of check and ResultsTable: 'accuracy 0.97'",
    ),
    "guessed minutes": (with_clock(minutes=[60, 60]), "(60, 60) min stored"),
    "stated minutes": (
        with_replaced(0, "min lecture", "minutes"),
        "rendered text is out of date",
    ),
    "no result": (without_result, "no section before the recap has the role result"),
    "unknown role": (with_unknown_role, "unknown roles ['joke']"),
    "nothing deeper": (without_deeper_part, "no section has the part 'deeper'"),
    "help not imported": (
        with_more_text(' `hint("01.1")`'),
        "readers are told to call hint(): import",
    ),
    "dialect": (with_more_text(" A committee."), "'committee' in"),
    "unknown symbol": (with_more_text(r" $\zeta$"), "zeta'] in"),
    "symbol of a later lesson": (with_more_text(r" $$\tau = 1$$"), "tau'] in"),
    "sigma as a function": (with_more_text(r" $\sigma(x)$"), "σ is a standard deviation"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named(lesson, lesson_path, name):
    notebook = lesson("x = 1")
    assert problems(notebook, lesson_path) == []
    put_into, message = FAULTS[name]
    put_into(notebook)
    reported = problems(notebook, lesson_path)
    assert any(message in problem for problem in reported), reported


def test_numbers_that_check_and_results_show_are_known(lesson, lesson_path):
    notebook = lesson("x = 1")
    known = "ok   mean: 0.251 (expected 0.25 ± 0.01)\n01.1 · a task: solved.\n"
    print_numbers = with_output("stream", name="stdout", text=known)
    print_numbers(notebook)
    assert problems(notebook, lesson_path) == []


def mentions(text):
    lesson = new.new_notebook(cells=[new.new_markdown_cell(text, id="02-01")])
    return list(guards.mentions(lesson, Path("02_a_claim.ipynb")))


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("Lesson 05 shows it.", ["05"]),
        ("as in lessons 07 and 11", ["07", "11"]),
        ("lessons [07](07_a.ipynb), 08 and [11](11_b.ipynb)", ["08"]),
        ("lessons 07 to 13, and lesson 02's own", ["07", "13"]),
        ("the end of\nlesson 10's proof", ["10"]),
        ("[lesson 05](05_a.ipynb), exercise 05.1, `tools plan lesson 05`", []),
        ("this is lesson 02; 05 of 20 are right", []),
    ],
)
def test_a_lesson_that_is_named_without_a_link_is_found(text, numbers):
    named = [re.search(r"lesson (\d\d)", problem)[1] for problem in mentions(text)]
    assert named == numbers


def test_a_link_that_names_another_lesson_is_found():
    (problem,) = mentions("[Lesson 05](06_b.ipynb) and [06](06_b.ipynb)")
    assert "says lesson 05 and leads to 06" in problem
