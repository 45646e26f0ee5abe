"""The rules of the stage: each is shown a lesson with exactly one fault, and must name it."""

import ast

import nbformat
import pytest

from tools import form, slides

new = nbformat.v4
PICTURE = [new.new_output("display_data", {"image/png": "iVBORw0K"})]
RULES = (form.stage, form.slide_contents, form.slide_notes, form.code)


@pytest.fixture
def path(lesson_path):
    return lesson_path


def made_in(path):
    """A lesson of four slides with their notes, in which no rule finds a fault."""
    cells = [
        new.new_markdown_cell("# 01 · A title"),
        new.new_markdown_cell("## A question\n\n**What is it?**"),
        new.new_code_cell("show(figure)", metadata={"tags": ["hide-input", "idea"]}),
        new.new_markdown_cell("What the picture shows."),
        new.new_code_cell("x = 1"),
        new.new_markdown_cell("## Going deeper: more"),
    ]
    cells[2].outputs = PICTURE
    for index, (cell, kind) in enumerate(
        zip(cells, ["slide", "slide", "subslide", "-", "subslide", "skip"], strict=True)
    ):
        cell.id = f"01-{index:02}"
        cell.metadata["slideshow"] = {"slide_type": kind}
    for cell in (cells[1], cells[5]):
        cell.metadata["bdl"] = {"minutes": [1, 1], "mode": "lecture", "alone": 1}
    cells[5].metadata["bdl"]["part"] = "deeper"
    cells[1].metadata["bdl"]["role"] = ["question"]
    (path.parent / "notes").mkdir(exist_ok=True)
    (path.parent / "notes" / "01.md").write_text(
        "".join(f"## 01-{index:02}\nSay {index}.\n\n" for index in (0, 1, 2, 4))
    )
    return new.new_notebook(cells=cells)


def problems(notebook, path):
    return [problem for rule in RULES for problem in rule(notebook, path)]


def source(index, text, **more):
    def change(notebook):
        notebook.cells[index].source = text
        notebook.cells[index].metadata.update(more)

    return change


def cut(index):
    return lambda notebook: notebook.cells.pop(index)


def kind(index, name):
    return lambda notebook: notebook.cells[index].metadata["slideshow"].update(slide_type=name)


FAULTS = {
    "too long": (
        lambda notebook: notebook.cells[1].metadata["bdl"].update(minutes=[51, 51]),
        "the stage takes 51 to 51 minutes, at most 50",
    ),
    "too many slides": (
        lambda notebook: notebook.cells.extend([notebook.cells[4]] * 21),
        "the stage has 25 slides",
    ),
    "no idea": (source(2, "show(figure)", tags=["hide-input"]), "must have the tag 'idea'"),
    "deeper on stage": (kind(5, "slide"), "01-05: what stands behind the recap"),
    "words": (source(1, "## A question\n\n" + "word " * 60), "62 words, at most 60"),
    "code": (source(4, "x = 1\n" * 13), "13 lines of code"),
    "two things": (kind(4, "-"), "lines of code and pictures"),
    "a picture without a sentence": (cut(3), "a picture needs a sentence"),
    "wide code": (source(4, f"x = {'1' * 80}"), "code of 84 columns"),
    "no heading": (source(1, "**What is it?**"), "no heading"),
    "no note": (kind(3, "subslide"), "01-03: no note"),
    "a note too many": (kind(2, "-"), "01-02 opens no slide"),
    "much code": (
        lambda n: [n.cells.insert(4, new.new_code_cell("x = 1\n" * 110))],
        "111 lines of visible code",
    ),
    "two meanings": (source(4, "def x(): ...\nx = 1"), "the name 'x' has two meanings"),
    "a method that cannot fail": (source(4, "x = 1", tags=["method"]), "no break can be planted"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named(path, name):
    notebook = made_in(path)
    (change, message) = FAULTS[name]
    assert problems(notebook, path) == []
    change(notebook)
    named = problems(notebook, path)
    assert any(message in problem for problem in named), named


@pytest.mark.parametrize(
    ("code", "is_readable"),
    [
        ("[x for x in y]", False),
        ("z = [x for x in y]", True),
        ("z = [x for y in [t for t in u] for x in y]", False),
        ("step % 10 or path.append(1)", False),
        ("after = lambda step: path.append(step)", False),
        ("key = lambda step: path[step]", True),
        ("z = [path.append(x) for x in y]", False),
        ("a = 1; b = 2", False),
    ],
)
def test_code_that_a_class_cannot_read(code, is_readable):
    assert (not [*form.unreadable(ast.parse(code))]) == is_readable


def test_the_deck_has_a_designed_title_repeated_headings_and_notes(path):
    path.write_text(nbformat.writes(made_in(path)))
    page = slides.write(path, path.parent / "slides").read_text()
    assert '<p class="question">What is it?</p>' in page
    assert page.count('<h2 class="again">A question</h2>') == 2
    assert page.count('<aside class="notes">') == 4
    assert page.index("Say 2.") < page.index("Say 4.")
    assert "Going deeper" not in page
