"""Checkpoints of a trial: the state of its training in a file, so that a stopped run goes on.

What decides how a run continues is in the file, also the state of the random numbers, at the end
of an epoch, since within one the order of the examples would be needed too. A continued run ends
where it would have ended in one piece, up to rounding. The state of another run is refused.
"""

import io
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from bdl_lessons.inference import Run
from reproductions.experiment import Trial
from reproductions.files import read_checked, write_checked
from reproductions.records import trial_key

SECONDS_BETWEEN_WRITES = 60.0
_DELETE = "delete it to start from the beginning"


@dataclass
class Checkpoint:
    """The ``callback`` of :func:`bdl_lessons.inference.fit` that keeps a trial's state.

    It writes when an epoch ends a minute after the last time, and at the end. A trial that has no
    ``checkpoint`` keeps nothing. ``generator`` is the source of all random numbers of the run, and
    ``x`` and ``y`` are the training set.
    """

    trial: Trial
    model: nn.Module
    generator: torch.Generator
    x: Tensor
    y: Tensor

    def __call__(self, run: Run) -> None:
        """Before the first step, restore what is kept; after a step, write if it is time.

        Raises ValueError if the file is damaged, no checkpoint, or of another run.
        """
        path = self.trial.checkpoint
        if path is None:
            return
        if run.losses is None:
            self._began = time.monotonic()
            self._written = self._began
            path.parent.mkdir(parents=True, exist_ok=True)
            self._restore(path, run)
            return
        at_an_epoch = run.done % run.epoch == 0
        has_waited = time.monotonic() - self._written >= SECONDS_BETWEEN_WRITES
        is_due = (at_an_epoch and has_waited) or run.done == run.n_steps
        if is_due and run.losses[: run.done].isfinite().all():
            self._written = time.monotonic()
            self._write(path, run)

    def _write(self, path: Path, run: Run) -> None:
        """Put the state into the file, all or nothing."""
        state = {name: part.state_dict() for name, part in self._parts(run).items()}
        state["done"] = run.done
        state["losses"] = run.losses
        state["run"] = self._name(run)
        state["generator"] = self.generator.get_state()
        state["seconds"] = self._written - self._began
        buffer = io.BytesIO()
        torch.save(state, buffer)
        write_checked(path, buffer.getbuffer())

    def _restore(self, path: Path, run: Run) -> None:
        """Take the state from the file, if there is one."""
        state = read(path)
        if state is None:
            return
        if state["run"] != self._name(run):
            raise ValueError(f"the checkpoint {path} is of another run: {_DELETE}")
        for name, part in self._parts(run).items():
            part.load_state_dict(state[name])
        self.generator.set_state(state["generator"])
        self._began -= state["seconds"]
        run.done = state["done"]
        run.losses = state["losses"].to(next(self.model.parameters()).device)

    def _parts(self, run: Run) -> dict[str, Any]:
        """What has a state: the model, the optimizer, and the scheduler if there is one."""
        parts = {"model": self.model, "optimizer": run.optimizer}
        if run.scheduler:
            parts["scheduler"] = run.scheduler
        return parts

    def _name(self, run: Run) -> list[str]:
        """The trial, the layers, the optimizer, the length and the data, to three digits."""
        return [
            trial_key(self.trial.config, self.trial.seed),
            repr(self.model),
            f"{type(run.optimizer).__name__} {run.optimizer.defaults}",
            f"{run.n_steps} steps",
            f"{self.x.double().norm():.3g}",
            f"{self.y.double().norm():.3g}",
        ]


def seconds_before(path: Path | None) -> float:
    """How long the run that left this checkpoint had trained by then; 0 if there is none."""
    state = read(path) if path else None
    return state["seconds"] if state else 0.0


def read(path: Path) -> dict[str, Any] | None:
    """The state in the file, ``None`` if there is none; ValueError if its bytes were changed."""
    if not path.exists():
        return None
    content = read_checked(path)
    if content is None:
        raise ValueError(f"{path} is damaged or no checkpoint: {_DELETE}")
    return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
