import concurrent.futures
import errno
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
import torch

from reproductions import Trial, checkpoint, runner
from reproductions.records import read_records

from . import toy

ROOT = Path(__file__).resolve().parents[2]


def squares(path):
    return [r["metrics"]["square"] for r in read_records(path)]


def test_every_trial_is_recorded_and_then_skipped(tmp_path):
    first = runner.reproduce(toy.make(), folder=str(tmp_path))
    assert (first.recorded, first.skipped, first.failed) == (4, 0, {})
    again = runner.reproduce(toy.make(), folder=tmp_path)
    assert (again.recorded, again.skipped, again.failed) == (0, 4, {})
    assert squares(tmp_path / "toy.jsonl") == [0, 1, 4, 9]


def test_failed_trials_are_reported_not_recorded_and_tried_again(tmp_path):
    outcome = runner.reproduce(toy.make(toy.run_with_failures), folder=tmp_path)
    raised = outcome.failed.pop("FloatingPointError: the loss became nan at step 3")
    assert raised == ["{'n': 1}, seed 0", "{'n': 3}, seed 0"]
    ((message, _),) = outcome.failed.items()
    assert "not finite" in message
    assert squares(tmp_path / "toy.jsonl") == [0]
    assert runner.reproduce(toy.make(), folder=tmp_path).recorded == 3


def test_a_worker_that_dies_costs_its_own_trial_only(tmp_path):
    callers = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(300,))
    callers.start()
    outcome = runner.reproduce(toy.make(toy.die_at_1), jobs=2, folder=tmp_path)
    callers.join(0.5)
    assert callers.is_alive(), "a process that is not the runner's was ended"
    callers.kill()
    records = read_records(tmp_path / "toy.jsonl")
    assert sorted(r["metrics"]["square"] for r in records) == [0, 4, 9]
    assert {r["threads"] for r in records} == {1}
    ((message, trials),) = outcome.failed.items()
    assert message.startswith("RuntimeError: its worker process died")
    assert trials == ["{'n': 1}, seed 0"]


def test_a_folder_that_cannot_be_written_is_refused_before_any_trial_runs(tmp_path, monkeypatch):
    def run(trial):
        raise AssertionError("a trial ran")

    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        runner.reproduce(toy.make(run), "quick", folder=tmp_path / "file")

    def full(**options):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with pytest.raises(OSError, match="No space left on device"):
        runner.reproduce(toy.make(run), folder=tmp_path)
    assert not (tmp_path / "toy.jsonl").exists()


KILLED = """
import signal
import sys
from functools import partial
from pathlib import Path
from reproductions import runner
from tests.reproductions import toy
if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a job that began with &
    folder = Path(sys.argv[1])
    experiment = toy.make(toy.train_slowly, partial(toy.trials, folder=str(folder)))
    runner.reproduce(experiment, jobs=2, folder=folder)
"""


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGINT])
def test_killing_loses_only_what_was_running_and_leaves_no_worker(tmp_path, ending):
    script = tmp_path / "killed.py"
    path = tmp_path / "toy.jsonl"
    script.write_text(KILLED)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen([sys.executable, str(script), str(tmp_path)], env=environment)
    try:
        wait_for(lambda: (tmp_path / "began-2").exists() and len(read_records(path)) == 2)
        workers = children(process.pid)
    finally:
        process.send_signal(ending)
        process.wait(60)
    wait_for(lambda: not any(map(alive, workers)), seconds=30)
    assert len(read_records(path)) == 2
    (tmp_path / "go-on").touch()
    experiment = toy.make(toy.train_slowly, partial(toy.trials, folder=str(tmp_path)))
    outcome = runner.reproduce(experiment, folder=tmp_path)
    assert (outcome.recorded, outcome.skipped) == (2, 2)

    uninterrupted = tmp_path / "uninterrupted"
    runner.reproduce(experiment, folder=uninterrupted)
    assert_same_records(path, uninterrupted / "toy.jsonl")


def test_a_trial_that_was_stopped_goes_on_from_its_checkpoint(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "SECONDS_BETWEEN_WRITES", 0.0)
    folder = tmp_path / "stopped"
    stopped = runner.reproduce(toy.make(partial(toy.fit_and_stop, stop_at=31)), folder=folder)
    assert stopped.recorded == 2  # those of 30 and 31 steps
    left = sorted(folder.glob("toy-*.checkpoint"))
    assert [checkpoint.read(path)["done"] for path in left] == [31, 31]

    first_steps = partial(toy.fit_and_stop, stop_at=30)  # would stop a run from the beginning
    assert runner.reproduce(toy.make(first_steps), folder=folder).recorded == 2
    assert not list(folder.glob("*.checkpoint"))
    runner.reproduce(toy.make(toy.fit_and_stop), folder=tmp_path)
    assert_same_records(folder / "toy.jsonl", tmp_path / "toy.jsonl")


def test_trials_elsewhere_keep_no_checkpoint_and_those_a_scheduler_gave_up_are_said_to_be(tmp_path):
    def run(trial):
        assert trial.checkpoint is None
        raise concurrent.futures.CancelledError

    with ThreadPoolExecutor(1) as pool:
        outcome = runner.reproduce(toy.make(run), folder=tmp_path, executor=pool)
    assert {message: len(trials) for message, trials in outcome.failed.items()} == {
        "CancelledError: ": 4
    }


def wait_for(condition, seconds=180):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "waited too long"
        time.sleep(0.02)


def children(pid):
    tasks = Path(f"/proc/{pid}/task")
    if not tasks.is_dir():
        return []  # no /proc on this system: the children are not checked
    pids = []
    for task in tasks.iterdir():
        pids += (task / "children").read_text().split()
    return [int(pid) for pid in pids]


def alive(pid):
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def assert_same_records(*paths):
    """Time and the order of finishing may differ between two runs, and the last bits of results."""
    first, second = ({record["key"]: record for record in read_records(path)} for path in paths)
    assert first.keys() == second.keys()
    for key, record in first.items():
        for part in ("metrics", "arrays"):
            torch.testing.assert_close(record[part], second[key][part], rtol=1e-4, atol=1e-6)


def test_the_record_names_the_device_of_the_trial(monkeypatch):
    asked = []
    monkeypatch.setattr(runner, "device", lambda name: asked.append(name) or torch.device("cpu"))
    runner.measure(toy.make(), "paper", Trial({"n": 2, "device": "cpu"}, seed=0))
    assert asked == ["cpu"]


def test_the_seconds_before_a_stop_are_counted(monkeypatch):
    monkeypatch.setattr(runner, "seconds_before", lambda checkpoint: 1000.0)
    record = runner.measure(toy.make(), "paper", Trial({"n": 2}, seed=0))
    assert record["seconds"] >= 1000
