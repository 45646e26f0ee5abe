"""The form of a result: real numbers in the right shape, finite where they must be.

What is wrong in form is told as such, before any claim about the values is tested. An answer is
called with copies, in double precision, for a limited time, and leaves nothing behind: no answer
can spoil the grading of another.
"""

from __future__ import annotations

import contextlib
import inspect
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import numpy as np
import torch

Answer = Callable[..., Any]

SECONDS = 20.0  # for all calls of an answer in one grading; a solution needs less than one
OTHER_SEED = 20_011
OTHER_NOISE = (
    "your function gives another result for the same seed: all its random numbers must come from "
    "its generator, none from NumPy, Python's random or a generator of your own"
)
FIXED_NOISE = (
    "your function gives the same result for every seed: its random numbers must come from its "
    "generator, as in torch.randn(..., generator=generator)"
)


class WrongForm(Exception):
    """What is wrong with the form of a result, in a sentence for the reader."""


class NotAttempted(Exception):
    """The answer is still the empty stub."""


class OutOfTime(BaseException):
    """The answer has used up its time; ``except Exception`` does not catch it."""


def is_stub(error: Exception, answer: Answer) -> bool:
    """Whether ``error`` is the stub's own ``raise NotImplementedError``.

    PyTorch raises the same for an operation that it lacks, with a message or from a frame of its
    own.
    """
    if not isinstance(error, NotImplementedError) or error.args:
        return False
    trace = error.__traceback__
    while trace.tb_next:
        trace = trace.tb_next
    return trace.tb_frame.f_code is getattr(inspect.unwrap(answer), "__code__", None)


def numbers(value: Any) -> torch.Tensor | None:
    """``value`` in float64, or ``None`` if it holds anything but real numbers."""
    if _is_complex(value):
        return None
    try:
        return torch.as_tensor(value, dtype=torch.float64, device="cpu")
    except (TypeError, ValueError, RuntimeError):
        if not isinstance(value, list | tuple):
            return None
        parts = [numbers(part) for part in value]
        if any(part is None or part.shape != parts[0].shape for part in parts):
            return None
        return torch.stack(parts)


@contextlib.contextmanager
def double_precision() -> Iterator[None]:
    """float64 by default and gradients on, whatever the notebook or an answer has set."""
    dtype = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.enable_grad():
            yield
    finally:
        torch.set_default_dtype(dtype)


class CheckedAnswer:
    """An answer whose every result is held to the form of what the reference returns.

    Results come as the reference returns them: a tensor, a tuple, a list or a number. The first
    time that the noise of the reference changes its result, the answer is called twice more, with
    the same seed and with another one.

    Args:
        answer: the function to be graded.
        reference: the solution, with the same arguments.
        seconds: for all calls together.

    Attributes:
        ignores_seed: whether the answer gave the same result for two seeds. That is told only to
            an answer that passes everything else: a known error may be to draw nothing.
    """

    def __init__(self, answer: Answer, reference: Answer, seconds: float = SECONDS) -> None:
        self.answer = answer
        self.reference = reference
        self.ignores_seed = False
        self._signature = inspect.signature(reference)
        self._seconds = seconds
        self._limit = _TimeLimit(seconds)
        self._seeds_were_compared = False
        self._draws_elsewhere = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The result of the answer for copies of these arguments.

        Raises:
            WrongForm: where the answer raises, differs in form, draws without its generator, or
                takes too long.
            NotAttempted: for the empty stub.
        """
        arguments = self._signature.bind(*args, **kwargs).arguments
        generators = [value for value in arguments.values() if isinstance(value, torch.Generator)]
        states = [generator.get_state() for generator in generators]

        def called(function: Answer) -> Any:
            return function(*_copied(args), **_copied(kwargs))

        wanted = called(self.reference)
        _set_states(generators, states)
        result = self._result(called, wanted, arguments)
        if generators and not self._seeds_were_compared:
            moved_on = [generator.get_state() for generator in generators]
            _set_seeds(generators, OTHER_SEED)
            if not _same(called(self.reference), wanted):
                self._seeds_were_compared = True
                _set_seeds(generators, OTHER_SEED)
                with_other_seed = self._result(called, wanted, arguments)
                _set_states(generators, states)
                with_same_seed = self._result(called, wanted, arguments)
                self._draws_elsewhere = not _same(with_same_seed, result)
                self.ignores_seed = _same(with_other_seed, result)
            _set_states(generators, moved_on)
        if self._draws_elsewhere:
            raise WrongForm(OTHER_NOISE)
        return result

    def _result(
        self, called: Callable[[Answer], Any], wanted: Any, arguments: dict[str, Any]
    ) -> Any:
        """What the answer gives when it is ``called``, in the form of what is ``wanted``."""
        undrawn = torch.get_rng_state()
        try:
            with double_precision(), self._limit:
                given = called(self.answer)
        except OutOfTime:
            raise WrongForm(
                f"your function was stopped: autocheck gives all its calls {self._seconds:g} "
                "seconds together. Does a loop never end?"
            ) from None
        except (Exception, SystemExit) as error:
            if is_stub(error, self.answer):
                raise NotAttempted from error
            raised = f"{type(error).__name__}: {error}".removesuffix(": ")
            raise WrongForm(f"your function raised {raised}") from error
        has_generator = any(isinstance(value, torch.Generator) for value in arguments.values())
        if has_generator and not torch.equal(torch.get_rng_state(), undrawn):
            raise WrongForm(
                "your function draws random numbers without its generator: pass "
                "generator=generator to each torch.rand, torch.randn and torch.randint"
            )
        return _compared(given, wanted, arguments)


def _set_seeds(generators: list[torch.Generator], seed: int) -> None:
    for generator in generators:
        generator.manual_seed(seed)


def _set_states(generators: list[torch.Generator], states: list[torch.Tensor]) -> None:
    for generator, state in zip(generators, states, strict=True):
        generator.set_state(state)


def _same(one: Any, other: Any) -> bool:
    """Whether two results, tensors or tuples of them, agree but for rounding."""
    if isinstance(one, tuple):
        return all(_same(part, of_other) for part, of_other in zip(one, other, strict=True))
    left = numbers(one)
    right = numbers(other)
    if left is None or right is None:
        return left is right
    return torch.allclose(left, right, rtol=1e-6, atol=1e-12, equal_nan=True)


class _TimeLimit:
    """Seconds for all blocks ``with limit:`` together; then :class:`OutOfTime` ends the block.

    It is raised again every tenth of a second, and at the next line of what caught it. Only the
    main thread of a system with timers (not Windows) is limited; elsewhere an endless answer ends
    when the kernel is interrupted, as does a single long operation in C.
    """

    def __init__(self, seconds: float) -> None:
        self.left = seconds

    def __enter__(self) -> None:
        self.works = hasattr(signal, "setitimer")
        self.works &= threading.current_thread() is threading.main_thread()
        if not self.works:
            return
        if self.left <= 0:
            raise OutOfTime
        self.start = time.perf_counter()
        self.tracer = sys.gettrace()
        self.handler = signal.signal(signal.SIGALRM, _interrupt)
        self.timer = signal.setitimer(signal.ITIMER_REAL, self.left, 0.1)

    def __exit__(self, *_: Any) -> None:
        if not self.works:
            return
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.settrace(self.tracer)  # before a function of Python runs: at its line it would raise
        signal.signal(signal.SIGALRM, self.handler or signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, *self.timer)
        self.left -= time.perf_counter() - self.start


def _interrupt(_: int, frame: FrameType | None) -> None:
    """Raise now, and at the next line of the answer again: its ``except:`` may catch the first."""

    def again(at: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            raise OutOfTime
        return again if at.f_code.co_filename != __file__ else None

    sys.settrace(again)
    while frame and frame.f_code.co_filename != __file__:
        frame.f_trace = again
        frame = frame.f_back
    raise OutOfTime


def _copied(value: Any) -> Any:
    """``value`` with copies of the tensors and lists in it."""
    if isinstance(value, dict):
        return {key: _copied(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_copied, value))
    return value.clone() if isinstance(value, torch.Tensor) else value


def _is_complex(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_is_complex, value))
    if isinstance(value, torch.Tensor):
        return value.is_complex()
    return isinstance(value, complex | np.ndarray | np.generic) and np.iscomplexobj(value)


def _compared(given: Any, wanted: Any, inputs: dict[str, Any], name: str = "your result") -> Any:
    """``given`` in the type of ``wanted``; a tensor keeps its precision and its gradient."""
    if given is None and wanted is not None:
        raise WrongForm(f"{name} is None: is the `return` missing?")
    if isinstance(wanted, tuple):
        parts = _parts(given, wanted)
        if len(parts) != len(wanted):
            raise WrongForm(f"your function must return {len(wanted)} results, not {len(parts)}")
        pairs = enumerate(zip(parts, wanted, strict=True), 1)
        return tuple(_compared(*pair, inputs, f"result {index}") for index, pair in pairs)
    right = numbers(wanted)
    if right is None:
        return given
    values = numbers(given)
    if _is_complex(given):
        raise WrongForm(f"{name} is complex; it must be real")
    if values is None:
        raise WrongForm(f"{name} is a {type(given).__name__}, which holds no numbers")
    if values.shape != right.shape:
        must = f"have shape {tuple(right.shape)}" if right.ndim else "be a single number"
        raise WrongForm(f"{name} has shape {tuple(values.shape)}; it must {must}")
    not_finite = (right.isfinite() & ~values.isfinite()).nonzero()
    if len(not_finite):
        first = not_finite[0]
        place = f" at {first.tolist()}" if right.ndim else ""
        raise WrongForm(
            f"{name} holds {values[tuple(first)].item()}{place}{_small(inputs)}: look for "
            "0 · log 0, a division by 0, or a logarithm, root or arccos out of its range"
        )
    if not isinstance(wanted, torch.Tensor):
        return values.tolist()
    if isinstance(given, torch.Tensor):
        return given.to(wanted.device)
    return values.to(wanted.dtype)


def _parts(given: Any, wanted: tuple) -> list[Any]:
    """The several results in ``given``: of a tuple or a list, or the rows of one array."""
    rows = getattr(given, "ndim", 0) == numbers(wanted[0]).ndim + 1
    return [*given] if rows or isinstance(given, list | tuple) else [given]


def _small(inputs: dict[str, Any]) -> str:
    """The inputs of at most four numbers, to be printed."""
    shown = []
    for name, value in inputs.items():
        values = numbers(value)
        if values is not None and values.numel() <= 4:
            text = ", ".join(f"{number:.3g}" for number in values.flatten().tolist())
            shown.append(f"{name} = ({text})" if values.ndim else f"{name} = {text}")
    return f" for {', '.join(shown)}" if shown else ""
