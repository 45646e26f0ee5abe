"""The code cells of every lesson on a simulated GPU without float64: ``make test-device``."""

import pytest
import torch

from tests.device.simulated_gpu import SimulatedGPU
from tools import notebook

TRAINING = 100  # backward passes in a cell, from which on they belong on the device
ON_THE_CPU = {  # but for those without a network, or of an identity that needs 16 digits
    "02": ("fit(", "five_fits("),  # two weights, in float64 on CUDA
    "03": ("fit(phi, x",),  # two numbers of a covariance, by L-BFGS
    "04": ("vi_path", "net(inputs)"),  # steps are compared to 1e-10; in float64 on CUDA
    "06": ("repeated(draw, small",),  # one layer of 18 weights, whose gradient is known
    "10": ("smallest_kl", "fitted("),  # linear models
    "11": ("penalty(torch.outer",),  # compared to 1e-9; in float64 on CUDA
}


@pytest.fixture(autouse=True)
def a_new_kernel():
    """Lessons may set these two."""
    dtype, n_threads = torch.get_default_dtype(), torch.get_num_threads()
    yield
    torch.set_default_dtype(dtype)
    torch.set_num_threads(n_threads)


@pytest.mark.parametrize("path", notebook.paths(), ids=lambda path: path.stem)
def test_cells_keep_to_their_device(path, monkeypatch):
    monkeypatch.chdir(path.parent)
    monkeypatch.delenv("BDL_DEVICE", raising=False)
    names = {"__name__": "__main__"}
    on_cpu = {}
    exec("from IPython.display import display", names)
    with SimulatedGPU(float64=False) as gpu:
        for cell in notebook.code_of(notebook.read(path)):
            gpu.reset()
            exec(compile(cell.source, f"cell {cell.id}", "exec"), names)
            allowed = any(part in cell.source for part in ON_THE_CPU.get(path.name[:2], ()))
            if gpu.backward["CPU"] > TRAINING and not allowed:
                on_cpu[cell.id] = gpu.backward["CPU"]
    assert not on_cpu, f"cells that train on the CPU, with their backward passes: {on_cpu}"
