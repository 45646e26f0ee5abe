"""Benchmarks of speed, as ratios within one run: ``python -m reproductions bench``.

Each benchmark measures and returns its table in Markdown.
"""

from __future__ import annotations

import importlib
import itertools
import pkgutil
import time
from collections.abc import Callable
from functools import partial
from statistics import median

import numpy as np
import torch
from torch import nn

from bdl_lessons import panels
from bdl_lessons.inference import predict
from bdl_lessons.models import BinaryDropout, Deterministic, mlp
from bdl_lessons.panels.engine import Panel
from reproductions.measure import interleaved_times
from reproductions.runner import measure
from reproductions.tables import table_of
from reproductions.timing import layer_cost

N_MOVES, N_SAMPLES, P_DROP, N_REPEATS = 50, 100, 0.5, 3


def names() -> list[str]:
    """Every benchmark there is."""
    return sorted(_BENCHMARKS)


def run(name: str) -> str:
    """The table that benchmark ``name`` measures.

    Raises:
        ValueError: if there is no such benchmark.
    """
    if name not in _BENCHMARKS:
        raise ValueError(f"no benchmark {name!r}; there are {', '.join(names())}")
    return _BENCHMARKS[name]()


def move_panels() -> str:
    """From a slider event to the new picture, ``N_MOVES`` times, nothing cached, every panel."""
    modules = [
        importlib.import_module(f"{panels.__name__}.{module.name}")
        for module in pkgutil.iter_modules(panels.__path__)
    ]
    rows = [move(module.panel()) for module in modules if hasattr(module, "panel")]
    columns = {"panel": "{panel}", "median (ms)": "{median:.3g}", "95 % (ms)": "{high:.3g}"}
    return table_of(rows, columns)


def move(panel: Panel) -> dict:
    """Move the sliders through their grids and time each event until the picture is replaced.

    Returns:
        ``median`` and ``high``, the 95th percentile, in milliseconds.
    """
    _ = panel.widget
    settings = itertools.cycle(
        (name, value) for name, control in panel.controls.items() for value in control.values
    )
    took_ms = []
    while len(took_ms) < N_MOVES:
        name, value = next(settings)
        if panel.values[name] == value:
            continue
        panel.clear_cache()
        began = time.perf_counter()
        panel.set(**{name: value})
        took_ms.append(1e3 * (time.perf_counter() - began))
    middle, high = np.percentile(took_ms, [50, 95])
    return {"panel": panel.name, "median": middle, "high": high}


def predict_samples() -> str:
    """Time of 100 draws of a network against the plain loop over passes of ``nn.Dropout``.

    ``ratio`` is the median over repeats of the loop's time over the candidate's, taken within one
    repeat: above 1 is faster than the loop.
    """
    widths = (784, 1024, 1024, 1024, 10)
    model = mlp(widths, [Deterministic(), *[BinaryDropout(P_DROP)] * 3])
    layers = [nn.Linear(n_in, n_out) for n_in, n_out in itertools.pairwise(widths)]
    hidden = [part for layer in layers[:-1] for part in (layer, nn.ReLU(), nn.Dropout(P_DROP))]
    loop, generator = nn.Sequential(*hidden, layers[-1]).train(), torch.Generator().manual_seed(0)

    @torch.no_grad()
    def passes(x: torch.Tensor) -> torch.Tensor:
        return torch.stack([loop(x) for _ in range(N_SAMPLES)])

    rows = []
    for n_inputs in (1000, 10):
        x = torch.randn(n_inputs, widths[0], generator=generator)
        candidates = {"loop of nn.Dropout passes": partial(passes, x)} | {
            f"predict, {sampling}": partial(
                predict, model, x, N_SAMPLES, sampling, generator=generator
            )
            for sampling in ("per_example", "shared")
        }
        seconds = interleaved_times(candidates, N_REPEATS)
        base = seconds["loop of nn.Dropout passes"]
        for name, taken in seconds.items():
            ratio = median(a / b for a, b in zip(base, taken, strict=True))
            rows.append({"x": n_inputs, "name": name, "s": median(taken), "ratio": ratio})
    columns = {"inputs": "{x}", "candidate": "{name}", "seconds": "{s:.3g}", "ratio": "{ratio:.3g}"}
    return table_of(rows, columns)


def layer_costs() -> str:
    """The tables of ``layer_cost``, measured now and not recorded."""
    trials = layer_cost.trials("paper")
    return layer_cost.table([measure(layer_cost.EXPERIMENT, "paper", trial) for trial in trials])


_BENCHMARKS: dict[str, Callable[[], str]] = {
    "layers": layer_costs,
    "panels": move_panels,
    "predict": predict_samples,
}
