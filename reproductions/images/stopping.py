"""One stopping rule for all methods, by validation images, and the state that a stopped run needs.

Sources: none of the papers says how long it trained; the rule is the one of LeNet5 on MNIST.
"""

import io
import math
import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import ReduceLROnPlateau

from reproductions.checkpoint import read
from reproductions.files import write_checked

FACTOR = 0.2
"""On the learning rate."""
N_REDUCTIONS = 2
"""How many times the learning rate is reduced."""
THRESHOLD = 1e-3
"""The relative decrease of the validation loss that counts as an improvement."""


class Stopping(NamedTuple):
    """The validation loss after each epoch, and whether it ended because that was no better."""

    curve: list[float]
    no_better: bool


@dataclass
class EpochCheckpoint:
    """The state of the networks of one trial after their last epochs, in a file.

    Attributes:
        path: of the file; there need not be one yet.
        generator: the source of all random numbers of the trial.
        networks: the state of each network that was begun; all but the last one are trained.
        seconds: how long the run before this one had trained.
    """

    path: Path
    generator: torch.Generator
    networks: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0

    def __post_init__(self) -> None:
        self._began = time.monotonic()
        self._kept = read(self.path)
        if self._kept:
            self.networks = self._kept["networks"]
            self.seconds = self._kept["seconds"]

    def restore(self, number: int) -> dict[str, Any] | None:
        """The state of a network, the generator put where it was; ``None`` if it was not begun."""
        if number >= len(self.networks):
            return None
        if self._kept:
            self.generator.set_state(self._kept["generator"])
        return self.networks[number]

    def keep(self, number: int, state: dict[str, Any]) -> None:
        """Write the state of a network beside that of those before it."""
        self.networks[number:] = [state]
        content = {
            "networks": self.networks,
            "seconds": self.seconds + time.monotonic() - self._began,
            "generator": self.generator.get_state(),
        }
        buffer = io.BytesIO()
        torch.save(content, buffer)
        write_checked(self.path, buffer.getbuffer())  # all or nothing


def fit_until_no_better(
    model: nn.Module,
    train_epoch: Callable[[int], None],
    validation_loss: Callable[[], float],
    optimizer: Optimizer,
    *,
    patience: int,
    max_epochs: int,
    checkpoint: EpochCheckpoint | None = None,
    number: int = 0,
) -> Stopping:
    """Train until the validation loss stops improving; leave ``model`` in its best state.

    When ``patience`` epochs in a row bring no improvement, training returns to the best state
    and goes on with a fifth of the learning rate; the third time, or after ``max_epochs``, it
    stops.

    Args:
        train_epoch: uses ``optimizer`` and gets the number of the epoch, from 0.
        checkpoint: where the state after each epoch is kept, and a run before this one left its.
        number: of the model among those of the checkpoint.

    Raises FloatingPointError if a validation loss is NaN or infinite.
    """
    plateau = ReduceLROnPlateau(
        optimizer, factor=FACTOR, patience=patience - 1, threshold=THRESHOLD, eps=0.0
    )
    parts = {"model": model, "optimizer": optimizer, "plateau": plateau}
    curve: list[float] = []
    best = {}
    n_reductions = 0
    if checkpoint and (kept := checkpoint.restore(number)):
        for name, part in parts.items():
            part.load_state_dict(kept[name])
        curve = kept["curve"]
        best = kept["best"]
        n_reductions = kept["n_reductions"]
    while len(curve) < max_epochs and n_reductions <= N_REDUCTIONS:
        train_epoch(len(curve))
        curve.append(validation_loss())
        if not math.isfinite(curve[-1]):
            raise FloatingPointError(f"a validation loss of {curve[-1]} in epoch {len(curve)}")
        if curve[-1] < min(curve[:-1], default=math.inf):
            best = deepcopy(model.state_dict())
        rate = optimizer.param_groups[0]["lr"]
        plateau.step(curve[-1])
        if optimizer.param_groups[0]["lr"] < rate:
            n_reductions += 1
            model.load_state_dict(best)
        if checkpoint:
            state = {name: part.state_dict() for name, part in parts.items()}
            state["curve"] = curve
            state["best"] = best
            state["n_reductions"] = n_reductions
            checkpoint.keep(number, state)
    model.load_state_dict(best)
    return Stopping(curve, n_reductions > N_REDUCTIONS)
