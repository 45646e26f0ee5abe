"""``make test-gpu`` on the CPU: its parts run, it fails without a GPU, and says what it found."""

import json

import pytest
import torch

from tests.gpu import run
from tools import readme


@pytest.fixture(autouse=True)
def as_it_was(monkeypatch):
    """``main`` sets these for its own process."""
    monkeypatch.setenv("BDL_DEVICE", "cpu")
    threads = torch.get_num_threads()
    products = torch.backends.cuda.matmul.allow_tf32
    convolutions = torch.backends.cudnn.allow_tf32
    yield
    torch.set_num_threads(threads)
    torch.backends.cuda.matmul.allow_tf32 = products
    torch.backends.cudnn.allow_tf32 = convolutions


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_without_a_gpu_it_fails(capsys, tmp_path):
    assert run.main(["--folder", str(tmp_path)]) == 1
    assert "FAILED: device 'cuda' is not available" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def test_its_parts_run_and_what_differs_fails(tmp_path, monkeypatch):
    parts = ["the same numbers", "the same distributions"]
    assert run.main(["--on", "cpu", "--folder", str(tmp_path), "--only", *parts]) == 0
    evidence = json.loads((tmp_path / "gpu_evidence.json").read_text())
    assert list(evidence["items"]) == parts
    assert evidence["items"]["the same numbers"]["found"]["float64"]["largest"] <= 1e-10
    monkeypatch.setattr(run, "_deviation", lambda there, here: 1e-3)
    assert run.main(["--on", "cpu", "--folder", str(tmp_path), "--only", parts[0]]) == 1
    item = json.loads((tmp_path / "gpu_evidence.json").read_text())["items"][parts[0]]
    assert not item["passed"]
    assert "1.0e-03 off" in item["problems"][0]


def evidence(tmp_path, **changes):
    path = tmp_path / "gpu_evidence.json"
    facts = dict.fromkeys(("gpu", "torch", "driver", "cuda"), "X") | {"date": "2026-11-30"}
    items = {"waits": {"passed": True}, "memory": {"passed": True}}
    facts |= {"version": "1.0", "items": items} | changes
    path.write_text(json.dumps(facts))
    return readme.gpu_summary(path)


def test_the_summary_says_what_was_shown(tmp_path):
    assert "last looked for in" in readme.gpu_summary(tmp_path / "nothing")
    assert evidence(tmp_path).endswith("(driver X, CUDA X): 2 of 2 parts passed.")
    failed = {"waits": {"passed": False}, "memory": {"passed": True}}
    assert "1 of 2 parts passed, not waits." in evidence(tmp_path, items=failed)
    assert "version 1.0" in evidence(tmp_path)
