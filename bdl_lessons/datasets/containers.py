"""What a loader returns: two small frozen dataclasses, one per kind of task."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from bdl_lessons.core.validation import integer
from bdl_lessons.datasets.errors import DatasetCorrupt


@dataclass(frozen=True)
class Classification:
    """A classification set, already divided into its training and test part.

    ``x_*`` are float32: images ``(N, C, H, W)`` with pixels in [0, 1], or features ``(N, Q)``.
    ``y_*`` are int64 of shape ``(N,)`` with values 0 .. ``len(classes) - 1``. A set that only has
    a test part (notMNIST) has an empty training part.
    """

    name: str
    x_train: torch.Tensor
    y_train: torch.Tensor
    x_test: torch.Tensor
    y_test: torch.Tensor
    classes: tuple[str, ...]


@dataclass(frozen=True)
class Regression:
    """A regression set in its original units, not divided; see ``splits`` and ``Standardiser``.

    ``x`` is ``(N, Q)`` and ``y`` is ``(N,)``, both float64: means and standard deviations are
    taken before anything is rounded to float32.
    """

    name: str
    x: torch.Tensor
    y: torch.Tensor
    feature_names: tuple[str, ...]
    target: str
    unit: str


def image_part(
    images: np.ndarray, labels: np.ndarray, n_classes: int, n: int | None, path: Path
) -> tuple[torch.Tensor, torch.Tensor]:
    """The first ``n`` images (all if ``None``) of one part of a set, checked and as tensors.

    Args:
        images: uint8 ``(N, C, H, W)``; returned as float32 in [0, 1].
        labels: integers ``(N,)`` in 0 .. ``n_classes - 1``; returned as int64.
        n: ``n_train=`` or ``n_test=`` of a loader.
        path: the file to name if images and labels do not fit.

    Raises:
        DatasetCorrupt: if the numbers differ or a label is out of range.
        ValueError, TypeError: if ``n`` is not an integer between 1 and N.
    """
    if len(images) != len(labels):
        raise DatasetCorrupt(f"{path}: {len(images)} images but {len(labels)} labels")
    if len(labels) and not 0 <= labels.min() <= labels.max() < n_classes:
        raise DatasetCorrupt(
            f"{path}: labels must lie in 0..{n_classes - 1}, found {labels.min()}..{labels.max()}"
        )
    n = first_n(n, len(images))
    pixels = torch.from_numpy(np.ascontiguousarray(images[:n], np.float32)).div_(255)
    return pixels, torch.from_numpy(labels[:n].astype(np.int64))


def first_n(n: int | None, available: int) -> int:
    """``n`` itself, or ``available`` for ``None``; an error if ``n`` is not in 1 .. available."""
    if n is None:
        return available
    if integer("n_train and n_test", n, 1) > available:
        raise ValueError(f"n_train and n_test must lie in 1..{available} for this part, got {n}")
    return n
