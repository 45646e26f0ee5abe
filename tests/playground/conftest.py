"""Runs the playground's JavaScript in Node, which a reader's machine need not have."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

import bdl_lessons.playground

FOLDER = Path(bdl_lessons.playground.__file__).parent
NODE = shutil.which("node")


@pytest.fixture(scope="session")
def run_js():
    """A function that runs one command of ``run.js`` and returns its result."""
    if NODE is None:
        pytest.skip("no node on the PATH: the playground's JavaScript cannot be run")

    def run(command, **case):
        script = Path(__file__).with_name("run.js")
        process = subprocess.run(
            [NODE, str(script), str(FOLDER)],
            input=json.dumps([{"command": command, **case}]),
            capture_output=True,
            text=True,
            encoding="utf-8",
        )
        assert process.returncode == 0, process.stderr
        (result,) = json.loads(process.stdout)
        return result

    return run
