"""Run the trials of an experiment that are not recorded yet, here or on a Dask cluster."""

import asyncio
import multiprocessing
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from concurrent.futures import Executor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import torch
from tqdm import tqdm

from bdl_lessons.core import device
from bdl_lessons.core.validation import integer
from bdl_lessons.datasets.records import RESULTS_FOLDER, Record
from reproductions import records
from reproductions.checkpoint import seconds_before
from reproductions.experiment import Experiment, Trial
from reproductions.records import records_path, trial_key

_SPAWN = multiprocessing.get_context("spawn")  # a forked CUDA or OpenMP does not work


@dataclass
class Outcome:
    """How many trials were recorded now and before; messages, each with the trials it ended."""

    recorded: int = 0
    skipped: int = 0
    failed: dict[str, list[str]] = field(default_factory=dict)


def reproduce(
    experiment: Experiment,
    scale: str = "paper",
    jobs: int = 1,
    folder: Path | str = RESULTS_FOLDER,
    executor: Executor | None = None,
) -> Outcome:
    """Run what is missing and append each trial's record as soon as it is there.

    Killing the process loses the trials that are running and nothing else, and of those that keep
    a checkpoint beside the records only the last minutes. A trial that raises, whose metrics are
    not finite or whose worker process dies is reported in the outcome; the others go on.

    Args:
        jobs: number of local processes of one thread each. With 1 everything runs in this process.
        executor: where to run instead: anything with the interface of ``concurrent.futures``.
            Trials keep no checkpoints there, for it may be another machine.

    Before any trial runs, ValueError tells that there is no such scale, ``jobs`` is below 1 or a
    line is no record, OSError that ``folder`` cannot be read or written.
    """
    path = records_path(experiment.name, scale, folder)
    integer("jobs", jobs, least=1)
    trials = experiment.trials(scale)
    missing = _not_recorded(trials, path, keeps_checkpoints=executor is None)
    outcome = Outcome(skipped=len(trials) - len(missing))
    if missing:
        _refuse_a_full_disk(path.parent)
    bar = tqdm(total=len(trials), initial=outcome.skipped, desc=experiment.name, disable=None)
    call = partial(measure, experiment, scale)
    with bar, closing(_finished(call, missing, jobs, executor)) as finished:
        for trial, record in finished:
            try:
                is_new = records.append_record(path, record())
                outcome.recorded += is_new
                outcome.skipped += not is_new  # another process recorded it in the meantime
                if trial.checkpoint:
                    trial.checkpoint.unlink(missing_ok=True)
            except (Exception, asyncio.CancelledError) as error:  # a scheduler may give up
                reason = f"{type(error).__name__}: {error}"
                name = f"{dict(trial.config)}, seed {trial.seed}"
                outcome.failed.setdefault(reason, []).append(name)
            bar.update()
    return outcome


def measure(experiment: Experiment, scale: str, trial: Trial) -> Record:
    """Run one trial, or the rest of it, and make its record.

    Its seconds are those of the whole trial, with what passed before it was stopped.
    """
    began = time.perf_counter() - seconds_before(trial.checkpoint)
    result = experiment.run(trial)
    on = device("cpu" if experiment.on_cpu else trial.config.get("device"))
    seconds = time.perf_counter() - began
    return records.make_record(experiment.name, scale, trial, result, seconds, on)


@contextmanager
def on_cluster(address: str, timeout: float = 30.0) -> Iterator[Executor]:
    """An executor whose workers are those of the scheduler at, such as, ``tcp://10.0.0.1:8786``.

    The package and, where an experiment needs it, ``BDL_DATA_DIR`` must be there for every worker.
    A trial whose worker dies is given to another one. Leaving the context, also by Ctrl-C, takes
    back what has not been finished. Raises ValueError if Dask is not installed or no scheduler
    answers within ``timeout`` seconds.
    """
    try:
        from distributed import Client
        from distributed.comm.addressing import parse_address, parse_host_port
    except ImportError as error:
        raise ValueError("no Dask here; it is in: pip install -e '.[cluster]'") from error
    try:
        parse_host_port(parse_address(address)[1])  # a client without would wait as it is let go
        client = Client(address, timeout=timeout, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ValueError(f"no Dask scheduler answers at {address!r}: {error}") from error
    with client:
        yield client.get_executor(pure=False)


def _not_recorded(trials: Sequence[Trial], path: Path, keeps_checkpoints: bool) -> list[Trial]:
    """The trials without a record in the file; each with a checkpoint beside it, if wanted."""
    known = {record["key"] for record in records.read_records(path)}
    missing = []
    for trial in trials:
        key = trial_key(trial.config, trial.seed)
        if key in known:
            continue
        if keeps_checkpoints:
            trial = replace(trial, checkpoint=path.with_name(f"{path.stem}-{key}.checkpoint"))
        missing.append(trial)
    return missing


def _refuse_a_full_disk(folder: Path) -> None:
    """Make the folder, and raise OSError if more than many records do not fit into it."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(bytes(2**20))


def _finished(
    call: Callable[[Trial], Record], trials: list[Trial], jobs: int, executor: Executor | None
) -> Iterator[tuple[Trial, Callable[[], Record]]]:
    """Trials, as soon as they are done or have their turn here, and what gives their record."""
    if executor is None and jobs == 1:
        for trial in trials:
            yield trial, partial(call, trial)
        return
    if executor:
        submitted = {executor.submit(call, trial): trial for trial in trials}
        for future in futures.as_completed(submitted):
            yield submitted[future], future.result
        return
    other_processes = set(multiprocessing.active_children())
    pool = futures.ThreadPoolExecutor(jobs)
    submitted = {pool.submit(_in_a_process, call, trial): trial for trial in trials}
    try:
        for future in futures.as_completed(submitted):
            yield submitted[future], future.result
    finally:  # after Ctrl-C: what is missing is not begun, what runs is ended
        pool.shutdown(wait=False, cancel_futures=True)
        workers = set(multiprocessing.active_children()) - other_processes
        for worker in workers:
            worker.kill()


def _in_a_process(call: Callable[[Trial], Record], trial: Trial) -> Record:
    """The record by a process of its own: one that dies fails its own trial."""
    with futures.ProcessPoolExecutor(1, _SPAWN, _start_worker) as process:
        try:
            return process.submit(call, trial).result()
        except futures.BrokenExecutor:
            raise RuntimeError("its worker process died; was there too little memory?") from None


def _start_worker() -> None:
    """One thread, no bar of its own, and an end when the parent ends."""

    def end_with_parent() -> None:
        """A worker whose parent was killed would wait for work forever."""
        multiprocessing.parent_process().join()
        os._exit(1)

    torch.set_num_threads(1)
    os.environ["TQDM_DISABLE"] = "1"  # the bar of the trials is the parent's
    threading.Thread(target=end_with_parent, daemon=True).start()
