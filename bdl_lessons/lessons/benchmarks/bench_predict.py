"""Speed of Monte Carlo prediction against the plain loop over forward passes of ``nn.Dropout``."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import torch
from torch import nn

from bdl_lessons.inference import predict
from bdl_lessons.models import BinaryDropout, Deterministic, Network, lenet5, mlp

N_SAMPLES, P_DROP, N_REPEATS = 100, 0.5, 3


def run(device: str = "cpu") -> list[dict]:
    """Time 100 draws, candidates interleaved in one run; one row for each model and candidate.

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
        rows += [described | row for row in _compare(model.to(device), x)]
    return rows


def _compare(model: Network, x: torch.Tensor) -> list[dict]:
    reference = _with_nn_dropout(model).train()
    generator = torch.Generator(x.device).manual_seed(1)
    candidates = {
        "loop of nn.Dropout passes": lambda: _loop(reference, x),
        "predict, example": lambda: predict(
            model, x, N_SAMPLES, "per_example", generator=generator
        ),
        "predict, function": lambda: predict(model, x, N_SAMPLES, "shared", generator=generator),
    }
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    for repeat in range(N_REPEATS + 1):
        for name, candidate in candidates.items():
            elapsed = _seconds(candidate, x.device)
            if repeat:  # the first round warms up
                seconds[name].append(elapsed)
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
    """The same network as a reader would write it, with the same weights."""
    modules: list[nn.Module] = []
    for module in model:
        if getattr(module, "is_random", False):
            modules.append(nn.Dropout(module.noise.p_drop))
        modules.append(module if not hasattr(module, "noise") else _plain(module))
    return nn.Sequential(*modules)


def _plain(layer: nn.Linear | nn.Conv2d) -> nn.Module:
    if isinstance(layer, nn.Linear):
        copy: nn.Module = nn.Linear(layer.in_features, layer.out_features)
    else:
        copy = nn.Conv2d(layer.in_channels, layer.out_channels, layer.kernel_size)
    copy.weight, copy.bias = layer.weight, layer.bias
    return copy


def _seconds(candidate: Callable[[], object], device: torch.device) -> float:
    start = time.perf_counter()
    candidate()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - start
