"""Checkpoints of a training run: its state in a file, so that a stopped run can be continued.

What decides how a run continues is in the file: the network, the moments of the optimizer, the
place in the schedule and the state of the random numbers. It is written at the end of an epoch,
since within one the order of the examples would be needed too. A continued run ends where it
would have ended in one piece, up to rounding. The data are not compared.

The file begins with the SHA-256 of what follows, so that a damaged one is never continued. The
long recorded runs of lessons 05 and 08 use it.
"""

from __future__ import annotations

import io
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from bdl_lessons.core.files import read_checked, write_checked

SECONDS_BETWEEN_WRITES = 60.0


@dataclass
class Checkpoint:
    """Where a run keeps its state: when an epoch ends a minute after the last, and at the end.

    Args:
        path: the file. It is replaced in one go: a process that dies while writing leaves the last
            state as it was.
        model: the network that is trained.
        generator: the source of all random numbers of the run.
        n_steps: the length of the whole run.
        epoch: steps in an epoch.
        n_train: examples in the training set.
        settings: what else must be the same for the run to be continued, by name.
    """

    path: Path
    model: nn.Module
    generator: torch.Generator
    n_steps: int
    epoch: int
    n_train: int
    settings: dict[str, Any]

    def __post_init__(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._began = self._written = time.monotonic()

    def load(
        self, optimizer: Optimizer, scheduler: LRScheduler | None
    ) -> tuple[int, Tensor | None]:
        """Restore everything; returns the steps done and the losses, ``(0, None)`` without a file.

        Raises:
            ValueError: if the file is damaged, no checkpoint, or that of a run with another
                network, optimizer, length, seed, size of the training set or kind of device.
        """
        state = read(self.path)
        if state is None:
            return 0, None
        found, run = state["run"], self._run(optimizer, scheduler)
        if found != run:
            differing = [
                f"{k} {found.get(k)}, not {v}" for k, v in run.items() if found.get(k) != v
            ]
            raise ValueError(
                f"the checkpoint {self.path} is of another run: it has {', '.join(differing)}; "
                "delete it to start from the beginning"
            )
        self.model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        if scheduler:
            scheduler.load_state_dict(state["scheduler"])
        self.generator.set_state(state["generator"])
        self._began -= state["seconds"]
        return state["done"], state["losses"].to(next(self.model.parameters()).device)

    def is_due(self, done: int) -> bool:
        """Whether it is time to write after ``done`` steps."""
        waited = time.monotonic() - self._written
        ended = done % self.epoch == 0 and waited >= SECONDS_BETWEEN_WRITES
        return ended or done == self.n_steps

    def save(
        self, done: int, losses: Tensor, optimizer: Optimizer, scheduler: LRScheduler | None
    ) -> None:
        """Write the state after ``done`` steps; warn if that fails, since training can go on."""
        self._written = time.monotonic()
        state = {
            "done": done,
            "seconds": self._written - self._began,
            "run": self._run(optimizer, scheduler),
            "model": self.model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "scheduler": scheduler.state_dict() if scheduler else None,
            "generator": self.generator.get_state(),
            "losses": losses,
        }
        try:
            write(self.path, state)
        except OSError as error:  # a full disk
            warnings.warn(
                f"the checkpoint {self.path} was not written ({error}): training goes on without "
                "it, and tries again",
                stacklevel=4,
            )

    def _run(self, optimizer: Optimizer, scheduler: LRScheduler | None) -> dict[str, Any]:
        """What must be the same for a run to be continued."""
        return self.settings | {
            "layers": repr(self.model),
            "n_steps": self.n_steps,
            "n_train": self.n_train,
            "steps in an epoch": self.epoch,
            "seed": self.generator.initial_seed(),
            "device": self.generator.device.type,
            "optimizer": f"{type(optimizer).__name__} {optimizer.defaults}",
            "a schedule": scheduler is not None,
            "shapes": {k: list(v.shape) for k, v in self.model.state_dict().items()},
        }


def seconds_before(path: Path | None) -> float:
    """How long the run that left this checkpoint had trained by then; 0 if there is none."""
    state = read(path) if path else None
    return state["seconds"] if state else 0.0


def write(path: Path, state: dict[str, Any]) -> None:
    """Put ``state`` into the file, behind the hash of its bytes; all or nothing."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    write_checked(path, buffer.getbuffer())


def read(path: Path) -> dict[str, Any] | None:
    """The state in the file, ``None`` if there is no file.

    Raises:
        ValueError: if its bytes are not those that were written.
    """
    if not path.exists():
        return None
    content = read_checked(path)
    if content is None:
        raise ValueError(
            f"{path} is damaged or no checkpoint: delete it, or give another path, to start "
            "from the beginning"
        )
    return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
