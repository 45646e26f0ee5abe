import numpy as np
import pytest

from bdl_lessons.lessons.panels import arrays, dropout_rate


def test_missing_arrays_name_the_command():
    with pytest.raises(FileNotFoundError, match="python -m bdl_lessons panel-data no_such_panel"):
        arrays.load("no_such_panel")


def test_a_panel_without_arrays_is_an_error():
    with pytest.raises(ValueError, match=r"no panel 'arrays'.*dropout_rate"):
        arrays.make("arrays")


def test_making_is_repeatable_to_the_byte(tmp_path, monkeypatch):
    monkeypatch.setattr(arrays, "FOLDER", tmp_path)
    monkeypatch.setattr(dropout_rate, "make_arrays", lambda: {"x": np.arange(3.0)})
    first = arrays.make("dropout_rate").read_bytes()
    assert arrays.make("dropout_rate").read_bytes() == first
    assert list(arrays.load("dropout_rate")["x"]) == [0, 1, 2]


def test_a_failure_leaves_the_old_arrays_alone(tmp_path, monkeypatch):
    def fail():
        raise RuntimeError("diverged")

    monkeypatch.setattr(arrays, "FOLDER", tmp_path)
    monkeypatch.setattr(dropout_rate, "make_arrays", lambda: {"x": np.zeros(1)})
    before = arrays.make("dropout_rate").read_bytes()
    monkeypatch.setattr(dropout_rate, "make_arrays", fail)
    with pytest.raises(RuntimeError, match="diverged"):
        arrays.make("dropout_rate")
    assert (tmp_path / "dropout_rate.npz").read_bytes() == before
