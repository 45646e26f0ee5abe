import pytest
from typer.testing import CliRunner

from tools import guards, notebook
from tools import rebuild as rebuilding
from tools.__main__ import app

run = CliRunner().invoke


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rebuild", "77"], "no lesson '77'"),
        (["rebuild", "--check", "00_start"], "no lesson '00_start'"),
        (["guards", "1"], "no lesson '1'"),
        (["slides", "77"], "no lesson '77'"),
        (["plan", "05", "15"], "a plan of lesson 05 takes at least 23 minutes"),
        (["site", "77"], "no lesson '77'"),
        (["web", "nothing"], "no panel 'nothing'"),
        (["slides", "00", "--folder", "FILE"], "cannot write to the folder"),
        (["site", "--folder", "FILE/inside"], "cannot write to the folder"),
        (["web", "many-networks", "--folder", "FILE"], "cannot write to the folder"),
        (["assignments", "01", "--folder", "/proc"], "cannot write to the folder"),
        (["grade", "tests", "--to", "FILE/grades.csv"], "cannot write to the folder"),
        (["grade", "tests", "--to", "tests"], "is a directory"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(arguments, message, tmp_path):
    (tmp_path / "FILE").write_text("kept")
    result = run(app, [arg.replace("FILE", str(tmp_path / "FILE")) for arg in arguments])
    assert (tmp_path / "FILE").read_text() == "kept"
    assert result.exit_code == 2
    assert message in " ".join(result.output.replace("│", " ").split())


def test_rebuild_says_whether_all_is_well(monkeypatch):
    seen = []
    monkeypatch.setattr(
        rebuilding, "rebuild_lesson", lambda *given: (seen.append(given) or [], 0.1)
    )
    assert run(app, ["rebuild", "--cell-timeout", "7"]).exit_code == 0
    assert seen == [(path, False, 7) for path in notebook.paths()]
    monkeypatch.setattr(rebuilding, "rebuild_lesson", lambda *given: (["it is wrong"], 0.1))
    result = run(app, ["rebuild", "--check", "01"])
    assert (result.exit_code, "it is wrong" in result.output) == (1, True)


def test_guards_say_what_is_wrong_without_executing(monkeypatch):
    assert run(app, ["guards", "00", "01"]).exit_code == 0
    monkeypatch.setattr(guards, "problems", lambda made, path: [f"{path.name}: wrong"])
    result = run(app, ["guards", "01"])
    assert result.exit_code == 1
    assert result.output == "01_dropout_is_an_ensemble.ipynb: wrong\n"


def test_plan_prints_the_table_of_the_lesson():
    every, one = (run(app, ["plan", "05", *minutes]).output for minutes in ([], ["45"]))
    assert f"**45 minutes**\n\n{one}" in every
