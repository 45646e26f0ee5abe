"""Each guard is shown a lesson with exactly one fault, and must name it."""

from pathlib import Path

import nbformat
import pytest

from tools.guards import letters, problems
from tools.notebook import WIDGET_VIEW

PATH = Path("01_a_claim.ipynb")
new = nbformat.v4


@pytest.fixture(autouse=True)
def without_the_rules_of_the_stage(monkeypatch):
    """``test_form`` shows those; the lessons here are too small to have the form."""
    monkeypatch.setattr("tools.form.has_form", lambda path: False)


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def stream(name, text):
    return new.new_output("stream", name=name, text=text)


def shown(**data):
    return new.new_output("display_data", data)


def test_a_sound_lesson_has_no_problem(lesson):
    assert problems(lesson("x = 1"), PATH) == []


def never_run(notebook):
    code_cells(notebook)[1].execution_count = None


def run_twice(notebook):
    code_cells(notebook)[1].execution_count = 7


def widget_state(notebook):
    notebook.metadata["widgets"] = {}


def error_output(notebook):
    code_cells(notebook)[1].outputs = [new.new_output("error", ename="E", evalue="", traceback=[])]


def stderr(notebook):
    code_cells(notebook)[1].outputs = [stream("stderr", "UserWarning")]


def widget_view(notebook):
    code_cells(notebook)[2].outputs[0].data[WIDGET_VIEW] = {}


def svg(notebook):
    code_cells(notebook)[1].outputs = [shown(**{"image/svg+xml": "<svg/>"})]


def private_path(notebook):
    path = "/".join(["", "home", "me", "x"])
    code_cells(notebook)[1].outputs = [stream("stdout", f"saved to {path}")]


def address(notebook):
    code_cells(notebook)[1].outputs = [shown(**{"text/plain": "<A at 0x7f0011223344>"})]


def panel_without_picture(notebook):
    code_cells(notebook)[2].outputs = []


def unknown_tag(notebook):
    code_cells(notebook)[1].metadata["tags"] = ["exercize"]


def two_ignored(notebook):
    for cell in code_cells(notebook)[:2]:
        cell.metadata["tags"] = [*cell.metadata.get("tags", []), "nbval-ignore-output"]


def no_slide_type(notebook):
    del notebook.cells[1].metadata["slideshow"]


def untimed_section(notebook):
    del notebook.cells[1].metadata["bdl"]


def minutes_reversed(notebook):
    notebook.cells[1].metadata["bdl"]["minutes"] = [10, 5]


def unknown_mode(notebook):
    notebook.cells[1].metadata["bdl"]["mode"] = "alone"


def timing_off_a_section(notebook):
    notebook.cells[2].metadata["bdl"] = {"minutes": [1, 2], "mode": "pair", "section": "x"}


def too_large(notebook):
    notebook.cells[1].source += "é" * 600_000  # two bytes each


def semicolon(notebook):
    code_cells(notebook)[1].source = "plot();"


def magic(notebook):
    code_cells(notebook)[1].source = "%matplotlib inline"


def dead_link(notebook):
    notebook.cells[1].source += "\n[there](nowhere.ipynb)"


def no_claim(notebook):
    notebook.cells[0].source = notebook.cells[0].source.replace("# 01 · ", "# ")


def section_missing(notebook):
    notebook.cells[-2].source = "## Goodbye"


def sections_swapped(notebook):
    notebook.cells[-1], notebook.cells[-2] = notebook.cells[-2], notebook.cells[-1]


def too_few_exercises(notebook):
    code_cells(notebook)[-1].metadata["tags"] = []


def draws_in_the_open(notebook):
    code_cells(notebook)[1].source = "figure, axis = plt.subplots()\nshow(figure)"


def hides_the_idea(notebook):
    code_cells(notebook)[1].metadata.update(tags=["hide-input"], jupyter={"source_hidden": True})


def hides_by_tag_alone(notebook):
    del code_cells(notebook)[0].metadata["jupyter"]


def long_cell(notebook):
    code_cells(notebook)[1].source = "x = 1\n" * 26


def long_method(notebook):
    code_cells(notebook)[3].source = "x = 1\n" * 16


def nothing_built(notebook):
    code_cells(notebook)[3].metadata["tags"] = []


def printed_float(notebook):
    output = new.new_output("stream", name="stdout", text="accuracy 0.97\n")
    code_cells(notebook)[1].outputs = [output]


def shown_float(notebook):
    output = new.new_output("execute_result", {"text/plain": "0.97"}, execution_count=4)
    code_cells(notebook)[1].outputs = [output]


def guessed_minutes(notebook):
    notebook.cells[1].metadata["bdl"]["minutes"] = [60, 60]


def stated_minutes(notebook):
    notebook.cells[0].source = notebook.cells[0].source.replace("min lecture", "minutes")


def without_result(notebook):
    notebook.cells[1].metadata["bdl"]["role"].remove("result")


def unknown_role(notebook):
    notebook.cells[1].metadata["bdl"]["role"].append("joke")


def nothing_deeper(notebook):
    notebook.cells[-1].source = "## More"


def dialect(notebook):
    notebook.cells[1].source += " A committee."


def unknown_symbol(notebook):
    notebook.cells[1].source += r" $\zeta$"


def symbol_of_a_later_lesson(notebook):
    notebook.cells[1].source += r" $$\tau = 1$$"


def sigma_as_a_function(notebook):
    notebook.cells[1].source += r" $\sigma(x)$"


FAULTS = {
    never_run: "execution counts",
    run_twice: "execution counts",
    widget_state: "metadata.widgets",
    error_output: "an error is stored",
    stderr: "stderr is stored",
    widget_view: "a widget view is stored",
    svg: "use PNG",
    private_path: "a path of the author's machine",
    address: "an object's address",
    panel_without_picture: "no still picture",
    unknown_tag: "unknown tags",
    two_ignored: "one ignored output is allowed",
    no_slide_type: "slide type is None",
    untimed_section: "no bdl metadata",
    minutes_reversed: "minutes must be a range",
    unknown_mode: "mode is 'alone'",
    timing_off_a_section: "belongs on a cell that opens a section",
    too_large: "the limit is 1 MB",
    semicolon: "trailing ';'",
    magic: "not replayable",
    dead_link: "nowhere.ipynb leads nowhere",
    no_claim: "the title must read",
    section_missing: "sections missing: Recap",
    sections_swapped: "sections out of order",
    too_few_exercises: "3 to 5 exercises, found 2",
    draws_in_the_open: "it stands open",
    hides_the_idea: "it is hidden",
    hides_by_tag_alone: "go together",
    long_cell: "26 lines of code, the limit is 25",
    long_method: "16 lines of code, the limit is 15",
    nothing_built: "no cell is tagged 'method'",
    printed_float: "a number outside of check and ResultsTable: 'accuracy 0.97'",
    shown_float: "a number outside of check and ResultsTable: '0.97'",
    guessed_minutes: "(60, 60) min stored",
    stated_minutes: "the first cell must say",
    without_result: "no section before the recap has the role result",
    unknown_role: "unknown roles ['joke']",
    nothing_deeper: "no section '## Going deeper'",
    dialect: "'committee' in",
    unknown_symbol: "zeta'] in",
    symbol_of_a_later_lesson: "tau'] in",
    sigma_as_a_function: "σ is a standard deviation",
}


@pytest.mark.parametrize(
    ("fault", "message"), FAULTS.items(), ids=lambda f: getattr(f, "__name__", "")
)
def test_a_fault_is_named(lesson, fault, message):
    notebook = lesson("x = 1")
    fault(notebook)
    found = problems(notebook, PATH)
    assert any(message in problem for problem in found), found


def test_the_index_is_written_in_the_terms_of_the_field(lesson):
    notebook = lesson()
    notebook.cells[0].source += "\n\nThe price of a posterior."
    path = Path("90_an_index.ipynb")
    assert any("KL term, complexity term" in problem for problem in problems(notebook, path))


def test_numbers_that_check_and_results_show_are_known(lesson):
    notebook = lesson("x = 1")
    known = "ok   mean: 0.251 (expected 0.25 ± 0.01)\n01.1 · a task: solved.\n"
    code_cells(notebook)[1].outputs = [new.new_output("stream", name="stdout", text=known)]
    assert problems(notebook, PATH) == []


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        (r"\mathbb E[x_i^2] = \text{keep}", {"x", "i"}),
        (r"\mathcal N(m, \Sigma)", {"m", r"\Sigma"}),
        (r"\begin{aligned} a &= \sqrt{b} \end{aligned}", {"a", "b"}),
        (r"\operatorname{tr}(\Lambda^\top) \, dx", {r"\Lambda", "x"}),
    ],
)
def test_letters_of_a_formula(formula, expected):
    assert letters(formula) == expected
