"""Each guard is shown a lesson with exactly one fault, and must name it."""

import nbformat
import pytest

from tools.guards import problems

new = nbformat.v4


@pytest.fixture(autouse=True)
def without_the_rules_of_the_stage(monkeypatch):
    """``test_form`` shows those; the lessons here are too small to have the form."""
    monkeypatch.setattr("tools.guards.FORM", ())


def code(notebook, index=1):
    return [cell for cell in notebook.cells if cell.cell_type == "code"][index]


def timing(notebook):
    return notebook.cells[1].metadata["bdl"]


def outputs(kind, **content):
    return lambda n: code(n).update(outputs=[new.new_output(kind, **content)])


def shown(kind, data):
    return outputs("display_data", data={kind: data})


def source(text, index=1):
    return lambda n: code(n, index).update(source=text)


def tagged(*tags, index=1, **more):
    return lambda n: code(n, index).metadata.update(tags=[*tags], **more)


def text(index, old, new_text):
    return lambda n: n.cells[index].update(source=n.cells[index].source.replace(old, new_text))


def more_text(added):
    return lambda n: n.cells[1].update(source=n.cells[1].source + added)


HOME = "/".join(["", "home", "me", "x"])
STRAY_NUMBER = "a number outside of check and ResultsTable: "


def two_ignored(notebook):
    for cell in notebook.cells[2:4]:
        cell.metadata["tags"] = [*cell.metadata.get("tags", []), "nbval-ignore-output"]


FAULTS = {
    "never run": (lambda n: code(n).update(execution_count=None), "execution counts"),
    "stderr": (outputs("stream", name="stderr", text="UserWarning"), "stderr is stored"),
    "SVG": (shown("image/svg+xml", "<svg/>"), "use PNG"),
    "a path": (outputs("stream", name="stdout", text=f"saved to {HOME}"), "a path of the author's"),
    "an address": (shown("text/plain", "<A at 0x7f0011223344>"), "an object's address"),
    "a panel without picture": (lambda n: code(n, 2).update(outputs=[]), "no still picture"),
    "unknown tag": (tagged("exercize"), "unknown tags"),
    "two ignored": (two_ignored, "one ignored output is allowed"),
    "no slide type": (lambda n: n.cells[1].metadata.pop("slideshow"), "slide type is None"),
    "an untimed section": (lambda n: n.cells[1].metadata.pop("bdl"), "no bdl metadata"),
    "minutes reversed": (lambda n: timing(n).update(minutes=[10, 5]), "minutes must be a range"),
    "unknown mode": (lambda n: timing(n).update(mode="alone"), "mode is 'alone'"),
    "too large": (more_text("é" * 600_000), "the limit is 1 MB"),  # two bytes each
    "magic": (source("%matplotlib inline"), "not replayable"),
    "dead link": (more_text("\n[there](nowhere.ipynb)"), "nowhere.ipynb leads nowhere"),
    "two exercises": (tagged(index=-1), "2 exercises, and exercise_minutes of the record has 3"),
    "a title of its own": (
        text(0, "a claim", "another"),
        "01-00: the rendered text is out of date",
    ),
    "a question of its own": (text(2, "What", "Who"), "01-02: the rendered text is out of date"),
    "no open question": (
        lambda n: n.cells[-4].metadata.pop("tags"),
        "no cell is tagged 'open-question'",
    ),
    "other minutes": (source('"(60 minutes)"', -1), "the stub does not say (10 minutes)"),
    "no time to answer": (
        lambda n: n.cells[-5].metadata["bdl"].update(minutes=[5, 10]),
        "the exercises take 30 minutes, their section (5, 10)",
    ),
    "unknown part": (lambda n: timing(n).update(part="end"), "part is 'end'"),
    "draws in the open": (source("figure, axis = plt.subplots()\nshow(figure)"), "it stands open"),
    "hides the idea": (tagged("hide-input", jupyter={"source_hidden": True}), "it is hidden"),
    "hidden by tag alone": (lambda n: code(n, 0).metadata.pop("jupyter"), "go together"),
    "long cell": (source("x = 1\n" * 26), "26 lines of code, the limit is 25"),
    "nothing built": (tagged(index=3), "no cell is tagged 'method'"),
    "printed float": (
        outputs("stream", name="stdout", text="accuracy 0.97\n"),
        STRAY_NUMBER + "'accuracy 0.97'",
    ),
    "guessed minutes": (lambda n: timing(n).update(minutes=[60, 60]), "(60, 60) min stored"),
    "stated minutes": (text(0, "min lecture", "minutes"), "rendered text is out of date"),
    "no result": (
        lambda n: timing(n)["role"].remove("result"),
        "no section before the recap has the role result",
    ),
    "unknown role": (lambda n: timing(n)["role"].append("joke"), "unknown roles ['joke']"),
    "nothing deeper": (
        lambda n: n.cells[-1].metadata["bdl"].pop("part"),
        "no section has the part 'deeper'",
    ),
    "help not imported": (more_text(' `hint("01.1")`'), "readers are told to call hint(): import"),
    "dialect": (more_text(" A committee."), "'committee' in"),
    "unknown symbol": (more_text(r" $\zeta$"), "zeta'] in"),
    "symbol of a later lesson": (more_text(r" $$\tau = 1$$"), "tau'] in"),
    "sigma as a function": (more_text(r" $\sigma(x)$"), "σ is a standard deviation"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named(lesson, lesson_path, name):
    notebook = lesson("x = 1")
    (fault, message) = FAULTS[name]
    assert problems(notebook, lesson_path) == []
    fault(notebook)
    named = problems(notebook, lesson_path)
    assert any(message in problem for problem in named), named


def test_numbers_that_check_and_results_show_are_known(lesson, lesson_path):
    notebook = lesson("x = 1")
    known = "ok   mean: 0.251 (expected 0.25 ± 0.01)\n01.1 · a task: solved.\n"
    outputs("stream", name="stdout", text=known)(notebook)
    assert problems(notebook, lesson_path) == []
