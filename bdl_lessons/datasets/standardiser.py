"""Columns of mean 0 and variance 1, fitted on training examples. Lessons 03 and 11."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from bdl_lessons.core.devices import float64
from bdl_lessons.core.validation import finite, floating_type, shapes


@dataclass(frozen=True)
class Standardiser:
    """``z = (x - mean) / std`` per column, and back; ``std`` is 1 for a constant column.

    ``mean`` and ``std`` (population form, divided by N) have the shape of one example. Fit and
    transform data in float64 and round afterwards, ``scale.transform(x).float()``: in float32 two
    time stamps a minute apart are one number.

    Tables may be tensors, NumPy arrays or data frames of pandas. What is no tensor becomes one of
    float64, so ``Standardiser.fit(table[["rent"]])`` has the shapes ``(1,)`` of one column and
    ``Standardiser.fit(table["rent"])`` those of a single number, ``()``.

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
    def fit(cls, x: Any) -> "Standardiser":
        """Take mean and standard deviation over the examples of ``x``, ``(N, Q)`` or ``(N,)``.

        Both are computed in float64 and have the dtype of ``x``, float32 at least. A column is
        constant if it deviates from its mean by no more than rounding does: by ``N`` epsilons of
        float64 (scikit-learn's bound), or one epsilon of the dtype of ``x``, times the mean. Raises
        TypeError if ``x`` is no floating-point tensor and no table of numbers; ValueError if it has
        no examples, a NaN or an infinity.
        """
        x = _tensor("x", x)
        if x.isnan().any():
            remedy = "fill it by scikit-learn's SimpleImputer, or leave such rows out"
            raise ValueError(f"x must be finite, it has a NaN at {_where(x)}: {remedy}")
        shapes("x must be (N, ...)", finite("x", x))
        values = float64(x)
        mean = values.mean(0)
        std = values.std(0, correction=0)
        rounding = max(len(x) * torch.finfo(torch.float64).eps, torch.finfo(x.dtype).eps)
        is_constant = std <= rounding * mean.abs()
        std = std.masked_fill(is_constant, 1)
        dtype = torch.promote_types(x.dtype, torch.float32)
        return cls(mean.to(x.device, dtype), std.to(x.device, dtype))

    def transform(self, x: Any) -> torch.Tensor:
        """Original units -> standardised; with one mean (fitted on ``(N,)``) x has any shape.

        Raises TypeError or ValueError if the columns of ``x`` are not those that were fitted.
        """
        return (self._with_columns("x", x) - self.mean) / self.std

    def inverse_transform(self, z: Any) -> torch.Tensor:
        """Standardised -> original units; errors as for :meth:`transform`."""
        return self._with_columns("z", z) * self.std + self.mean

    def _with_columns(self, name: str, value: Any) -> torch.Tensor:
        value = _tensor(name, value)
        columns = tuple(self.mean.shape)
        try:
            self.mean.expand_as(value)
            fits = len(columns) != 1 or value.shape[-1:] == columns  # (1,) would broadcast
        except RuntimeError:
            fits = False
        if not fits:
            rule = f"{name} must end with the columns {columns} that were fitted"
            raise ValueError(f"{rule}, got shape {tuple(value.shape)}")
        return value


def _tensor(name: str, table: Any) -> torch.Tensor:
    """A tensor as it is; an array or a data frame of numbers as a tensor of float64."""
    if hasattr(table, "to_numpy"):
        table = _array(name, table)
    if isinstance(table, np.ndarray) and table.dtype.kind in "fiub":
        return torch.from_numpy(table.astype(np.float64))
    if isinstance(table, np.ndarray):
        remedy = f"{name}.astype(float) makes them numbers, if each of them is one"
        raise TypeError(f"{name} must be numbers, got a NumPy array of {table.dtype}: {remedy}")
    return floating_type(name, table)


def _array(name: str, frame: Any) -> np.ndarray:
    """The numbers of a data frame or a series of pandas, with NaN where one is missing."""
    columns = frame if frame.ndim == 2 else frame.to_frame()
    others = [str(column) for column, dtype in columns.dtypes.items() if dtype.kind not in "fiub"]
    if others:
        remedy = "scikit-learn's OneHotEncoder makes numbers of categories (docs/own_data.md)"
        raise TypeError(f"{name} must be numbers, got other values in {others}: {remedy}")
    return frame.to_numpy(dtype=float, na_value=np.nan)


def _where(x: torch.Tensor) -> str:
    row, *column = x.isnan().nonzero()[0].tolist()
    return f"row {row}, column {column[0]}" if column else f"row {row}"
