"""Columns of mean 0 and variance 1, fitted on training examples. Lessons 03 and 10."""

from dataclasses import dataclass

import torch

from bdl_lessons.core.validation import floating, floating_type, shapes


@dataclass(frozen=True)
class Standardiser:
    """``z = (x - mean) / std`` per column, and back; ``std`` is 1 for a constant column.

    ``mean`` and ``std`` (population form, divided by N) have the shape of one example. An error of
    e in standardised y is ``e * std`` in original units, and a log density loses ``log(std)``.
    Lesson 03 (time in years), the UCI experiments and the panels of lesson 10.

    >>> scale = Standardiser.fit(torch.tensor([1.0, 3.0]))
    >>> scale.transform(torch.tensor([1.0, 2.0])).tolist(), scale.std.item()
    ([-1.0, 0.0], 1.0)
    """

    mean: torch.Tensor
    std: torch.Tensor

    @classmethod
    def fit(cls, x: torch.Tensor) -> "Standardiser":
        """Take mean and standard deviation over the examples of ``x``, ``(N, Q)`` or ``(N,)``.

        A column is constant if its smallest value equals its largest: rounding may leave a standard
        deviation of 1e-16 (0.998 in every example of the naval set). Raises TypeError if ``x`` is
        not a floating-point tensor; ValueError if it has no examples, a NaN or an infinity.
        """
        shapes("x must be (N, ...)", floating("x", x))
        constant = x.amin(0) == x.amax(0)
        std = x.std(0, correction=0)
        return cls(x.mean(0), torch.where(constant, torch.ones_like(std), std))

    def transform(self, x: torch.Tensor) -> torch.Tensor:
        """Original units -> standardised; with one mean (fitted on ``(N,)``) x has any shape.

        Raises TypeError or ValueError if the columns of ``x`` are not those that were fitted.
        """
        return (self._with_columns("x", x) - self.mean) / self.std

    def inverse_transform(self, z: torch.Tensor) -> torch.Tensor:
        """Standardised -> original units; errors as for :meth:`transform`."""
        return self._with_columns("z", z) * self.std + self.mean

    def _with_columns(self, name: str, value: torch.Tensor) -> torch.Tensor:
        try:
            self.mean.expand_as(floating_type(name, value))
        except RuntimeError:
            rule = f"{name} must end with the columns {tuple(self.mean.shape)} that were fitted"
            raise ValueError(f"{rule}, got shape {tuple(value.shape)}") from None
        return value
