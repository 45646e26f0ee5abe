from importlib.metadata import PackageNotFoundError

import pytest

from bdl_lessons.course import environment


def test_reports_versions_device_and_data():
    text = environment.report()
    assert "ok       Python" in text
    assert ", torch " in text
    assert "ok       device" in text
    assert "digits" in text


def test_what_is_missing_comes_with_its_remedy(monkeypatch):
    def absent(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(environment, "version", absent)
    monkeypatch.setenv("BDL_DEVICE", "abacus")
    text = environment.report()
    assert "missing  torch: run `make lab` once" in text
    assert "missing  device 'abacus'" in text


@pytest.mark.parametrize(("seconds", "said"), [(0.02, "ok       a slider"), (3.0, "slow     a")])
def test_a_slow_machine_is_told_without_a_number_that_changes(monkeypatch, seconds, said):
    monkeypatch.setattr(environment, "_slider_move_s", lambda: seconds)
    assert f"\n{said}" in environment.report()
