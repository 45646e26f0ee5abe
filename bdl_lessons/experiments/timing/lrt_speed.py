"""Kingma, Salimans and Welling (2015), section 5.1: what a draw of the weights for each row costs.

Published: 1635 seconds an epoch with a separate weight sample for every row, 7.4 seconds with the
local reparameterization trick, which draws from the same law. Here both train the same network for
some minibatches, each in a process of its own, and the median time of one is multiplied by their
number in an epoch.
"""

from __future__ import annotations

import multiprocessing
import resource
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import median

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from bdl_lessons.core import clock, device
from bdl_lessons.evaluation import noisy_outputs
from bdl_lessons.experiments.experiment import Experiment, Trial, TrialResult
from bdl_lessons.experiments.timing.lrt_speed_report import figure, table
from bdl_lessons.inference import adam
from bdl_lessons.models import BayesByBackprop, Network, initialise, mlp

_PAPER = {"n_train": 60_000, "width": 500, "batch_size": 100}
_QUICK = {"n_train": 100, "width": 8, "batch_size": 20}
_WARM_UP = 2


def units(scale: str) -> list[Trial]:
    """One for each estimator; the slow one with fewer batches, and fewer rows at once."""
    quick = scale == "quick"
    plans = [("per example", 5, 25), ("local", 50, 100), ("per minibatch", 50, 100)]
    shared = _QUICK if quick else _PAPER
    return [
        Trial(
            {
                **shared,
                "estimator": estimator,
                "timed_batches": 3 if quick else n_batches,
                "rows_at_once": min(rows_at_once, shared["batch_size"]),
            },
            seed=0,
        )
        for estimator, n_batches, rows_at_once in plans
    ]


def run(unit: Trial) -> TrialResult:
    """Train for some minibatches in a fresh process.

    Metrics: ``seconds_per_epoch``, of processor time (on CUDA: of wall time), extrapolated;
    ``peak_mib``: the highest memory of the process (on CUDA: of the allocator) while it trained,
    above what it held before. ``seconds``, an array: each timed batch.
    """
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, spawn) as fresh:
        future = fresh.submit(_train, dict(unit.config), unit.seed, torch.get_num_threads())
        seconds, peak_bytes = future.result()
    n_batches = unit.config["n_train"] / unit.config["batch_size"]
    return TrialResult(
        {"seconds_per_epoch": median(seconds) * n_batches, "peak_mib": peak_bytes / 2**20},
        {"seconds": [round(value, 5) for value in seconds]},
    )


def _train(config: dict, seed: int, n_threads: int) -> tuple[list[float], int]:
    torch.set_num_threads(n_threads)
    on = device()
    generator = torch.Generator(on).manual_seed(seed)
    widths = (784, *[config["width"]] * 3, 10)
    net = initialise(mlp(widths, BayesByBackprop()).to(on), generator)
    stepper = adam(1e-3)(net.parameters())
    x = torch.rand(
        config["batch_size"], 784, generator=generator, device=on
    )  # values do not matter
    y = torch.randint(10, (len(x),), generator=generator, device=on)
    before, seconds = _peak_bytes(on), []
    for _ in range(_WARM_UP + config["timed_batches"]):
        began = clock(on)
        _step(net, x, y, stepper, config, generator)
        seconds.append(clock(on) - began)
    return seconds[_WARM_UP:], _peak_bytes(on) - before


def _step(
    net: Network,
    x: Tensor,
    y: Tensor,
    stepper: torch.optim.Optimizer,
    config: dict,
    generator: torch.Generator,
) -> None:
    stepper.zero_grad(set_to_none=True)
    pieces = zip(x.split(config["rows_at_once"]), y.split(config["rows_at_once"]), strict=True)
    for inputs, targets in pieces:
        outputs = noisy_outputs(net, inputs, config["estimator"], generator)
        (cross_entropy(outputs, targets, reduction="sum") / len(x)).backward()
    (net.kl() / config["n_train"]).backward()
    stepper.step()


def _peak_bytes(on: torch.device) -> int:
    if on.type == "cuda":
        return torch.cuda.max_memory_allocated(on)
    status = Path("/proc/self/status")
    if status.exists():  # ru_maxrss would also count the process that started this one
        lines = status.read_text().splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


EXPERIMENT = Experiment(
    "lrt_speed",
    "What a weight sample for each row costs (Kingma, Salimans and Welling 2015, section 5.1)",
    units,
    run,
    table,
    figure,
)
