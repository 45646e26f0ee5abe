"""Benchmarks of speed, as ratios within one run: ``python -m reproductions bench``.

Each benchmark returns rows, dictionaries of column and value.
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
from bdl_lessons.core import clock, markdown
from bdl_lessons.inference import predict
from bdl_lessons.models import BinaryDropout, Deterministic, Network, lenet5, mlp
from bdl_lessons.panels.engine import Panel
from reproductions.measure import interleaved_times
from reproductions.timing import layer_cost

N_MOVES, N_SAMPLES, P_DROP, N_REPEATS = 50, 100, 0.5, 3


def names() -> list[str]:
    """Every benchmark there is."""
    return sorted(_BENCHMARKS)


def run(name: str) -> list[dict]:
    """The rows that benchmark ``name`` measures.

    Raises:
        ValueError: if there is no such benchmark.
    """
    if name not in _BENCHMARKS:
        raise ValueError(f"no benchmark {name!r}; there are {', '.join(names())}")
    return _BENCHMARKS[name]()


def table(rows: list[dict]) -> str:
    """Rows as a Markdown table; numbers to three significant digits."""
    columns = list(rows[0])
    return markdown.table(
        columns, [[_cell(row.get(column, "")) for column in columns] for row in rows]
    )


def move_panels() -> list[dict]:
    """From a slider event to the new picture, ``N_MOVES`` times, nothing cached, every panel.

    Median and 95th percentile in milliseconds.
    """
    modules = [
        importlib.import_module(f"{panels.__name__}.{module.name}")
        for module in pkgutil.iter_modules(panels.__path__)
    ]
    return [move(module.panel()) for module in modules if hasattr(module, "panel")]


def move(panel: Panel) -> dict:
    """Move the sliders through their grids and time each event until the picture is replaced."""
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
    return {
        "panel": panel.name,
        "median (ms)": float(np.median(took_ms)),
        "95th percentile (ms)": float(np.percentile(took_ms, 95)),
    }


def predict_samples(device: str = "cpu") -> list[dict]:
    """Time of 100 Monte Carlo samples against the plain loop over passes of ``nn.Dropout``.

    Candidates are interleaved in one run; one row for each model and candidate.

    ``ratio`` is the median over repeats of the loop's time over the candidate's, taken within one
    repeat: above 1 is faster than the loop.
    """
    plain, drop = Deterministic(), BinaryDropout(P_DROP)
    dense = mlp((784, 1024, 1024, 1024, 10), [plain, drop, drop, drop])
    cases = [
        ("mlp 784-1024-1024-1024-10", dense, (1000, 784)),
        ("mlp 784-1024-1024-1024-10", dense, (10, 784)),
        ("lenet5", lenet5([plain, plain, plain, drop]), (20, 1, 28, 28)),
    ]
    rows = []
    for name, model, shape in cases:
        x = torch.randn(*shape, generator=torch.Generator().manual_seed(0)).to(device)
        described = {"model": name, "inputs": len(x), "draws": N_SAMPLES}
        rows += [described | row for row in _compare_predictions(model.to(device), x)]
    return rows


def _compare_predictions(model: Network, x: torch.Tensor) -> list[dict]:
    reference = _with_nn_dropout(model).to(x.device).train()
    generator = torch.Generator(x.device).manual_seed(1)
    candidates = {
        "loop of nn.Dropout passes": lambda: _loop(reference, x),
        "predict, example": lambda: predict(
            model, x, N_SAMPLES, "per_example", generator=generator
        ),
        "predict, function": lambda: predict(model, x, N_SAMPLES, "shared", generator=generator),
    }
    wall = partial(clock, x.device) if x.device.type == "cuda" else time.perf_counter
    seconds = interleaved_times(candidates, N_REPEATS, clock=wall)
    loop = seconds["loop of nn.Dropout passes"]
    return [
        {
            "candidate": name,
            "seconds": median(times),
            "ratio": median(base / own for base, own in zip(loop, times, strict=True)),
        }
        for name, times in seconds.items()
    ]


@torch.no_grad()
def _loop(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return torch.stack([model(x) for _ in range(N_SAMPLES)])


def _with_nn_dropout(model: Network) -> nn.Sequential:
    """The same network as a reader would write it, with new weights."""
    modules: list[nn.Module] = []
    for module in model:
        if getattr(module, "is_random", False):
            modules.append(nn.Dropout(module.noise.p_drop))
        if isinstance(module, nn.Linear):
            module = nn.Linear(module.in_features, module.out_features)
        elif isinstance(module, nn.Conv2d):
            module = nn.Conv2d(module.in_channels, module.out_channels, module.kernel_size)
        modules.append(module)
    return nn.Sequential(*modules)


def _cell(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


_BENCHMARKS: dict[str, Callable[[], list[dict]]] = {
    "layers": partial(layer_cost.compare_steps, layer_cost.INDEPENDENT),
    "panels": move_panels,
    "predict": predict_samples,
    "structured": partial(layer_cost.compare_steps, layer_cost.STRUCTURED),
    "structured_kl": layer_cost.measure_kl_growth,
}
