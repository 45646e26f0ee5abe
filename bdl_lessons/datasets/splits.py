"""The 20 standard splits of the UCI sets, and standardisation fitted on the training rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from bdl_lessons.datasets.containers import Regression


@dataclass(frozen=True)
class Standardiser:
    """``z = (x - mean) / std`` per column, and back; ``std`` is 1 for a constant column.

    ``mean`` and ``std`` (population form, divided by N) have the shape of one row.
    """

    mean: torch.Tensor
    std: torch.Tensor

    @classmethod
    def fit(cls, x: torch.Tensor) -> Standardiser:
        """Take mean and standard deviation over the rows of ``x``, ``(N, Q)`` or ``(N,)``.

        A column is constant if its smallest value equals its largest. Comparing the standard
        deviation with 0 would not do: rounding may leave 1e-16, or 1e-13 in numpy, for a column
        like that of the inlet pressure in the naval set, 0.998 in every row.
        """
        if len(x) == 0 or not torch.isfinite(x).all():
            raise ValueError(f"x must have rows and be finite, got shape {tuple(x.shape)}")
        constant = x.amin(0) == x.amax(0)
        std = x.std(0, correction=0)
        return cls(x.mean(0), torch.where(constant, torch.ones_like(std), std))

    def apply(self, x: torch.Tensor) -> torch.Tensor:
        """Original units -> standardised."""
        return (x - self.mean) / self.std

    def undo(self, z: torch.Tensor) -> torch.Tensor:
        """Standardised -> original units."""
        return z * self.std + self.mean


@dataclass(frozen=True)
class StandardisedSplit:
    """One train/test split; ``x_scale`` and ``y_scale`` were fitted on the training rows only.

    x ``(N, Q)``, y ``(N,)`` in units of standard deviations. An error of e in standardised y is
    ``e * y_scale.std`` in original units, and a log density loses ``log(y_scale.std)``.
    """

    x_train: torch.Tensor
    y_train: torch.Tensor
    x_test: torch.Tensor
    y_test: torch.Tensor
    x_scale: Standardiser
    y_scale: Standardiser


def splits(n_rows: int, n_splits: int = 20) -> list[tuple[np.ndarray, np.ndarray]]:
    """The standard 90 % / 10 % splits: ``n_splits`` pairs of train and test row numbers.

    One legacy generator with seed 1 draws one permutation after the other; the first
    ``floor(0.9 n + 0.5)`` rows of each are for training. These are the splits of Hernández-Lobato
    and Adams (ICML 2015) as used by Gal and Ghahramani (ICML 2016) and most papers since.
    """
    if n_rows < 2 or n_splits < 1:
        raise ValueError(f"need n_rows >= 2 and n_splits >= 1, got {n_rows} and {n_splits}")
    generator = np.random.RandomState(1)
    n_train = int(np.floor(0.9 * n_rows + 0.5))
    permutations = (generator.choice(n_rows, n_rows, replace=False) for _ in range(n_splits))
    return [(rows[:n_train], rows[n_train:]) for rows in permutations]


def standardised_split(
    data: Regression, split: int, n_splits: int = 20, dtype: torch.dtype = torch.float32
) -> StandardisedSplit:
    """Split number ``split`` (0 .. n_splits - 1) of a regression set, standardised.

    Raises:
        ValueError: if there is no such split.
    """
    if not 0 <= split < n_splits:
        raise ValueError(f"split must lie in 0..{n_splits - 1}, got {split}")
    train, test = (torch.from_numpy(rows) for rows in splits(len(data.x), split + 1)[split])
    x_scale, y_scale = Standardiser.fit(data.x[train]), Standardiser.fit(data.y[train])
    return StandardisedSplit(
        x_scale.apply(data.x[train]).to(dtype),
        y_scale.apply(data.y[train]).to(dtype),
        x_scale.apply(data.x[test]).to(dtype),
        y_scale.apply(data.y[test]).to(dtype),
        x_scale,
        y_scale,
    )
