import pytest
from typer.testing import CliRunner

from tools import grading, guards, notebook
from tools import rebuild as rebuilding
from tools.__main__ import app

run = CliRunner().invoke


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rebuild", "77"], "no lesson '77'; write two digits: 00, 01"),
        (["guards", "00_start"], "no lesson '00_start'"),
        (["plan", "05", "15"], "a plan of lesson 05 takes at least 23 minutes"),
        (["site", "77"], "no lesson '77'"),
        (["web", "nothing"], "no panel 'nothing'"),
        (["slides", "00", "--folder", "FILE"], "cannot write to the folder"),
        (["site", "--folder", "FILE/inside"], "cannot write to the folder"),
        (["grade", "tests", "--to", "FILE/grades.csv"], "cannot write to the folder"),
        (["grade", "data/co2"], "no notebook in data/co2"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(arguments, message, tmp_path):
    (tmp_path / "FILE").write_text("kept")
    result = run(app, [arg.replace("FILE", str(tmp_path / "FILE")) for arg in arguments])
    assert (tmp_path / "FILE").read_text() == "kept"
    assert result.exit_code == 2
    assert message in " ".join(result.output.replace("│", " ").split())


def test_rebuild_and_guards_say_what_is_wrong(monkeypatch):
    seen = []
    monkeypatch.setattr(rebuilding, "rebuild_lesson", lambda path: (seen.append(path) or [], 0.1))
    assert run(app, ["rebuild"]).exit_code == 0
    assert seen == notebook.paths()
    monkeypatch.setattr(rebuilding, "rebuild_lesson", lambda path: (["it is wrong"], 0.1))
    monkeypatch.setattr(guards, "problems", lambda made, path: ["it is wrong"])
    for command in ("rebuild", "guards"):
        result = run(app, [command, "01"])
        assert (result.exit_code, "it is wrong" in result.output) == (1, True)


def test_plan_prints_the_table_of_the_lesson():
    every, one = (run(app, ["plan", "05", *minutes]).output for minutes in ([], ["45"]))
    assert f"**45 minutes**\n\n{one}" in every


@pytest.mark.parametrize(
    ("command", "written_by"),
    [
        (["slides", "01"], "tools.slides.write"),
        (["assignments", "01"], "tools.assignments.write"),
        (["site", "01"], "tools.web.site.build"),
    ],
)
def test_the_folder_that_is_named_is_written_to(command, written_by, tmp_path, monkeypatch):
    given = []
    monkeypatch.setattr(written_by, lambda *arguments: given.extend(arguments))
    folder = tmp_path / "here"
    assert run(app, [*command, "--folder", str(folder)]).exit_code == 0
    assert folder in given


def test_pages_of_panels_and_grades_go_where_they_are_told(tmp_path, monkeypatch):
    assert run(app, ["web", "many-networks", "--folder", str(tmp_path / "web")]).exit_code == 0
    assert [path.name for path in (tmp_path / "web").iterdir()] == ["many-networks.html"]
    given = []
    monkeypatch.setattr(grading, "table", lambda folder, to: given.append((folder, to)) or [])
    table = tmp_path / "grades" / "05.csv"
    assert run(app, ["grade", str(tmp_path), "--to", str(table)]).exit_code == 0
    assert given == [(tmp_path, table)]
