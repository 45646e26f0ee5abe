"""A simulated GPU: the numbers are on the CPU, everything else behaves as if it were CUDA.

``with SimulatedGPU() as gpu:`` lets the package's ``device()`` choose ``cuda``. PyTorch itself is
not told: it may be built with CUDA or without, on a machine with a GPU or without. A tensor that is
made or moved there stays an ordinary CPU tensor whose storage is noted down, and says ``cuda:0``
when it is asked where it is. Mixing devices, ``.numpy()`` and a generator of another device raise,
as on CUDA. ``gpu.waits`` counts what makes the processor wait for the GPU, by operation, copies
among them; ``gpu.backward`` the backward passes here and on the CPU.
``SimulatedGPU(float64=False)`` is ``mps``: it refuses double precision, as Apple's GPUs do.

Left out: what only real kernels can show, such as values, speed and memory.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import ClassVar
from unittest import mock

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from bdl_lessons.core import device

_GPUS = torch.device("mps", 0), torch.device("cuda", 0)
CPU = torch.device("cpu")

_AS_TENSOR = (torch.tensor, torch.as_tensor, torch.asarray)
_PRINTED = (torch.Tensor.__repr__, torch.Tensor.__format__, torch.Tensor.tolist)
_NUMPY = (torch.Tensor.numpy, torch.Tensor.__array__)
_WAITS = {
    "_local_scalar_dense", "nonzero", "masked_select", "_unique", "_unique2", "unique_dim",
    "unique_consecutive", "equal", "_linalg_check_errors", "bincount", "repeat_interleave",
}  # fmt: skip
_INDEXING = {"index", "index_put", "index_put_"}
_NO_SCALARS = {"cat", "stack", "dot", "vdot", "gather", "scatter", "index_select"}


class DeviceError(RuntimeError):
    """What CUDA would refuse."""


class SimulatedGPU(TorchFunctionMode):
    """See the module's docstring."""

    _storages: ClassVar[dict[int, StorageWeakRef]] = {}  # of all: tensors may outlive their device

    def __init__(self, float64: bool = True) -> None:
        super().__init__()
        self.float64 = float64
        self.device = _GPUS[float64]
        self.waits = Counter()
        self.backward = Counter()
        self._inputs: object = ()
        self._notes = 200  # from how many on those of tensors that are gone are looked for

    def __enter__(self) -> SimulatedGPU:
        run_backward = torch.autograd._engine_run_backward
        parse_to = torch._C._nn._parse_to

        def with_mode(*args, **kwargs):  # backward passes written in Python are looked at too
            there = any(self.holds(root) for root in _tensors(args[0]))
            self.backward["GPU" if there else "CPU"] += 1
            with _again(self):
                return run_backward(*args, **kwargs)

        def of_module(*args, **kwargs):  # module.to(tensor)
            if args and isinstance(args[0], torch.Tensor):
                args = (args[0].device, args[0].dtype, *args[1:])
            return parse_to(*args, **kwargs)

        self._patches = ExitStack()
        for module, name, value in (
            (torch, "Generator", _generator_class(torch.Generator)),
            (sys.modules[device.__module__], "_available", lambda: [self.device.type, "cpu"]),
            (torch.cuda, "device_count", lambda: 1),
            (torch.cuda, "synchronize", lambda *_: self.waits.update(["synchronize"])),
            (torch.cuda, "get_device_name", lambda *_: "a simulated GPU"),
            (torch.cuda, "max_memory_allocated", lambda *_: 0),
            (torch.autograd, "_engine_run_backward", with_mode),
            (torch._C._nn, "_parse_to", of_module),
        ):
            self._patches.enter_context(mock.patch.object(module, name, value))
        self._patches.enter_context(_Operations(self))
        return super().__enter__()

    def __exit__(self, *error) -> None:
        super().__exit__(*error)
        self._patches.close()

    def reset(self) -> None:
        """Start counting again."""
        self.waits.clear()
        self.backward.clear()

    def holds(self, tensor: torch.Tensor) -> bool:
        """Whether the tensor is on the device."""
        return _storage(tensor) in self._storages

    def place(self, tensor: torch.Tensor, there: bool = True) -> torch.Tensor:
        """Note down that the tensor, with all that shares its memory, is on the device or not."""
        key = _storage(tensor)
        if there and tensor.dtype == torch.float64 and not self.float64:
            raise DeviceError("float64 on a device that has none: compute it on the CPU")
        if there and key not in self._storages:
            if len(self._storages) > self._notes:  # old notes hold the heap apart: it grew by GBs
                for gone in [k for k, r in self._storages.items() if r.expired()]:
                    del self._storages[gone]
                self._notes = 2 * len(self._storages) + 200
            self._storages[key] = StorageWeakRef(_unwrapped(tensor).untyped_storage())
        elif not there:
            self._storages.pop(key, None)
        return tensor

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        outer = self._inputs
        self._inputs = (args, kwargs)
        try:
            special = _SPECIAL.get(func)
            if special is not None:
                return special(self, func, *args, **kwargs)
            if kwargs.get("generator") is not None:
                self._check_generator(args, kwargs)
            if kwargs.get("device") is None:
                return func(*args, **kwargs)
            self._inputs = there = _is_gpu(kwargs["device"])
            result = func(*args, **{**kwargs, "device": "cpu"})
            for tensor in _tensors(result):
                self.place(tensor, there)
            return result
        finally:
            self._inputs = outer

    def fresh_is_here(self) -> bool:
        """Whether what the present call creates without inputs is on the device."""
        if isinstance(self._inputs, bool):
            return self._inputs
        return any(self.holds(tensor) for tensor in _tensors(self._inputs))

    def move(self, x: torch.Tensor, there: bool) -> torch.Tensor:
        """``x``, or a copy of it on the other device; the gradient goes the way back."""
        if self.holds(x) == there:
            return x
        if x.requires_grad and torch.is_grad_enabled():
            return _Move.apply(x, self, there)
        return self.place(x.clone(), there)

    def _count_copy(self, there: bool, blocking: bool = True) -> None:
        if blocking or not there:
            self.waits["to the GPU" if there else "to the CPU"] += 1

    def _check_generator(self, args, kwargs) -> None:
        wanted = kwargs.get("device")
        there = self.fresh_is_here() if wanted is None else _is_gpu(wanted)
        generator = kwargs["generator"]
        if _is_gpu(generator.device) != there:
            raise DeviceError(
                f"Expected a '{'cuda' if there else 'cpu'}' device type for generator but found "
                f"'{generator.device.type}'"
            )

    def _device(self, func, x, *_):
        return self.device if self.holds(x) else func(x)

    def _to(self, func, x, *args, **kwargs):
        args = list(args)
        wanted = kwargs.pop("device", None)
        like = kwargs.pop("other", None)
        if args and not isinstance(args[0], torch.dtype | bool):
            first = args.pop(0)
            like, wanted = (first, None) if isinstance(first, torch.Tensor) else (None, first)
        if like is not None:
            wanted = self.device if self.holds(like) else CPU
            kwargs["dtype"] = like.dtype
        blocking = not (kwargs.get("non_blocking") or (len(args) > 1 and args[1]))
        if args and args[0] is None:  # to(device, dtype=None, non_blocking)
            args = []
        return self._arrived(func(x, *args, **kwargs) if args or kwargs else x, wanted, blocking)

    def _arrived(self, x, wanted, blocking=True):
        """``x`` on the device that is wanted, if one is; a copy is counted."""
        if wanted is None or _is_gpu(wanted) == self.holds(x):
            return x
        self._count_copy(_is_gpu(wanted), blocking)
        return self.move(x, _is_gpu(wanted))

    def _as_tensor(self, func, data, *args, **kwargs):
        wanted = kwargs.pop("device", None)
        result = func(data, *args, **kwargs)
        if isinstance(data, torch.Tensor):
            self.place(result, self.holds(data))
        return self._arrived(result, wanted)

    def _printed(self, func, x, *args, **kwargs):
        if self.holds(x):
            self._count_copy(False)
        with torch._C._DisableTorchDispatch():
            return func(x, *args, **kwargs)

    def _numpy(self, func, x, *args, **kwargs):
        if self.holds(x):
            raise TypeError("can't convert cuda:0 device type tensor to numpy")
        return func(x, *args, **kwargs)

    def _new_tensor(self, func, x, data, *args, **kwargs):
        kwargs.setdefault("device", self._device(torch.Tensor.device.__get__, x))
        return self._as_tensor(torch.tensor, data, *args, **{"dtype": x.dtype, **kwargs})


@contextmanager
def _again(mode: SimulatedGPU) -> Iterator[None]:
    """The function mode switched on where PyTorch has switched it off, or left as it is."""
    if torch._C._len_torch_function_stack():
        yield
        return
    TorchFunctionMode.__enter__(mode)
    try:
        yield
    finally:
        TorchFunctionMode.__exit__(mode, None, None, None)


class _Operations(TorchDispatchMode):
    """Looks at every operation below autograd: what it mixes, and whether it waits."""

    def __init__(self, gpu: SimulatedGPU) -> None:
        super().__init__()
        self.gpu = gpu

    @classmethod
    def _should_skip_dynamo(cls) -> bool:  # nothing is compiled here; the guard costs a tenth
        return False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        gpu = self.gpu
        with torch._C.DisableTorchFunction():
            tensors = _tensors((args, kwargs) if kwargs else args)
            here = [gpu.holds(tensor) for tensor in tensors]
            name = func._opname
            there = any(here)
            if there and (name in _WAITS or name in _INDEXING or not all(here)):
                self._check_devices(name, func, args, tensors, here)
            elif not tensors:
                there = gpu.fresh_is_here()
            result = func(*args, **kwargs)
            if there and not (name == "copy_" and not here[0]):
                for tensor in _tensors(result):
                    gpu.place(tensor)
            return result

    def _check_devices(self, name, func, args, tensors, here) -> None:
        gpu = self.gpu
        if name in _WAITS:
            gpu.waits[name] += 1
        if name == "copy_":
            if here[0] != here[1]:
                gpu._count_copy(here[0], blocking=not (len(args) > 2 and args[2]))
            return
        if name in _INDEXING:
            indices = [i for i in args[1] if i is not None]
            values = args[2:3]
            masked_fill = values and values[0].numel() == 1
            for i in indices:
                if i.dtype in (torch.bool, torch.uint8) and not masked_fill:
                    gpu.waits[f"{name} with a mask"] += 1
                if not gpu.holds(i) and gpu.holds(args[0]):
                    gpu._count_copy(True)
            tensors = [args[0], *values, *([] if gpu.holds(args[0]) else indices)]
            here = [gpu.holds(tensor) for tensor in tensors]
        elsewhere = [t for t, on in zip(tensors, here, strict=True) if not on]
        wrong = [t for t in elsewhere if t.dim() or name in _NO_SCALARS]
        changes_host = func._schema.is_mutable and not here[0] and any(here)
        if any(here) and (wrong or changes_host):
            places = zip(tensors, here, strict=True)
            shapes = [f"{tuple(t.shape)} on {'cuda:0' if on else 'cpu'}" for t, on in places]
            raise DeviceError(
                f"Expected all tensors to be on the same device, but found at least two devices, "
                f"cuda:0 and cpu! ({func}: {', '.join(shapes)})"
            )


class _Move(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, gpu, there):
        return gpu.place(x.clone(), there)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, ctx.gpu, ctx.there = inputs

    @staticmethod
    def backward(ctx, grad):
        ctx.gpu._count_copy(not ctx.there)
        return ctx.gpu.move(grad, not ctx.there), None, None


def _generator_class(real: type) -> type:
    class AnyGenerator(type(real)):
        def __instancecheck__(cls, instance) -> bool:
            return isinstance(instance, real)

    class Generator(real, metaclass=AnyGenerator):
        def __new__(cls, device="cpu"):
            self = real.__new__(cls, "cpu")
            self.place = torch.device(torch.device(device).type, 0) if _is_gpu(device) else CPU
            return self

        def __init__(self, device="cpu"):
            pass

        device = property(lambda self: self.place)

    return Generator


def _is_gpu(wanted) -> bool:
    return isinstance(wanted, int) or torch.device(wanted).type in ("cuda", "mps")


def _tensors(tree) -> list[torch.Tensor]:
    if isinstance(tree, torch.Tensor):
        return [tree]
    if not isinstance(tree, list | tuple | dict):
        return []
    tensors = []
    _collect(tree.values() if isinstance(tree, dict) else tree, tensors)
    return tensors


def _collect(branches, tensors: list[torch.Tensor]) -> None:
    for branch in branches:  # millions of times a lesson: branches that hold nothing cost no call
        if isinstance(branch, torch.Tensor):
            tensors.append(branch)
        elif isinstance(branch, list | tuple):
            _collect(branch, tensors)
        elif isinstance(branch, dict):
            _collect(branch.values(), tensors)


def _unwrapped(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor below vmap's and grad's wrappers."""
    while torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return tensor


def _storage(tensor: torch.Tensor) -> int:
    return torch._C._storage_id(_unwrapped(tensor))


_SPECIAL = {
    torch.Tensor.device.__get__: SimulatedGPU._device,
    torch.Tensor.is_cuda.__get__: lambda gpu, _, x, *__: gpu.holds(x) and gpu.float64,
    torch.Tensor.is_cpu.__get__: lambda gpu, _, x, *__: not gpu.holds(x),
    torch.Tensor.to: SimulatedGPU._to,
    torch.Tensor.cuda: lambda gpu, _, x, *__, **___: gpu._arrived(x, gpu.device),
    torch.Tensor.cpu: lambda gpu, _, x, *__, **___: gpu._arrived(x, CPU),
    torch.Tensor.new_tensor: SimulatedGPU._new_tensor,
    torch.Tensor.__deepcopy__: lambda gpu, func, x, memo: gpu.place(func(x, memo), gpu.holds(x)),
    **dict.fromkeys(_AS_TENSOR, SimulatedGPU._as_tensor),
    **dict.fromkeys(_PRINTED, SimulatedGPU._printed),
    **dict.fromkeys(_NUMPY, SimulatedGPU._numpy),
}
