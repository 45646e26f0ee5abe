import pytest
from typer.testing import CliRunner

from tools import guards, notebook
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
