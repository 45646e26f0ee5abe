import pytest
from typer.testing import CliRunner

from tools import notebook
from tools import rebuild as rebuilding
from tools.__main__ import app

run = CliRunner().invoke


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["rebuild", "77"], "no lesson '77'"), (["slides", "77"], "no lesson '77'")],
)
def test_an_unknown_name_is_refused(arguments, message):
    result = run(app, arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.output.replace("│", " ").split())


def test_rebuild_fails_when_a_lesson_is_wrong(monkeypatch):
    monkeypatch.setattr(rebuilding, "rebuild", lambda path, check: (["it is wrong"], 0.1))
    result = run(app, ["rebuild", "--check", "01"])
    assert result.exit_code == 1
    assert "it is wrong" in result.output


def test_rebuild_succeeds_when_all_is_well(monkeypatch):
    seen = []
    monkeypatch.setattr(rebuilding, "rebuild", lambda path, check: (seen.append(path) or [], 0.1))
    assert run(app, ["rebuild"]).exit_code == 0
    assert seen == notebook.paths()


def test_slides_of_the_named_lessons_are_written(tmp_path):
    result = run(app, ["slides", "00", "--folder", str(tmp_path)])
    assert result.exit_code == 0
    assert [path.name for path in tmp_path.glob("*.html")] == ["00_start_here.html"]
    assert "00_start_here.html" in result.output
