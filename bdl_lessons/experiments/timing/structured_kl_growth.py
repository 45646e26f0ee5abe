"""The KL of structured dropout by the compact form and by a K x K matrix: time and memory."""

from __future__ import annotations

import json
import math
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import accumulate
from pathlib import Path
from statistics import linear_regression, median

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from bdl_lessons.probability import empirical_bayes_kl, orthogonal_matrix, rotated_variance

SIZES = (256, 512, 1024, 2048, 4096, 8192, 16384)
LARGEST_MATRIX = 4096
T, N_COLUMNS = 2, 10


def measure(sizes: Sequence[int] = SIZES, n_repeats: int = 15) -> list[dict]:
    """Value and gradients of the KL for each K, on one thread.

    Times are medians, the two forms interleaved, so that a ratio means something on a machine with
    other work. Peaks are the most that was allocated at one time between start and end, as the
    allocator reports it to ``torch.profiler``; K T is 4 K T bytes. The last row has the slopes of
    the logarithms on log K: 1 is linear, 2 quadratic. Calls that take no time to compute still
    take time to make, which flattens the compact form's.
    """
    threads_before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        rows = [_row(n_units, n_repeats) for n_units in sizes]
    finally:
        torch.set_num_threads(threads_before)
    return [*rows, _slopes(rows)]


def compact(log_alpha: Tensor, vectors: Tensor) -> Tensor:
    """The KL as a layer computes it."""
    return empirical_bayes_kl(log_alpha, rotated_variance(log_alpha.exp(), vectors), N_COLUMNS)


def explicit(log_alpha: Tensor, vectors: Tensor) -> Tensor:
    """The same number from U itself."""
    noise_var = orthogonal_matrix(vectors).square() @ log_alpha.exp()
    return empirical_bayes_kl(log_alpha, noise_var, N_COLUMNS)


def _row(n_units: int, n_repeats: int) -> dict:
    generator = torch.Generator().manual_seed(0)
    log_alpha = torch.randn(n_units, generator=generator).sub(2).requires_grad_()
    vectors = torch.randn(T, n_units, generator=generator).requires_grad_()
    candidates = {"compact": compact}
    if n_units <= LARGEST_MATRIX:
        candidates["matrix"] = explicit

    def call(kl: Callable[[Tensor, Tensor], Tensor]) -> None:
        torch.autograd.grad(kl(log_alpha, vectors), (log_alpha, vectors))

    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    for repeat in range(n_repeats + 1):
        for name, kl in candidates.items():
            began = time.perf_counter()
            call(kl)
            if repeat:  # the first round warms up
                seconds[name].append(time.perf_counter() - began)
    row: dict = {"K": n_units}
    for name in ("compact", "matrix"):
        row[f"{name}, ms"] = 1e3 * median(seconds[name]) if name in seconds else math.nan
    for name in ("compact", "matrix"):
        peak = _peak_bytes(lambda name=name: call(candidates[name])) if name in seconds else None
        row[f"{name}, peak in K T"] = peak / (4 * n_units * T) if peak else math.nan
    return row


def _peak_bytes(call: Callable[[], None]) -> int:
    """The largest sum of what the CPU allocator gave out and took back during ``call``."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        call()
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(trace))
        events = json.loads(trace.read_text())["traceEvents"]
    steps = [(e["ts"], e["args"]["Bytes"]) for e in events if e.get("name") == "[memory]"]
    return max(accumulate(n_bytes for _, n_bytes in sorted(steps, key=lambda step: step[0])))


def _slopes(rows: list[dict]) -> dict:
    slopes: dict = {"K": "slope on log K"}
    for column in list(rows[0])[1:]:
        known = [(row["K"], row[column]) for row in rows if not math.isnan(row[column])]
        n_units, values = zip(*known, strict=True)
        extra = 1 if column.endswith("K T") else 0  # from units of K T to bytes
        x, y = [math.log(n) for n in n_units], [math.log(value) for value in values]
        slopes[column] = linear_regression(x, y).slope + extra
    return slopes
