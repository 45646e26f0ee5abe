"""The simulated GPU itself: it refuses what CUDA refuses, and sees errors that are planted."""

import pytest
import torch

from bdl_lessons.core import device
from bdl_lessons.models import BinaryDropout, SparseVD, UnitNoise
from bdl_lessons.models.layers import base
from bdl_lessons.probability import log_uniform
from tests.device.calculations import CALCULATIONS
from tests.device.simulated_gpu import DeviceError, SimulatedGPU


def noise_stays_behind(shape, generator, like):
    return torch.randn(shape, generator=generator, device=generator.device)


def noise_from_the_cpu(shape, generator, like):
    return torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=like.dtype)


def mask_on_the_cpu(self, shape, generator):
    return torch.ones(shape)


def table_on_the_cpu(device):
    return torch.rand(4, 4000)


def weights_of_the_cpu(self, x):
    weight = self.inner.weight
    return x @ weight.new_tensor(weight.tolist(), device="cpu").mT


def numbers_of_numpy(self):
    return torch.from_numpy(self.log_sigma2.detach().numpy()).exp()


PLANTED = [  # where, what, the calculation that meets it, the generator
    (base, "standard_normal", noise_stays_behind, "BBB-LRT, linear, per_example", "cpu"),
    (base, "standard_normal", noise_from_the_cpu, "BBB-LRT, linear, shared", "cuda"),
    (BinaryDropout, "draw_xi", mask_on_the_cpu, "MCD, fit and predict", "cuda"),
    (log_uniform, "_table", table_on_the_cpu, "VD B, per weight, linear, mean", "cuda"),
    (UnitNoise, "apply_inner", weights_of_the_cpu, "VD, linear, mean", "cuda"),
    (SparseVD, "weight_var", numbers_of_numpy, "sparse VD, linear, per_example", "cuda"),
]


@pytest.mark.parametrize(("where", "name", "error", "calculation", "generator"), PLANTED)
def test_a_planted_error_is_seen(where, name, error, calculation, generator, monkeypatch):
    monkeypatch.setattr(where, name, error)
    with SimulatedGPU(), pytest.raises((DeviceError, TypeError), match=r"cuda"):
        CALCULATIONS[calculation](device(), torch.Generator(generator).manual_seed(0))


def test_pytorch_is_told_of_no_gpu_that_it_has_not():
    """A build with CUDA would start it, and stop where there is no driver."""
    before = torch.cuda.is_available(), torch.backends.mps.is_available()
    for float64, kind in ((True, "cuda"), (False, "mps")):
        with SimulatedGPU(float64):
            assert device().type == device(kind).type == kind
            assert (torch.cuda.is_available(), torch.backends.mps.is_available()) == before


def test_what_is_gone_is_forgotten():
    """Notes that stay split the heap between freed blocks: a lesson took 10 GB in place of 1."""
    with SimulatedGPU() as gpu:
        before = len(gpu._storages)
        for _ in range(2000):
            torch.ones(3, device=device())
        assert len(gpu._storages) < before + 500


def test_it_says_where_tensors_are():
    with SimulatedGPU() as gpu:
        x = torch.ones(3, 2, device=device())
        views = [x[0], x.T, x + 1, x.detach(), x.sum(), x.new_zeros(2), torch.zeros_like(x)]
        assert all(view.device == torch.device("cuda:0") and view.is_cuda for view in views)
        assert x.cpu().device.type == torch.ones(2).device.type == "cpu"
        assert not gpu.holds(x.cpu())
        assert torch.nn.Linear(2, 3).to(x).weight.is_cuda
    assert torch.Generator().device.type == "cpu"


@pytest.mark.parametrize(
    "mixed",
    [
        lambda x: x + torch.ones(3),
        lambda x: torch.stack([x.sum(), torch.zeros(())]),
        lambda x: torch.ones(3)[x.long()],
        lambda x: torch.ones(()).add_(x.sum()),
        lambda x: x.numpy(),
        lambda x: torch.rand(3, device=x.device, generator=torch.Generator()),
        lambda x: torch.rand(3, generator=torch.Generator(x.device)),
        lambda x: x.double(),
    ],
)
def test_what_cuda_or_a_device_without_float64_refuses(mixed):
    with SimulatedGPU(float64=False):
        x = torch.ones(3, device=device())
        with pytest.raises((DeviceError, TypeError)):
            mixed(x)


@pytest.mark.parametrize(
    ("call", "waits"),
    [
        (lambda x: x + torch.ones(()) + 1, []),
        (lambda x: x.sum().item(), ["_local_scalar_dense"]),
        (lambda x: x.tolist(), ["to the CPU"]),
        (lambda x: x.nonzero(), ["nonzero"]),
        (lambda x: x[x > 0], ["index with a mask"]),
        (lambda x: torch.ones(3).to(x), ["to the GPU"]),
        (lambda x: torch.ones(3).to(x.device, non_blocking=True), []),
        (lambda x: torch.tensor(1.0, device=x.device), ["to the GPU"]),
        (lambda x: torch.linalg.cholesky(x.diag()), ["_linalg_check_errors"]),
    ],
)
def test_waits_are_counted_and_copies_among_them(call, waits):
    with SimulatedGPU() as gpu:
        x = torch.ones(3, device=device())
        gpu.reset()
        call(x)
        assert [*gpu.waits.elements()] == waits


@pytest.mark.parametrize("where", ["cpu", "cuda"])
def test_the_default_device_does_not_matter_to_dropout(where):
    """A CPU generator draws on the CPU, whatever ``torch.set_default_device`` says."""
    with SimulatedGPU() as gpu, torch.device("cuda"):
        layer = BinaryDropout(torch.nn.Linear(3, 2), p_drop=0.3)
        xi = layer.draw_xi((4, 3), torch.Generator(where).manual_seed(0))
        assert gpu.holds(layer.weight)
        assert gpu.holds(xi)
