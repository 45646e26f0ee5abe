import time

import pytest
import torch

from bdl_lessons.core import clock, cpu_threads, device


@pytest.fixture
def machine(monkeypatch):
    """Pretends that a machine has these devices, and that ``BDL_DEVICE`` is so."""

    def pretend(*kinds, n_gpus=1, variable=None):
        monkeypatch.delenv("BDL_DEVICE", raising=False)
        if variable is not None:
            monkeypatch.setenv("BDL_DEVICE", variable)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: "cuda" in kinds)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: n_gpus)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: "mps" in kinds)

    return pretend


@pytest.mark.parametrize(
    ("kinds", "variable", "name", "expected"),
    [
        ((), None, None, "cpu"),
        (("cuda", "mps"), None, None, "cuda"),
        (("mps",), None, None, "mps"),
        (("cuda",), "cpu", None, "cpu"),
        (("cuda",), "", None, "cuda"),
        (("cuda",), "cpu", "cuda:0", "cuda:0"),  # a named device goes before the variable
        ((), "cuda", "cpu", "cpu"),
    ],
)
def test_the_name_then_the_variable_then_the_fastest(machine, kinds, variable, name, expected):
    machine(*kinds, variable=variable)
    assert device(name) == torch.device(expected)


@pytest.mark.parametrize(
    ("kinds", "name", "message"),
    [
        ((), "cuda", r"cuda.*not available.*Available here: cpu.*BDL_DEVICE"),
        ((), "mps", r"mps.*not available"),
        ((), "gpu", r"not a device name.*BDL_DEVICE"),
        (("cuda",), "cuda:1", r"cuda:1.*does not exist: 1 GPU"),
        (("cuda",), "cuda:3", r"cuda:3.*does not exist: 1 GPU"),
    ],
)
def test_an_absent_or_unknown_device_is_an_error_with_a_remedy(machine, kinds, name, message):
    machine(*kinds)
    with pytest.raises(ValueError, match=message):
        device(name)
    machine(*kinds, variable=name)
    with pytest.raises(ValueError, match=message):
        device()


def test_double_precision_is_not_asked_of_apples_gpus(machine):
    machine("mps")
    assert device(float64=True).type == "cpu"


def test_the_clock_counts_work_and_not_waiting():
    began = clock(torch.device("cpu"))
    time.sleep(0.2)
    waited = clock(torch.device("cpu")) - began
    sum(range(3_000_000))
    assert 0 <= waited < 0.15
    assert clock(torch.device("cpu")) - began > waited


def test_the_clock_of_a_gpu_waits_once_until_it_has_finished(monkeypatch):
    waited = []
    monkeypatch.setattr(torch.cuda, "synchronize", waited.append)
    began = clock(torch.device("cuda:0"))
    assert waited == [torch.device("cuda:0")]
    time.sleep(0.2)
    assert clock(torch.device("cuda:0")) - began >= 0.2  # a wall clock: the CPU only waits
    assert len(waited) == 2


def test_the_number_of_threads_is_put_back_even_after_an_error():
    before = torch.get_num_threads()
    seen = []

    def fail():
        with cpu_threads(before + 1):
            seen.append(torch.get_num_threads())
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        fail()
    assert [*seen, torch.get_num_threads()] == [before + 1, before]
