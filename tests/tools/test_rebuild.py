import shutil

import nbformat
import pytest

from tools import notebook
from tools.rebuild import rebuild_lesson

CODE = (
    "from bdl_lessons.panels.engine import Panel, Slider\n"
    "panel = Panel(lambda figure: lambda a: 'still', Slider('a', 'a', (1, 2), 1), size=(1, 1))",
    "print('hello')",
)


@pytest.fixture
def path(tmp_path, lesson, monkeypatch):
    monkeypatch.setattr("tools.guards.FORM", ())
    target = tmp_path / "01_a_claim.ipynb"
    target.write_text(notebook.text(lesson(*CODE)))
    return target


def test_a_second_rebuild_gives_the_same_bytes(path):
    assert rebuild_lesson(path)[0] == []
    first = path.read_bytes()
    assert rebuild_lesson(path)[0] == []
    assert path.read_bytes() == first
    assert rebuild_lesson(path, check=True)[0] == []
    made = notebook.read(path)
    panel = next(cell for cell in made.cells if cell.source == "panel")
    assert set(panel.outputs[0].data) == {"image/png", "text/plain"}
    assert made.metadata == {"kernelspec": notebook.KERNEL, "language_info": {"name": "python"}}


@pytest.mark.parametrize(
    ("old", "new", "check", "said"),
    [
        ("hello\\n", "goodbye\\n", True, ["rebuilding changes it", "goodbye"]),
        ("print('hello')", "1 / 0", False, ["ZeroDivisionError"]),
        ("## Recap", "## Goodbye", False, ["sections missing: Recap"]),
    ],
    ids=["a stale output", "a failing cell", "what a guard finds"],
)
def test_a_fault_is_told_and_nothing_is_written(path, old, new, check, said):
    assert rebuild_lesson(path)[0] == []
    path.write_text(path.read_text().replace(old, new))
    before = path.read_bytes()
    wrong = "\n".join(rebuild_lesson(path, check)[0])
    assert [words for words in said if words not in wrong] == []
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_foreign_metadata_is_dropped(lesson):
    made = lesson("x = 1")
    made.metadata["colab"] = {}
    made.cells[0].metadata["executionInfo"] = {}
    panel = next(cell for cell in made.cells if cell.get("outputs"))
    panel.outputs[0].data.pop("image/png")  # none that can be read
    panel.outputs[0].metadata["isolated"] = True
    cleaned = notebook.clean(made)
    assert "colab" not in cleaned.metadata
    assert "executionInfo" not in cleaned.cells[0].metadata
    assert panel.outputs[0].metadata == {}
    assert cleaned.cells[1].metadata["bdl"]["mode"] == "pair"
    assert cleaned.cells[2].metadata["jupyter"] == {"source_hidden": True}
    nbformat.validate(cleaned)


def test_lessons_are_found_by_number(tmp_path, monkeypatch):
    for name in ("01_b.ipynb", "00_a.ipynb", "notes.ipynb"):
        shutil.copy(__file__, tmp_path / name)
    monkeypatch.setattr(notebook, "NOTEBOOKS", tmp_path)
    assert [p.name for p in notebook.paths()] == ["00_a.ipynb", "01_b.ipynb"]
    assert [p.name for p in notebook.paths(["01"])] == ["01_b.ipynb"]
    with pytest.raises(ValueError, match="no lesson '00_a'; write two digits: 00, 01"):
        notebook.paths(["00_a"])
