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
        (["plan", "05", "15"], "a plan of lesson 05 takes at least 24 minutes"),
        (["site", "77"], "no lesson '77'"),
        (["web", "nothing"], "no panel 'nothing'"),
        (["slides", "00", "--folder", "FILE"], "cannot write to the folder"),
        (["site", "--folder", "FILE/inside"], "cannot write to the folder"),
        (["grade", "tests", "--to", "FILE/grades.csv"], "cannot write to the folder"),
        (["grade", "data/co2"], "no notebook in data/co2"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(arguments, message, tmp_path):
    file = tmp_path / "FILE"
    file.write_text("its text")
    result = run(app, [argument.replace("FILE", str(file)) for argument in arguments])
    assert file.read_text() == "its text"
    assert result.exit_code == 2
    without_frame = result.output.replace("│", " ")
    assert message in " ".join(without_frame.split())


def test_rebuild_and_guards_say_what_is_wrong(monkeypatch):
    rebuilt = []

    def rebuild_without_problems(path):
        rebuilt.append(path)
        return [], 0.1

    monkeypatch.setattr(rebuilding, "rebuild_lesson", rebuild_without_problems)
    assert run(app, ["rebuild"]).exit_code == 0
    assert rebuilt == notebook.paths()

    monkeypatch.setattr(rebuilding, "rebuild_lesson", lambda path: (["it is wrong"], 0.1))
    monkeypatch.setattr(guards, "problems", lambda lesson, path: ["it is wrong"])
    for command in ("rebuild", "guards"):
        result = run(app, [command, "01"])
        assert result.exit_code == 1
        assert "it is wrong" in result.output


def test_plan_prints_the_table_of_the_lesson():
    all_plans = run(app, ["plan", "05"]).output
    one_plan = run(app, ["plan", "05", "45"]).output
    assert f"**45 minutes**\n\n{one_plan}" in all_plans


@pytest.mark.parametrize(
    ("command", "written_by"),
    [
        (["slides", "01"], "tools.slides.write"),
        (["assignments", "01"], "tools.assignments.write"),
        (["site", "01"], "tools.web.site.build"),
    ],
)
def test_the_folder_that_is_named_is_written_to(command, written_by, tmp_path, monkeypatch):
    received = []
    monkeypatch.setattr(written_by, lambda *arguments: received.extend(arguments))
    folder = tmp_path / "here"
    assert run(app, [*command, "--folder", str(folder)]).exit_code == 0
    assert folder in received


def test_pages_of_panels_go_into_the_folder_that_is_named(tmp_path):
    folder = tmp_path / "web"
    assert run(app, ["web", "many-networks", "--folder", str(folder)]).exit_code == 0
    assert [path.name for path in folder.iterdir()] == ["many-networks.html"]


def test_grades_go_into_the_file_that_is_named(tmp_path, monkeypatch):
    received = []

    def grade(folder, to):
        received.append((folder, to))
        return []

    monkeypatch.setattr(grading, "table", grade)
    table = tmp_path / "grades" / "05.csv"
    assert run(app, ["grade", str(tmp_path), "--to", str(table)]).exit_code == 0
    assert received == [(tmp_path, table)]
