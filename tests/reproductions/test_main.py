from typer.testing import CliRunner

from reproductions import panel_arrays
from reproductions.__main__ import app

run = CliRunner().invoke


def test_an_unknown_name_is_refused():
    result = run(app, ["arrays", "nothing"])
    assert result.exit_code == 2
    assert "no arrays 'nothing'" in " ".join(result.output.replace("│", " ").split())


def test_arrays_are_written(monkeypatch, tmp_path):
    written = tmp_path / "x.npz"
    written.write_bytes(b"1234")
    monkeypatch.setattr(panel_arrays, "make", lambda name: written)
    result = run(app, ["arrays", "dropout_rate"])
    assert result.exit_code == 0
    assert "x.npz" in result.output
