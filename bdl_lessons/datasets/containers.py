"""What a loader returns: two small frozen dataclasses, one per kind of task."""

from dataclasses import dataclass

import torch

from bdl_lessons.core.validation import integer


@dataclass(frozen=True)
class Classification:
    """A classification set, already divided into its training and test part.

    ``x_*`` are float32: images ``(N, C, H, W)`` with pixels in [0, 1], or features ``(N, Q)``.
    ``y_*`` are int64 of shape ``(N,)`` with values 0 .. ``len(classes) - 1``.
    """

    name: str
    x_train: torch.Tensor
    y_train: torch.Tensor
    x_test: torch.Tensor
    y_test: torch.Tensor
    classes: tuple[str, ...]


@dataclass(frozen=True)
class Regression:
    """A regression set in its original units, not divided; see ``Standardiser``.

    ``x`` is ``(N, Q)`` and ``y`` is ``(N,)``, both float64: means and standard deviations are
    taken before anything is rounded to float32.
    """

    name: str
    x: torch.Tensor
    y: torch.Tensor
    feature_names: tuple[str, ...]
    target: str
    unit: str


def first_n(n: int | None, available: int) -> int:
    """``n`` itself, or ``available`` for ``None``; an error if ``n`` is not in 1 .. available."""
    n = available if n is None else integer("n_train and n_test", n, 1)
    if n > available:
        raise ValueError(f"n_train and n_test must lie in 1..{available} for this part, got {n}")
    return n
