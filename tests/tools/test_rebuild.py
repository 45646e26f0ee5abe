import pytest

from tools import notebook
from tools.rebuild import rebuild_lesson

CODE = (
    "from bdl_lessons.panels.engine import Panel, Slider\n"
    "panel = Panel(lambda figure: lambda a: 'still', Slider('a', 'a', (1, 2), 1), size=(1, 1))",
    "print('hello')",
)


@pytest.fixture
def path(lesson_path, lesson, monkeypatch):
    monkeypatch.setattr("tools.guards.FORM", ())
    lesson_path.write_text(notebook.text(lesson(*CODE)))
    return lesson_path


def test_a_second_rebuild_gives_the_same_bytes(path):
    assert rebuild_lesson(path)[0] == []
    first = path.read_bytes()
    assert rebuild_lesson(path)[0] == []
    assert path.read_bytes() == first
    rebuilt = notebook.read(path)
    panel = next(cell for cell in rebuilt.cells if cell.source == "panel")
    assert set(panel.outputs[0].data) == {"image/png", "text/plain"}
    assert rebuilt.metadata == {"kernelspec": notebook.KERNEL, "language_info": {"name": "python"}}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("print('hello')", "1 / 0", "ZeroDivisionError"),
        ('"method"', '"methods"', "unknown tags"),
    ],
    ids=["a failing cell", "what a guard finds"],
)
def test_a_fault_is_told_and_nothing_is_written(path, old, new, said):
    path.write_text(path.read_text().replace(old, new))
    before = path.read_bytes()
    assert said in "\n".join(rebuild_lesson(path)[0])
    assert path.read_bytes() == before
    assert [one.name for one in path.parent.glob("*.*")] == [path.name]


def test_foreign_metadata_is_dropped(lesson):
    foreign = lesson("x = 1")
    foreign.metadata["colab"] = {}
    foreign.cells[0].metadata["executionInfo"] = {}
    panel = next(cell for cell in foreign.cells if cell.get("outputs"))
    panel.outputs[0].data.pop("image/png")  # it holds no picture
    panel.outputs[0].metadata["isolated"] = True
    cleaned = notebook.clean(foreign)
    kept = cleaned.metadata | cleaned.cells[0].metadata | panel.outputs[0].metadata
    assert not {"colab", "executionInfo", "isolated"} & kept.keys()
    assert cleaned.cells[1].metadata["bdl"]["mode"] == "pair"
