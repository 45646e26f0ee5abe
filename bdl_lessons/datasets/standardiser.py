"""Columns of mean 0 and variance 1, fitted on training examples. Lessons 03 and 11."""

from dataclasses import dataclass

import torch

from bdl_lessons.core.devices import float64
from bdl_lessons.core.validation import floating, floating_type, shapes


@dataclass(frozen=True)
class Standardiser:
    """``z = (x - mean) / std`` per column, and back; ``std`` is 1 for a constant column.

    ``mean`` and ``std`` (population form, divided by N) have the shape of one example. Fit and
    transform data in float64 and round afterwards, ``scale.transform(x).float()``: in float32 two
    time stamps a minute apart are one number.

    Three ways lead back to original units: :meth:`inverse_transform` for values and means; for a
    standard deviation ``scale.std * std_z``, without the mean; for a log density of an example
    ``log_density_z - scale.std.log().sum()``, because it is a density per unit of y. Lesson 03
    (time in years), the UCI experiments and the panels of lesson 11.

    >>> scale = Standardiser.fit(torch.tensor([1.0, 3.0]))
    >>> scale.transform(torch.tensor([1.0, 2.0])).tolist(), scale.std.item()
    ([-1.0, 0.0], 1.0)
    """

    mean: torch.Tensor
    std: torch.Tensor

    @classmethod
    def fit(cls, x: torch.Tensor) -> "Standardiser":
        """Take mean and standard deviation over the examples of ``x``, ``(N, Q)`` or ``(N,)``.

        Both are computed in float64 and have the dtype of ``x``, float32 at least. A column is
        constant if it deviates from its mean by no more than rounding does: by ``N`` epsilons of
        float64 (scikit-learn's bound), or one epsilon of the dtype of ``x``, times the mean. Raises
        TypeError if ``x`` is not a floating-point tensor; ValueError if it has no examples, a NaN
        or an infinity.
        """
        shapes("x must be (N, ...)", floating("x", x))
        values = float64(x)
        mean = values.mean(0)
        std = values.std(0, correction=0)
        rounding = max(len(x) * torch.finfo(torch.float64).eps, torch.finfo(x.dtype).eps)
        is_constant = std <= rounding * mean.abs()
        std = std.masked_fill(is_constant, 1)
        dtype = torch.promote_types(x.dtype, torch.float32)
        return cls(mean.to(x.device, dtype), std.to(x.device, dtype))

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
