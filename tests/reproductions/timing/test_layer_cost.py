import math

import pytest
import torch

from reproductions import runner
from reproductions.records import load_records
from reproductions.timing import layer_cost


def test_both_forms_of_the_kl_are_one_number():
    generator = torch.Generator().manual_seed(0)
    log_alpha, vectors = (
        torch.randn(30, generator=generator),
        torch.randn(2, 30, generator=generator),
    )
    compact = layer_cost.compact(log_alpha, vectors)
    torch.testing.assert_close(compact, layer_cost.explicit(log_alpha, vectors))


def test_memory_is_linear_in_the_compact_form_and_quadratic_in_the_other():
    rows = layer_cost.measure_kl_growth(sizes=(256, 512, 1024), n_repeats=1)
    assert [row["K"] for row in rows] == [256, 512, 1024, "slope on log K"]
    assert rows[-1]["compact, peak in K T"] == pytest.approx(1, abs=0.05)
    assert rows[-1]["matrix, peak in K T"] == pytest.approx(2, abs=0.05)
    assert rows[0]["compact, peak in K T"] < 12
    assert all(math.isfinite(row["compact, ms"]) for row in rows)


def test_a_step_of_every_kind_is_measured():
    rows = layer_cost.compare_steps(layer_cost.STRUCTURED, 3, n_threads=1, widths=(12, 10, 4))
    by_name = {row["network"]: row for row in rows}
    assert set(layer_cost.STRUCTURED) < set(by_name)
    plain = by_name[layer_cost.PLAIN]["parameters"]
    assert by_name["VSD, T = 2"]["parameters"] == plain + 3 * (12 + 10)
    assert all(row["ratio"] > 0 for row in rows)


def test_every_aim_has_its_layer():
    assert set(layer_cost.AIMS) <= {name for group in layer_cost.LAYERS.values() for name in group}


def test_records_become_tables_with_the_aims_beside_them(tmp_path):
    outcome = runner.reproduce(layer_cost.EXPERIMENT, "quick", folder=tmp_path)
    assert outcome.failed == []
    records = load_records(tmp_path / "quick" / "layer_cost.jsonl")
    records[1]["metrics"]["VSD, T = 2/ratio"] = 1.375
    text = layer_cost.table(records)
    (line,) = [line for line in text.splitlines() if line.startswith("| VSD, T = 2 |")]
    assert "| 1.38 (" in line
    assert "| ≤ 1.45 |" in line
    assert "| slope on log K |" in text
    assert layer_cost.figure(records).axes
