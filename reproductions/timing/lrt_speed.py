"""Kingma, Salimans and Welling (2015), experiments on speed: a draw of the weights for each row.

Published: 1635 seconds an epoch with a separate weight sample for every row, 7.4 seconds with the
local reparameterization trick, which draws from the same distribution. Lesson 06.
"""

import multiprocessing
import resource
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from math import nan
from pathlib import Path
from statistics import median
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Generator, Tensor
from torch.nn.functional import cross_entropy
from torch.optim import Optimizer

from bdl_lessons.core import clock, device, seeded
from bdl_lessons.datasets.records import Record
from bdl_lessons.evaluation import noisy_outputs
from bdl_lessons.inference import adam
from bdl_lessons.models import BayesByBackprop, Network, initialise, mlp
from reproductions import markdown
from reproductions.experiment import Claim, Experiment, Trial, TrialResult
from reproductions.figures import ours_and_published
from reproductions.gradient_variance import ROWS
from reproductions.measure import interleaved_times
from reproductions.records import published_by

_PAPER = {"n_train": 60_000, "width": 500, "batch_size": 100}
_QUICK = {"n_train": 100, "width": 8, "batch_size": 20, "rows_at_once": 20, "timed_batches": 3}


def trials(scale: str) -> list[Trial]:
    """One for each estimator; the slow one with fewer batches, and fewer rows at once."""
    plans = {"per example": (5, 25), "local": (50, 100), "per minibatch": (50, 100)}
    configs = [
        {**_PAPER, "estimator": estimator, "timed_batches": n_batches, "rows_at_once": n_rows}
        for estimator, (n_batches, n_rows) in plans.items()
    ]
    return [Trial(config | (_QUICK if scale == "quick" else {}), seed=0) for config in configs]


def run(trial: Trial) -> TrialResult:
    """Train for some minibatches in a fresh process.

    Metrics: ``seconds_per_epoch``, of processor time (on CUDA: of wall time), extrapolated from the
    array ``seconds``; ``peak_mib``, the highest memory of the process (on CUDA: of the allocator)
    above what it held before it trained.
    """
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, spawn) as fresh:
        future = fresh.submit(_train, dict(trial.config), trial.seed, torch.get_num_threads())
        seconds, peak_bytes = future.result()
    n_batches = trial.config["n_train"] / trial.config["batch_size"]
    return TrialResult(
        {"seconds_per_epoch": median(seconds) * n_batches, "peak_mib": peak_bytes / 2**20},
        {"seconds": [round(value, 5) for value in seconds]},
    )


def _rows(records: list[Record]) -> list[dict[str, Any]]:
    """Each estimator's seconds an epoch, ours and published, and both over those of local."""
    printed = published_by("estimator", "lrt_seconds_per_epoch")
    theirs = {name: row["seconds_per_epoch"] for name, row in printed.items()}
    ours = {ROWS[r["config"]["estimator"]]: r["metrics"]["seconds_per_epoch"] for r in records}
    rows = [{**record, "name": name} for record, name in zip(records, ours, strict=True)]
    for row, (who, seconds) in product(rows, (("ours", ours), ("published", theirs))):
        row[who] = seconds.get(row["name"], nan)
        row[f"{who}, times"] = row[who] / seconds.get(ROWS["local"], nan)
    return rows


def table(records: list[Record]) -> str:
    """Seconds and their ratio to local reparameterization, beside the published ones; memory."""
    columns = {
        "estimator": "{name}",
        "seconds an epoch": "{ours:,.1f}",
        "times local": "{ours, times:.3g}",
        "published seconds": "{published:g}",
        "published, times local": "{published, times:.3g}",
        "peak memory (MiB)": "{metrics[peak_mib]:.0f}",
        "rows at once": "{config[rows_at_once]}",
        "batches timed": "{config[timed_batches]}",
    }
    config, shown = records[0]["config"], markdown.table_of(_rows(records), columns)
    n_batches = config["n_train"] // config["batch_size"]
    return f"{shown}\n\n{_SET_UP.format(**config, n_batches=n_batches)}"


def claims(records: list[Record]) -> list[Claim]:
    """How much longer an epoch takes with a weight sample for each row."""
    rows = {row["name"]: row for row in _rows(records)}
    if not {ROWS["per example"], ROWS["local"]} <= rows.keys():
        return []
    slow = rows[ROWS["per example"]]
    return [
        Claim(
            "An epoch with a weight sample per data point takes hundreds of times as long as one "
            "with local reparameterization",
            f"{slow['published, times']:.0f} times",
            f"{slow['ours, times']:.0f} times",
            int(slow["ours, times"] > 100),
            1,
            f"on {records[0]['device']}; published on a GPU of 2015",
        )
    ]


def figure(records: list[Record]) -> Figure:
    """Seconds an epoch and memory on a log axis."""
    rows = _rows(records)
    memory = [(row["name"], row["metrics"]["peak_mib"], 0) for row in rows]
    ours, theirs = ([(row["name"], row[who], 0) for row in rows] for who in ("ours", "published"))
    panels = {"Seconds an epoch": (ours, theirs), "Peak memory (MiB)": (memory, [])}
    return ours_and_published([row["name"] for row in rows], panels, scale="log")


def _train(config: dict, seed: int, n_threads: int) -> tuple[list[float], int]:
    torch.set_num_threads(n_threads)
    on, generator = device(), seeded(seed)
    widths = (784, *[config["width"]] * 3, 10)
    net = initialise(mlp(widths, BayesByBackprop()).to(on), generator)
    stepper = adam(1e-3)(net.parameters())
    x = torch.rand(config["batch_size"], 784, generator=generator, device=on)
    y = torch.randint(10, (len(x),), generator=generator, device=on)
    step, before = partial(_step, net, x, y, stepper, config, generator), _peak_bytes(on)
    times = interleaved_times({"step": step}, config["timed_batches"], 2, partial(clock, on))
    return times["step"], _peak_bytes(on) - before


def _step(
    net: Network, x: Tensor, y: Tensor, stepper: Optimizer, config: dict, generator: Generator
) -> None:
    """Of a minibatch in pieces of ``rows_at_once``."""
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


_SET_UP = (
    "Ours: three hidden layers of {width} units, batches of {batch_size}, the gradient of "
    "likelihood and KL and an Adam step. Seconds of an epoch are the median of the timed batches "
    "times {n_batches}; on a CPU they are processor time. Each estimator runs in a process of its "
    "own; memory is the process's highest, less what it held before the first step. With a weight "
    "sample per data point a minibatch is taken in pieces, so that memory suffices. Published: "
    "Theano on a GPU of 2015, and a network whose width we do not know."
)
TITLE = "What a weight sample for each row costs (Kingma, Salimans and Welling 2015)"
EXPERIMENT = Experiment("lrt_speed", TITLE, trials, run, table, figure, claims)
