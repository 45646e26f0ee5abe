"""Training until the validation loss is no better: one rule for all methods. Lesson 12."""

import math
from collections.abc import Callable
from copy import deepcopy
from typing import NamedTuple

from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import ReduceLROnPlateau

FACTOR, N_REDUCTIONS, THRESHOLD = 0.2, 2, 1e-3
"""On the learning rate; how many times; the relative decrease that counts as an improvement."""


class Stopping(NamedTuple):
    """How a training went: the validation loss after each epoch, and why it ended.

    ``no_better`` is ``True`` if the loss stopped improving, ``False`` if the epochs ran out.
    """

    curve: list[float]
    no_better: bool


def fit_until_no_better(
    model: nn.Module,
    train_epoch: Callable[[int], None],
    validation_loss: Callable[[], float],
    optimizer: Optimizer,
    *,
    patience: int,
    max_epochs: int,
) -> Stopping:
    """Train until the validation loss stops improving; leave ``model`` in its best state.

    When ``patience`` epochs in a row bring no improvement, training returns to the best state
    and goes on with a fifth of the learning rate; the third time it stops. It also stops after
    ``max_epochs``. Raises FloatingPointError if a validation loss is NaN or infinite.

    Args:
        train_epoch: trains one epoch with ``optimizer``; gets the number of the epoch, from 0.
    """
    plateau = ReduceLROnPlateau(
        optimizer, factor=FACTOR, patience=patience - 1, threshold=THRESHOLD, eps=0.0
    )
    curve: list[float] = []
    best, n_reductions = {}, 0
    while len(curve) < max_epochs and n_reductions <= N_REDUCTIONS:
        train_epoch(len(curve))
        curve.append(validation_loss())
        if not math.isfinite(curve[-1]):
            raise FloatingPointError(
                f"the validation loss became {curve[-1]} in epoch {len(curve)}"
            )
        if curve[-1] < min(curve[:-1], default=math.inf):
            best = deepcopy(model.state_dict())
        rate = optimizer.param_groups[0]["lr"]
        plateau.step(curve[-1])
        if optimizer.param_groups[0]["lr"] < rate:
            n_reductions += 1
            model.load_state_dict(best)
    model.load_state_dict(best)
    return Stopping(curve, n_reductions > N_REDUCTIONS)
