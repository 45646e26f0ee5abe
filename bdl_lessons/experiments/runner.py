"""Run the units of an experiment that are not recorded yet."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from pathlib import Path

import torch
from tqdm import tqdm

from bdl_lessons.core import device
from bdl_lessons.experiments.experiment import SCALES, Experiment, Trial
from bdl_lessons.experiments.records import (
    RESULTS_FOLDER,
    Record,
    append_record,
    load_records,
    make_record,
    trial_key,
)
from bdl_lessons.inference.checkpoint import seconds_before


@dataclass
class Outcome:
    """How many units were recorded now and before, and the messages of those that failed."""

    recorded: int = 0
    skipped: int = 0
    failed: list[str] = field(default_factory=list)


def records_path(name: str, scale: str, folder: Path = RESULTS_FOLDER) -> Path:
    """Where the records of an experiment are; quick ones are kept apart from measured ones.

    Raises:
        ValueError: if there is no such scale.
    """
    if scale not in SCALES:
        raise ValueError(f"scale must be one of {', '.join(SCALES)}, got {scale!r}")
    return (folder if scale == "paper" else folder / scale) / f"{name}.jsonl"


def reproduce(
    experiment: Experiment,
    scale: str = "paper",
    jobs: int = 1,
    folder: Path = RESULTS_FOLDER,
    executor: Executor | None = None,
) -> Outcome:
    """Run what is missing and append each unit's record as soon as it is there.

    Killing the process loses the units that are running and nothing else, and of those that keep a
    checkpoint beside the records only the last minutes. A unit that raises, or whose metrics are
    not finite, is reported in the outcome and not recorded; the others go on. But if a worker
    process dies, all that wait are reported: start again.

    Args:
        jobs: number of local processes of one thread each. With 1 everything runs in this process.
        executor: where to run instead: anything with the interface of ``concurrent.futures``.
            Units keep no checkpoints there, for it may be another machine.

    Raises:
        ValueError: if there is no such scale or ``jobs`` is below 1.
    """
    path = records_path(experiment.name, scale, folder)
    if jobs < 1:
        raise ValueError(f"jobs must be >= 1, got {jobs}")
    known = {record["key"] for record in load_records(path)}
    units = experiment.units(scale)
    for key in known:  # of units that were killed between their record and their clean-up
        _checkpoint(path, key).unlink(missing_ok=True)
    waiting = [
        unit if executor else replace(unit, checkpoint=_checkpoint(path, key))
        for unit in units
        if (key := trial_key(unit.config, unit.seed)) not in known
    ]
    outcome = Outcome(skipped=len(units) - len(waiting))
    bar = tqdm(total=len(units), initial=outcome.skipped, desc=experiment.name, disable=None)
    with bar, _executor(jobs, executor) as pool:
        for unit, future in _finished(pool, experiment, scale, waiting):
            try:
                outcome.recorded += append_record(path, future.result())
                if unit.checkpoint:
                    unit.checkpoint.unlink(missing_ok=True)
            except Exception as error:
                outcome.failed.append(
                    f"{dict(unit.config)}, seed {unit.seed}: {type(error).__name__}: {error}"
                )
            bar.update()
    return outcome


def measure(experiment: Experiment, scale: str, unit: Trial) -> Record:
    """Run one unit, or the rest of it, and make its record."""
    began = time.perf_counter() - seconds_before(unit.checkpoint)
    measured = experiment.run(unit)
    return make_record(
        experiment.name,
        scale,
        unit.config,
        unit.seed,
        measured.metrics,
        arrays=measured.arrays,
        seconds=time.perf_counter() - began,
        device=device(unit.config.get("device")),
    )


def _checkpoint(path: Path, key: str) -> Path:
    return path.with_name(f"{path.stem}-{key}.checkpoint")


class _ThisProcess(Executor):
    """Runs a call where it stands."""

    def submit(self, function, /, *args) -> Future:
        future: Future = Future()
        try:
            future.set_result(function(*args))
        except Exception as error:
            future.set_exception(error)
        return future


@contextmanager
def _executor(jobs: int, given: Executor | None) -> Iterator[Executor]:
    if given is not None or jobs == 1:
        yield given or _ThisProcess()
        return
    spawn = multiprocessing.get_context("spawn")  # a forked CUDA or OpenMP does not work
    lifeline, ours = spawn.Pipe(duplex=False)
    with ProcessPoolExecutor(jobs, spawn, _start_worker, (lifeline,)) as pool:
        try:
            yield pool
        except BaseException:  # Ctrl-C: what waits is not begun, what runs is ended
            ours.close()
            pool.shutdown(cancel_futures=True)
            raise


def _finished(
    pool: Executor, experiment: Experiment, scale: str, units: list[Trial]
) -> Iterator[tuple[Trial, Future]]:
    """Units with their futures, each as soon as it is done."""
    if isinstance(pool, _ThisProcess):
        for unit in units:
            yield unit, pool.submit(measure, experiment, scale, unit)
        return
    submitted = {pool.submit(measure, experiment, scale, unit): unit for unit in units}
    for future in as_completed(submitted):
        yield submitted[future], future


def _start_worker(lifeline: Connection) -> None:
    torch.set_num_threads(1)
    threading.Thread(target=_end_with_parent, args=(lifeline,), daemon=True).start()


def _end_with_parent(lifeline: Connection) -> None:
    """A worker whose parent was killed would wait for work forever."""
    lifeline.poll(None)  # nothing is ever sent: returns when the other end is closed
    os._exit(1)
