import numpy as np
import pytest

from bdl_lessons.panels import arrays
from reproductions import panel_arrays


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(arrays, "FOLDER", tmp_path)
    monkeypatch.setattr(panel_arrays, "FOLDER", tmp_path)
    monkeypatch.setitem(panel_arrays.MAKERS, "dropout_rate", lambda: {"x": np.arange(3.0)})
    return tmp_path


def test_arrays_that_nothing_makes_are_an_error():
    with pytest.raises(ValueError, match=r"one of .*dropout_rate.* got 'engine'"):
        panel_arrays.make("engine")


def test_a_failure_leaves_the_old_arrays_alone(folder, monkeypatch):
    def fail():
        raise RuntimeError("diverged")

    before = panel_arrays.make("dropout_rate").read_bytes()
    monkeypatch.setitem(panel_arrays.MAKERS, "dropout_rate", fail)
    with pytest.raises(RuntimeError, match="diverged"):
        panel_arrays.make("dropout_rate")
    assert (folder / "dropout_rate.npz").read_bytes() == before
    assert [path.name for path in folder.iterdir()] == ["dropout_rate.npz"]
    assert list(arrays.load("dropout_rate")["x"]) == [0, 1, 2]


def test_arrays_are_written_whole_or_not_at_all(folder, monkeypatch):
    def full(file, **values):
        file.write(b"half of the arr")
        raise OSError("No space left on device")

    before = panel_arrays.make("dropout_rate").read_bytes()
    monkeypatch.setattr(np, "savez_compressed", full)
    with pytest.raises(OSError, match="No space left"):
        panel_arrays.make("dropout_rate")
    assert (folder / "dropout_rate.npz").read_bytes() == before
    assert [path.name for path in folder.iterdir()] == ["dropout_rate.npz"]
