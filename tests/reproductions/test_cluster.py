import os
import signal
import sys
import threading
from functools import partial

import pytest

from reproductions import runner
from reproductions.records import read_records
from reproductions.runner import on_cluster

from . import toy
from .test_runner import assert_same_records, wait_for

distributed = pytest.importorskip("distributed")


@pytest.fixture
def two_workers(monkeypatch, tmp_path):
    with distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        dashboard_address=None,
        local_directory=str(tmp_path / "dask"),
    ) as cluster:
        yield cluster


def test_a_worker_that_dies_loses_no_trial_and_doubles_none(two_workers, tmp_path):
    experiment = toy.make(toy.train_slowly, partial(toy.trials, folder=str(tmp_path)))
    path = tmp_path / "toy.jsonl"
    outcomes = []

    def reproduce():
        with on_cluster(two_workers.scheduler_address) as executor:
            outcomes.append(runner.reproduce(experiment, folder=tmp_path, executor=executor))

    running = threading.Thread(target=reproduce)
    running.start()
    wait_for(lambda: (tmp_path / "began-2").exists() and (tmp_path / "began-3").exists())
    (tmp_path / "began-2").unlink()
    (tmp_path / "began-3").unlink()
    os.kill(next(iter(two_workers.workers.values())).pid, signal.SIGKILL)
    wait_for(lambda: (tmp_path / "began-2").exists() or (tmp_path / "began-3").exists())
    (tmp_path / "go-on").touch()
    running.join(60)

    assert [(o.recorded, o.skipped, o.failed) for o in outcomes] == [(4, 0, {})]
    assert len({record["key"] for record in read_records(path)}) == len(read_records(path)) == 4
    alone = tmp_path / "alone"
    runner.reproduce(experiment, folder=alone)
    assert_same_records(path, alone / "toy.jsonl")


@pytest.mark.parametrize(
    ("module", "address", "message"),
    [
        (distributed, "tcp://127.0.0.1:9", "no Dask scheduler answers at 'tcp:"),
        (None, "tcp://127.0.0.1:9", r"pip install -e '\.\[cluster\]'"),
    ],
)
def test_a_missing_scheduler_or_library_is_named(monkeypatch, module, address, message):
    monkeypatch.setitem(sys.modules, "distributed", module)
    with pytest.raises(ValueError, match=message), on_cluster(address, timeout=0.5):
        pass
