"""Checkpoints of a trial: the state of its training in a file, so that a stopped run goes on.

What decides how a run continues is in the file: the network, the moments of the optimizer, the
place in the schedule and the state of the random numbers. It is written at the end of an epoch,
since within one the order of the examples would be needed too. A continued run ends where it
would have ended in one piece, up to rounding. The configuration and seed of the trial, the layers,
the loss, the schedules and the data are in the file as well: that of another run is refused.
"""

from __future__ import annotations

import io
import time
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from bdl_lessons.inference import Run
from reproductions.experiment import Trial
from reproductions.files import read_checked, write_checked

SECONDS_BETWEEN_WRITES = 60.0
_DELETE = "delete it to start from the beginning"


@dataclass
class Checkpoint:
    """The ``callback`` of :func:`bdl_lessons.inference.fit` that keeps a trial's state.

    It writes when an epoch ends a minute after the last time, and at the end. A trial that has no
    ``checkpoint`` keeps nothing.

    Args:
        trial: says where, and with its configuration and seed what is trained.
        model: the network that is trained.
        generator: the source of all random numbers of the run.
        x, y: the training set.
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
            self._began = self._written = time.monotonic()
            self._settings = self._settings_of(run)
            path.parent.mkdir(parents=True, exist_ok=True)
            self._restore(path, run)
            return
        ended = run.done % run.epoch == 0
        waited = time.monotonic() - self._written >= SECONDS_BETWEEN_WRITES
        due = (ended and waited) or run.done == run.n_steps
        if due and run.losses[: run.done].isfinite().all():
            self._save(path, run)

    def _restore(self, path: Path, run: Run) -> None:
        state = read(path)
        if state is None:
            return
        found, wanted = state["run"], self._settings
        names = sorted(wanted.keys() | found.keys())
        differing = [name for name in names if not _same(found.get(name), wanted.get(name))]
        if differing:
            told = ", ".join(f"{k} was {found.get(k)}, is {wanted.get(k)}" for k in differing)
            raise ValueError(f"the checkpoint {path} is of another run: {told}; {_DELETE}")
        for name, part in self._parts(run).items():
            part.load_state_dict(state[name])
        self.generator.set_state(state["generator"])
        self._began -= state["seconds"]
        run.done = state["done"]
        run.losses = state["losses"].to(next(self.model.parameters()).device)

    def _save(self, path: Path, run: Run) -> None:
        self._written = time.monotonic()
        state = {name: part.state_dict() for name, part in self._parts(run).items()}
        state |= {"done": run.done, "losses": run.losses, "generator": self.generator.get_state()}
        write(path, state | {"run": self._settings, "seconds": self._written - self._began})

    def _parts(self, run: Run) -> dict[str, Any]:
        parts = {"model": self.model, "optimizer": run.optimizer}
        return parts | ({"scheduler": run.scheduler} if run.scheduler else {})

    def _settings_of(self, run: Run) -> dict[str, Any]:
        """What must be the same for a run to be continued."""
        factor = run.scheduler.lr_lambdas[0] if run.scheduler else lambda step: 1.0
        weigh = run.kl_weight if callable(run.kl_weight) else lambda step: run.kl_weight
        own = [item for module in self.model.modules() for item in vars(module).items()]
        loss = getattr(run.nll, "func", run.nll)  # of a partial
        loss = loss if hasattr(loss, "__qualname__") else type(loss)
        plain, steps = int | float | str | tuple, [run.n_steps * k // 8 for k in range(8)]
        return dict(self.trial.config) | {
            "seed": self.trial.seed,
            "layers": repr(self.model),
            "settings": repr([(k, v) for k, v in own if isinstance(v, plain) or is_dataclass(v)]),
            "nll": f"{loss.__module__}.{loss.__qualname__} {getattr(run.nll, 'keywords', '')}",
            "n_steps": run.n_steps,
            "steps in an epoch": run.epoch,
            "optimizer": f"{type(run.optimizer).__name__} {run.optimizer.defaults}",
            "learning rates": torch.tensor([factor(step) for step in steps]),
            "KL weights": [float(weigh(step)) for step in steps],
            "x": _fingerprint(self.x),
            "y": _fingerprint(self.y),
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
    """The state in the file, ``None`` if there is none; ValueError if its bytes were changed."""
    if not path.exists():
        return None
    content = read_checked(path)
    if content is None:
        raise ValueError(f"{path} is damaged or no checkpoint: {_DELETE}")
    return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)


def _fingerprint(values: Tensor) -> Tensor:
    """Numbers that tell one data set from another, and do not depend on last bits: ``(4,)``."""
    flat = values.detach().cpu().double().flatten()
    places = torch.linspace(0, 1, len(flat), dtype=flat.dtype)
    return torch.tensor([len(values), flat.mean(), (places * flat).mean(), flat.norm()])


def _same(found: Any, wanted: Any) -> bool:
    if isinstance(found, Tensor) and isinstance(wanted, Tensor):
        return found.shape == wanted.shape and torch.allclose(found, wanted, rtol=1e-4, atol=1e-4)
    return type(found) is type(wanted) and found == wanted
