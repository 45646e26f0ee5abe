import math

import pytest
import torch

from bdl_lessons.tools import bench_layers, bench_structured, bench_structured_kl


def test_both_forms_of_the_kl_are_one_number():
    generator = torch.Generator().manual_seed(0)
    log_alpha, vectors = (
        torch.randn(30, generator=generator),
        torch.randn(2, 30, generator=generator),
    )
    compact = bench_structured_kl.compact(log_alpha, vectors)
    torch.testing.assert_close(compact, bench_structured_kl.explicit(log_alpha, vectors))


def test_memory_is_linear_in_the_compact_form_and_quadratic_in_the_other():
    rows = bench_structured_kl.run(sizes=(256, 512, 1024), n_repeats=1)
    assert [row["K"] for row in rows] == [256, 512, 1024, "slope on log K"]
    assert rows[-1]["compact, peak in K T"] == pytest.approx(1, abs=0.05)
    assert rows[-1]["matrix, peak in K T"] == pytest.approx(2, abs=0.05)
    assert rows[0]["compact, peak in K T"] < 12
    assert all(math.isfinite(row["compact, ms"]) for row in rows)


def test_a_step_of_every_kind_is_measured(monkeypatch):
    monkeypatch.setattr(bench_layers, "WIDTHS", (12, 10, 4))
    rows = bench_layers.compare(bench_structured.LAYERS, n_repeats=3, n_threads=1)
    by_name = {row["network"]: row for row in rows}
    assert set(bench_structured.LAYERS) < set(by_name)
    plain = by_name[bench_layers.PLAIN]["parameters"]
    assert by_name["VSD, T = 2"]["parameters"] == plain + 3 * (12 + 10)
    assert all(row["ratio"] > 0 for row in rows)
