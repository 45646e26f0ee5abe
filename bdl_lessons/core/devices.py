"""Where the tensors live: one choice, made once, overridable from outside."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from bdl_lessons.core.validation import flag, instance, integer


def device(name: str | None = None, *, float64: bool = False) -> torch.device:
    """The device to compute on: ``name``, else ``BDL_DEVICE``, else cuda, mps, cpu in that order.

    ``name`` is ``"cpu"``, ``"cuda"``, ``"cuda:1"`` or ``"mps"``, else TypeError or ValueError,
    also if this machine does not have it. If ``float64`` is needed the CPU stands in for mps.

    >>> device("cpu")
    device(type='cpu')
    """
    if name is not None:
        instance("name", name, str)
    flag("float64", float64)
    available = _available()
    wanted = name or os.environ.get("BDL_DEVICE", "")
    trouble = ""
    try:
        chosen = torch.device(wanted or available[0])
        if chosen.type not in available:
            trouble = "is not available on this machine"
        elif wanted and chosen.type == "cuda" and (chosen.index or 0) >= torch.cuda.device_count():
            trouble = f"does not exist: {torch.cuda.device_count()} GPU(s)"
    except RuntimeError:
        trouble = "is not a device name"
    if trouble:
        remedy = "Set BDL_DEVICE to one of these, or unset it to let the package choose."
        there = ", ".join(available)
        raise ValueError(f"device {wanted!r} {trouble}. Available here: {there}. {remedy}")
    return torch.device("cpu") if float64 and chosen.type == "mps" else chosen


def _available() -> list[str]:
    present = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    return [kind for kind, there in present.items() if there] + ["cpu"]


def seeded(seed: int) -> torch.Generator:
    """A generator on :func:`device`, so that what it draws there need not be copied.

    >>> seeded(3).initial_seed()
    3
    """
    return torch.Generator(device()).manual_seed(integer("seed", seed, 0))


def float64(x: Tensor) -> Tensor:
    """``x`` in double precision: where it is, or on the CPU if it is on an Apple GPU."""
    return (x.cpu() if x.device.type == "mps" else x).double()


def single(x: Tensor) -> Tensor:
    """``x`` in single precision if it is in half precision, else as it is: for sums and checks."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


@contextmanager
def cpu_threads(n_threads: int) -> Iterator[None]:
    """Compute with this many threads until the block ends.

    >>> with cpu_threads(1):
    ...     torch.get_num_threads()
    1
    """
    before = torch.get_num_threads()
    torch.set_num_threads(n_threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def clock(on: torch.device) -> float:
    """Seconds of CPU time; for a GPU, wall time once it has finished what it was given.

    >>> began = clock(device("cpu"))
    >>> seconds = clock(device("cpu")) - began
    """
    if on.type != "cuda":
        return time.process_time()
    torch.cuda.synchronize(on)
    return time.perf_counter()
