"""Each guard is shown a lesson with exactly one fault, and must name it."""

from pathlib import Path

import nbformat
import pytest

from tools.guards import problems
from tools.notebook import WIDGET_VIEW

PATH = Path("01_a_claim.ipynb")
new = nbformat.v4


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


def notes_without_tag(notebook):
    notebook.cells[1].metadata["slideshow"]["slide_type"] = "notes"


def untimed_section(notebook):
    del notebook.cells[1].metadata["bdl"]


def minutes_reversed(notebook):
    notebook.cells[1].metadata["bdl"]["minutes"] = [10, 5]


def unknown_mode(notebook):
    notebook.cells[1].metadata["bdl"]["mode"] = "alone"


def timing_off_a_section(notebook):
    notebook.cells[2].metadata["bdl"] = {"minutes": [1, 2], "mode": "pair", "section": "x"}


def too_large(notebook):
    code_cells(notebook)[1].source = "#" * 1_000_001


def too_long(notebook):
    notebook.cells += [
        new.new_markdown_cell("x", metadata={"slideshow": {"slide_type": "-"}}) for _ in range(60)
    ]


def semicolon(notebook):
    code_cells(notebook)[1].source = "plot();"


def magic(notebook):
    code_cells(notebook)[1].source = "%matplotlib inline"


def too_many_imports(notebook):
    lines = [f"from bdl_lessons.r{number} import (\n    a, b,\n)" for number in range(9)]
    code_cells(notebook)[1].source = "\n".join(lines)


def subpackages_out_of_order(notebook):
    code_cells(notebook)[1].source = "from bdl_lessons.b import x\nfrom bdl_lessons.a import x"


def names_out_of_order(notebook):
    code_cells(notebook)[1].source = "from bdl_lessons.core import (\n    check, BLUE,\n)"


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
    notes_without_tag: "instructor notes",
    untimed_section: "no bdl metadata",
    minutes_reversed: "minutes must be a range",
    unknown_mode: "mode is 'alone'",
    timing_off_a_section: "belongs on a cell that opens a section",
    too_large: "the limit is 1 MB",
    too_long: "the limit is 60",
    semicolon: "trailing ';'",
    magic: "not replayable",
    too_many_imports: "9 imports from bdl_lessons, the limit is 8",
    subpackages_out_of_order: "are not sorted",
    names_out_of_order: "are not sorted",
    dead_link: "nowhere.ipynb leads nowhere",
    no_claim: "the title must read",
    section_missing: "sections missing: Recap",
    sections_swapped: "sections out of order",
    too_few_exercises: "3 to 5 exercises, found 2",
}


@pytest.mark.parametrize(
    ("fault", "message"), FAULTS.items(), ids=lambda f: getattr(f, "__name__", "")
)
def test_a_fault_is_named(lesson, fault, message):
    notebook = lesson("x = 1")
    fault(notebook)
    assert any(message in problem for problem in problems(notebook, PATH)), problems(notebook, PATH)


def test_the_index_states_the_minutes_of_all_sections(lesson):
    (found,) = [p for p in problems(lesson(), Path("90_an_index.ipynb")) if "must say" in p]
    assert "must say '52–53 min', the sum of its sections; found 2–3 min" in found


def test_the_index_is_written_in_the_terms_of_the_field(lesson):
    notebook = lesson()
    notebook.cells[0].source += "\n\nThe price of a posterior."
    path = Path("90_an_index.ipynb")
    assert any("KL term, complexity term" in problem for problem in problems(notebook, path))
