"""The state of a training run in a file, so that a run that was stopped can go on.

What decides how a run goes on is in the file: the network, the moments of the optimiser, the place
in the schedule and the state of the random numbers. It is written where an epoch ends, for within
one the order of the examples would be needed too. A run that goes on ends bit by bit where it
would have ended in one piece.
"""

from __future__ import annotations

import os
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

SECONDS_BETWEEN_WRITES = 60.0


@dataclass
class Checkpoint:
    """Where a run keeps its state: at the end of an epoch if a minute has passed, and at its own.

    Args:
        path: the file. It is replaced in one go: a process that dies while writing leaves the last
            state as it was.
        model: the network that is trained.
        generator: the source of all random numbers of the run.
        n_steps: the length of the whole run.
        epoch: steps in an epoch.
        n_train: examples in the training set.
    """

    path: Path
    model: nn.Module
    generator: torch.Generator
    n_steps: int
    epoch: int
    n_train: int

    def __post_init__(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._began = self._written = time.monotonic()

    def load(self, stepper: Optimizer, scheduler: LRScheduler | None) -> tuple[int, Tensor | None]:
        """Put everything back as it was; returns the steps done and the losses, as saved.

        ``(0, None)`` if there is no file. One that cannot be read counts as none, with a warning.

        Raises:
            ValueError: if the file is of a run with another network, optimiser, length, seed, size
                of the training set or kind of device, or no checkpoint at all.
        """
        state = _read(self.path)
        if state is None:
            return 0, None
        run = self._run(stepper, scheduler)
        if state["run"] != run:
            raise ValueError(
                f"the checkpoint {self.path} is of another run: it has {_differing(state, run)}; "
                "delete it to start from the beginning"
            )
        self.model.load_state_dict(state["model"])
        stepper.load_state_dict(state["optimizer"])
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
        self, done: int, losses: Tensor, stepper: Optimizer, scheduler: LRScheduler | None
    ) -> None:
        """Write the state after ``done`` steps."""
        state = {
            "done": done,
            "seconds": time.monotonic() - self._began,
            "run": self._run(stepper, scheduler),
            "model": self.model.state_dict(),
            "optimizer": stepper.state_dict(),
            "scheduler": scheduler.state_dict() if scheduler else None,
            "generator": self.generator.get_state(),
            "losses": losses,
        }
        unfinished = self.path.with_name(f"{self.path.name}.{os.getpid()}.unfinished")
        try:
            with unfinished.open("wb") as file:
                torch.save(state, file)
                file.flush()
                os.fsync(file.fileno())
            unfinished.replace(self.path)
        finally:
            unfinished.unlink(missing_ok=True)
        self._written = time.monotonic()

    def _run(self, stepper: Optimizer, scheduler: LRScheduler | None) -> dict[str, Any]:
        """What must be the same for a run to go on."""
        shapes = {name: list(value.shape) for name, value in self.model.state_dict().items()}
        return {
            "n_steps": self.n_steps,
            "n_train": self.n_train,
            "steps in an epoch": self.epoch,
            "seed": self.generator.initial_seed(),
            "device": self.generator.device.type,
            "optimizer": f"{type(stepper).__name__} {stepper.defaults}",
            "a schedule": scheduler is not None,
            "shapes": shapes,
        }


def seconds_before(path: Path | None) -> float:
    """How long the run that left this checkpoint had trained by then; 0 if there is none."""
    state = _read(path) if path else None
    return state["seconds"] if state else 0.0


def _read(path: Path) -> dict[str, Any] | None:
    """The state in the file; None if there is none, with a warning if it cannot be read.

    Raises:
        ValueError: if it is a file of something else, which must not be written over.
    """
    if not path.exists():
        return None
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # what a broken file raises depends on where it is broken
        warnings.warn(
            f"the checkpoint {path} cannot be read ({type(error).__name__}): "
            "its run starts from the beginning",
            stacklevel=3,
        )
        return None
    if not (isinstance(state, dict) and {"run", "seconds"} <= state.keys()):
        raise ValueError(f"{path} is no checkpoint: give another path")
    return state


def _differing(state: dict[str, Any], run: dict[str, Any]) -> str:
    found = state["run"]
    return ", ".join(
        f"{name} {found[name]}, not {value}" for name, value in run.items() if found[name] != value
    )
