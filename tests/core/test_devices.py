import time

import pytest
import torch

from bdl_lessons.core import clock, device
from bdl_lessons.core.devices import cpu_threads


@pytest.fixture
def _only_a_cpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    monkeypatch.delenv("BDL_DEVICE", raising=False)


@pytest.mark.usefixtures("_only_a_cpu")
class TestWithoutAGPU:
    def test_falls_back_on_the_cpu(self):
        assert device() == torch.device("cpu")

    def test_the_variable_is_honoured(self, monkeypatch):
        monkeypatch.setenv("BDL_DEVICE", "cpu")
        assert device() == torch.device("cpu")

    @pytest.mark.parametrize("name", ["cuda", "cuda:1", "mps"])
    def test_an_absent_device_is_an_error_with_a_remedy(self, name, monkeypatch):
        monkeypatch.setenv("BDL_DEVICE", name)
        with pytest.raises(ValueError, match=rf"{name}.*not available.*Available here: cpu"):
            device()

    @pytest.mark.parametrize("name", ["gpu", "cuda:x", "a potato"])
    def test_an_unknown_device_is_an_error_with_a_remedy(self, name):
        with pytest.raises(ValueError, match=r"not a(vailable| device name).*BDL_DEVICE"):
            device(name)


def test_a_gpu_is_preferred(monkeypatch):
    monkeypatch.delenv("BDL_DEVICE", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert device().type == "cuda"


def test_a_gpu_that_is_not_there_is_an_error(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(ValueError, match=r"cuda:3.*does not exist: 1 GPU"):
        device("cuda:3")


def test_the_clock_counts_work_and_not_waiting():
    began = clock(torch.device("cpu"))
    time.sleep(0.2)
    waited = clock(torch.device("cpu")) - began
    sum(range(3_000_000))
    assert 0 <= waited < 0.15
    assert clock(torch.device("cpu")) - began > waited


def test_double_precision_is_not_asked_of_apples_gpus(monkeypatch):
    monkeypatch.delenv("BDL_DEVICE", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert device().type == "mps"
    assert device(float64=True).type == "cpu"


def test_the_number_of_threads_is_put_back_even_after_an_error():
    before, seen = torch.get_num_threads(), []

    def fail():
        with cpu_threads(before + 1):
            seen.append(torch.get_num_threads())
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        fail()
    assert [*seen, torch.get_num_threads()] == [before + 1, before]
