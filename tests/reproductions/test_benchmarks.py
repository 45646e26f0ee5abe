import pytest

from bdl_lessons.panels import dropout_rate
from reproductions import benchmarks


def test_benchmarks_are_found_by_name():
    assert "panels" in benchmarks.names()
    with pytest.raises(ValueError, match="no benchmark 'nothing'; there are"):
        benchmarks.run("nothing")


def test_rows_become_a_table():
    rows = [{"what": "a", "ratio": 1.23456}, {"what": "b", "ratio": 2.0}]
    assert benchmarks.table(rows).splitlines() == [
        "| what | ratio |",
        "| --- | --- |",
        "| a | 1.23 |",
        "| b | 2 |",
    ]


def test_every_panel_is_measured_without_its_cache(monkeypatch):
    panel, drawn = dropout_rate.panel(), []
    draw = panel._stage.draw
    monkeypatch.setattr(panel._stage, "draw", lambda params: drawn.append(1) or draw(params))
    monkeypatch.setattr(benchmarks, "N_MOVES", 5)
    row = benchmarks.move(panel)
    assert len(drawn) == 1 + 5
    assert 0 < row["median (ms)"] <= row["95th percentile (ms)"]
