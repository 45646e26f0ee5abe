"""The code cells of every lesson on a simulated GPU without float64: ``make test-device``.

Where a tensor is shows in the first steps of a training. So lessons train for a fifth of their
steps here, and their checks, which need the others, do not stop them.
"""

import ast
import contextlib

import pytest
import torch

from bdl_lessons import core
from tests.device.simulated_gpu import SimulatedGPU
from tools import notebook

SHORTER = 5
TRAINING = 40  # backward passes in a cell, from which on they belong on the device
ON_THE_CPU = {  # but for those without a network, or of an identity that needs 16 digits
    "02": ("fit(", "five_fits(", "ascent."),  # two weights, in float64 on CUDA
    "03": ("fit(phi, x", "compare(end"),  # two numbers of a covariance, by L-BFGS
    "04": ("vi_path", "net(inputs)"),  # steps are compared to 1e-10; in float64 on CUDA
    "05": ("gp_of(",),  # the few numbers of a covariance, by L-BFGS
    "06": ("repeated(draw, small",),  # one layer of 18 weights, whose gradient is known
    "11": ("smallest_kl", "fitted(", "vsd_cov", "lost("),  # linear models
    # compared to 1e-9; in float64 on CUDA; and small networks whose draws are in float64
    "12": ("penalty(torch.outer", "trained(noisy", "tuned(", "batch_of("),
    "14": ("nearest(", "experiment("),  # linear models
}


@pytest.fixture(autouse=True)
def a_new_kernel():
    """Lessons may set these two."""
    dtype = torch.get_default_dtype()
    n_threads = torch.get_num_threads()
    yield
    torch.set_default_dtype(dtype)
    torch.set_num_threads(n_threads)


def unless_it_fails(check):
    def called(*args, **kwargs):
        with contextlib.suppress(core.CheckFailed):
            check(*args, **kwargs)

    return called


def shortened(source: str) -> str:
    """The code with a fifth of ``n_steps`` and ``max_iter``, constants, and long ranges."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        match node:
            case ast.keyword("n_steps" | "max_iter", value):
                _shorten(value)
            case ast.arguments(args=args, defaults=defaults) if defaults:
                for argument, value in zip(args[-len(defaults) :], defaults, strict=True):
                    if argument.arg == "n_steps":
                        _shorten(value)
            case ast.Call(ast.Name("range"), [*_, ast.Constant(int(stop)) as last]) if stop > 150:
                _shorten(last)
            case ast.Call(ast.Name("at_step"), [_, step, *_]):
                _shorten(step)  # lesson 01
            case ast.Assign([ast.Name("STEPS")], value):
                _shorten(value)
            case ast.Assign([ast.Tuple([*_, ast.Name("SHORT")])], ast.Tuple([*_, value])):
                _shorten(value)
    return ast.unparse(tree)


def _shorten(number: ast.expr) -> None:
    for part in ast.walk(number):
        if isinstance(part, ast.Constant) and isinstance(part.value, int) and part.value >= 25:
            part.value = -(-part.value // SHORTER)


@pytest.mark.parametrize("path", notebook.paths(), ids=lambda path: path.stem)
def test_cells_keep_to_their_device(path, monkeypatch):
    monkeypatch.chdir(path.parent)
    monkeypatch.delenv("BDL_DEVICE", raising=False)
    for name in ("check", "check_between"):
        monkeypatch.setattr(core, name, unless_it_fails(getattr(core, name)))
    names = {"__name__": "__main__"}
    on_cpu = {}
    exec("from IPython.display import display", names)
    with SimulatedGPU(float64=False) as gpu:
        for cell in notebook.code_of(notebook.read(path)):
            gpu.reset()
            exec(compile(shortened(cell.source), f"cell {cell.id}", "exec"), names)
            allowed = any(part in cell.source for part in ON_THE_CPU.get(path.name[:2], ()))
            if gpu.backward["CPU"] > TRAINING and not allowed:
                on_cpu[cell.id] = gpu.backward["CPU"]
    assert not on_cpu, f"cells that train on the CPU, with their backward passes: {on_cpu}"
