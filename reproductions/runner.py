"""Run the trials of an experiment that are not recorded yet, here or on a Dask cluster."""

import multiprocessing
import os
import threading
import time
from asyncio import CancelledError
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing.connection import Connection
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
Submit = Callable[..., futures.Future]


@dataclass
class Outcome:
    """How many trials were recorded now and before; of those that failed, which one and why."""

    recorded: int = 0
    skipped: int = 0
    failed: list[tuple[str, str]] = field(default_factory=list)

    def reasons(self) -> list[str]:
        """Every message once, with the number of the trials that ended with it and the first."""
        by_message: dict[str, list[str]] = {}
        for trial, message in self.failed:
            by_message.setdefault(message, []).append(trial)
        return [
            f"{which[0]}{f' and {len(which) - 1} more' if which[1:] else ''}: {message}"
            for message, which in by_message.items()
        ]


def reproduce(
    experiment: Experiment,
    scale: str = "paper",
    jobs: int = 1,
    folder: Path | str = RESULTS_FOLDER,
    executor: futures.Executor | None = None,
) -> Outcome:
    """Run what is missing and append each trial's record as soon as it is there.

    Killing the process loses the trials that are running and nothing else, and of those that keep
    a checkpoint beside the records only the last minutes. A trial that raises, or whose metrics
    are not finite, is reported in the outcome and not recorded, and so is one whose worker process
    dies; the others go on.

    Args:
        jobs: number of local processes of one thread each. With 1 everything runs in this process.
        executor: where to run instead: anything with the interface of ``concurrent.futures``.
            Trials keep no checkpoints there, for it may be another machine.

    Raises ValueError before any trial runs if there is no such scale, ``jobs`` is below 1, a record
    cannot be read, or none can be written to ``folder``.
    """
    path = records_path(experiment.name, scale, folder)
    integer("jobs", jobs, 1)
    known = {record["key"] for record in records.read_records(path)}
    trials = experiment.trials(scale)
    for key in known:  # of trials that were killed between their record and their clean-up
        with suppress(OSError):  # the folder may be there to be read alone
            _checkpoint(path, key).unlink(missing_ok=True)
    missing = [
        trial if executor else replace(trial, checkpoint=_checkpoint(path, key))
        for trial in trials
        if (key := trial_key(trial.config, trial.seed)) not in known
    ]
    outcome = Outcome(skipped=len(trials) - len(missing))
    if missing:
        records.require_writable(path)
    bar = tqdm(total=len(trials), initial=outcome.skipped, desc=experiment.name, disable=None)
    with bar, _submitting(jobs, executor) as submit:
        for trial, record in _finished(submit, experiment, scale, missing):
            try:
                is_new = records.append_record(path, record())
                outcome.recorded += is_new
                outcome.skipped += not is_new  # another process recorded it in the meantime
                if trial.checkpoint:
                    trial.checkpoint.unlink(missing_ok=True)
            except (Exception, CancelledError, SystemExit) as error:
                which = f"{dict(trial.config)}, seed {trial.seed}"
                outcome.failed.append((which, f"{type(error).__name__}: {_reason(error)}"))
            bar.update()
    return outcome


def measure(experiment: Experiment, scale: str, trial: Trial) -> Record:
    """Run one trial, or the rest of it, and make its record."""
    began = time.perf_counter() - seconds_before(trial.checkpoint)
    result = experiment.run(trial)
    on = device("cpu" if experiment.on_cpu else trial.config.get("device"))
    seconds = time.perf_counter() - began
    return records.make_record(experiment.name, scale, trial, result, seconds, on)


@contextmanager
def on_cluster(address: str, timeout: float = 30.0) -> Iterator[futures.Executor]:
    """An executor whose workers are those of the scheduler at ``address``.

    The package and, where an experiment needs it, ``BDL_DATA_DIR`` must be there for every worker;
    workers of one thread each do not disturb one another. A trial whose worker dies is given to
    another one. Leaving the context, also by Ctrl-C, takes back what has not been finished.

    Args:
        address: such as ``tcp://10.0.0.1:8786``.
        timeout: seconds to wait for the scheduler.

    Raises ValueError if Dask is not installed or no scheduler answers, and says what to do.
    """
    try:
        from distributed import Client
        from distributed.comm.addressing import parse_address, parse_host_port
    except ImportError as error:
        raise ValueError(
            "scheduler needs Dask, here and on the workers: pip install -e '.[cluster]'"
        ) from error
    try:
        parse_host_port(parse_address(address)[1])  # a client without would wait as it is let go
        client = Client(address, timeout=timeout, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ValueError(f"no Dask scheduler answers at {address!r}: {error}") from error
    with client:
        yield client.get_executor(pure=False)


def _reason(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return f"the trial ended Python with exit status {error.code}"
    if "Cancelled" in type(error).__name__:
        return f"{error} The scheduler gave the trial up; is it still there?".lstrip()
    return str(error)


def _checkpoint(path: Path, key: str) -> Path:
    return path.with_name(f"{path.stem}-{key}.checkpoint")


@contextmanager
def _submitting(jobs: int, given: futures.Executor | None) -> Iterator[Submit | None]:
    """What sends a call to where trials run; ``None``: this process."""
    if given is not None or jobs == 1:
        yield given and given.submit
        return
    lifeline, ours = _SPAWN.Pipe(duplex=False)
    with futures.ThreadPoolExecutor(jobs) as pool:
        try:
            yield partial(pool.submit, _in_a_process, lifeline)
        except BaseException:  # Ctrl-C: what is missing is not begun, what runs is ended
            ours.close()
            pool.shutdown(cancel_futures=True)
            raise


def _in_a_process(lifeline: Connection, function: Callable[..., Record], *args: object) -> Record:
    """The result of a call in a process of its own: one that dies fails its own trial."""
    with futures.ProcessPoolExecutor(1, _SPAWN, _start_worker, (lifeline,)) as process:
        try:
            return process.submit(function, *args).result()
        except futures.BrokenExecutor:
            raise RuntimeError("its worker process died; was there too little memory?") from None


def _finished(
    submit: Submit | None, experiment: Experiment, scale: str, trials: list[Trial]
) -> Iterator[tuple[Trial, Callable[[], Record]]]:
    """Trials, as soon as they are done or have their turn here, and what gives their record."""
    if submit is None:
        for trial in trials:
            yield trial, partial(measure, experiment, scale, trial)
        return
    submitted = {submit(measure, experiment, scale, trial): trial for trial in trials}
    for future in futures.as_completed(submitted):
        yield submitted[future], future.result


def _start_worker(lifeline: Connection) -> None:
    torch.set_num_threads(1)
    os.environ["TQDM_DISABLE"] = "1"  # the bar of the trials is the parent's
    threading.Thread(target=_end_with_parent, args=(lifeline,), daemon=True).start()


def _end_with_parent(lifeline: Connection) -> None:
    """A worker whose parent was killed would wait for work forever."""
    lifeline.poll(None)  # nothing is ever sent: returns when the other end is closed
    os._exit(1)
