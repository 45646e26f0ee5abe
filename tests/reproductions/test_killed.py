"""A run is killed ten times at random moments; the records become those of one whole run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bdl_lessons.datasets.records import read_records
from reproductions import runner

from . import toy
from .test_runner import assert_same_records

ROOT = Path(__file__).resolve().parents[2]
KILL_TEN_TIMES = """
import os, random, signal, sys, time
from pathlib import Path
from reproductions import runner
from tests.reproductions import toy

folder, moments = Path(sys.argv[1]), random.Random(0)
for _ in range(10):
    child = os.fork()  # everything is imported: a moment in the child is a moment in the work
    if child == 0:
        runner.reproduce(toy.make(toy.train, toy.many_trials), folder=folder)
        os._exit(0)
    time.sleep(moments.uniform(0.0, 0.15))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_ten_kills_at_random_moments_change_nothing(tmp_path):
    script = tmp_path / "kill.py"
    script.write_text(KILL_TEN_TIMES)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(
        [sys.executable, str(script), str(tmp_path)],
        env=environment,
        cwd=tmp_path,
        check=True,
        timeout=120,
        stderr=subprocess.DEVNULL,
    )
    experiment = toy.make(toy.train, toy.many_trials)
    path = tmp_path / "toy.jsonl"
    recorded = len(read_records(path))
    assert 0 < recorded < len(toy.many_trials("paper")), "the kills came too early or too late"
    outcome = runner.reproduce(experiment, folder=tmp_path)
    assert outcome.skipped == recorded

    uninterrupted = tmp_path / "uninterrupted"
    runner.reproduce(experiment, folder=uninterrupted)
    assert_same_records(path, uninterrupted / "toy.jsonl")
    assert len(read_records(path)) == len(toy.many_trials("paper"))
