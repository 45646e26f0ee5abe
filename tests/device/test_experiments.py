"""Quick trials of every experiment, and every method of UCI's, on a simulated GPU."""

from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace

import pytest

import reproductions
from reproductions import local_reparameterization, runner
from tests.device.simulated_gpu import SimulatedGPU
from tests.reproductions.test_quick import few_images, few_yachts  # noqa: F401, fixtures


@contextmanager
def this_process(*_):
    """In place of a pool: the simulated GPU is there for this process alone."""

    class Here:
        def submit(self, function, *args):
            future = Future()
            future.set_result(function(*args))
            return future

    yield Here()


CASES = [(name, 0) for name in reproductions.PLACES]
CASES += [("uci", index) for index in range(1, len(reproductions.load("uci").trials("quick")))]


@pytest.mark.parametrize(("name", "index"), CASES)
def test_a_trial_stays_on_the_device(name, index, few_images, few_yachts, monkeypatch):  # noqa: F811
    monkeypatch.setattr(local_reparameterization, "ProcessPoolExecutor", this_process)
    experiment = reproductions.load(name)
    trial = experiment.trials("quick")[index]
    if "device" in trial.config:
        trial = replace(trial, config={**trial.config, "device": "cuda"})
    with SimulatedGPU() as gpu:
        record = runner.measure(experiment, "quick", trial)
    assert record["metrics"]
    assert record["device"] == ("cpu" if experiment.on_cpu else "a simulated GPU")
    assert bool(gpu.waits) != experiment.on_cpu
