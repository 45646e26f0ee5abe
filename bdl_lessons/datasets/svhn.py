"""SVHN, cropped digits: MATLAB files with X ``(32, 32, 3, N)`` and y in 1..10, where 10 is zero."""

from __future__ import annotations

import numpy as np
import torch

from bdl_lessons.datasets.containers import Classification, image_part
from bdl_lessons.datasets.errors import reading
from bdl_lessons.datasets.fetch import fetch
from bdl_lessons.datasets.idx import DIGITS


def svhn(n_train: int | None = None, n_test: int | None = None) -> Classification:
    """SVHN: x ``(73257, 3, 32, 32)`` and ``(26032, 3, 32, 32)``, RGB; label = the digit.

    The file's label 10 stands for the digit 0 and becomes class 0. The 531131 "extra" images are
    not used.
    """
    return Classification("svhn", *_part("train", n_train), *_part("test", n_test), DIGITS)


def _part(part: str, n: int | None) -> tuple[torch.Tensor, torch.Tensor]:
    from scipy.io import loadmat

    path = fetch("svhn", f"{part}_32x32.mat")
    with reading(path):
        content = loadmat(path, variable_names=["X", "y"])
        images, labels = content["X"], content["y"].ravel().astype(np.int64)
        if images.dtype != np.uint8 or images.ndim != 4 or images.shape[:3] != (32, 32, 3):
            raise ValueError(f"X should be uint8 (32, 32, 3, N), is {images.dtype} {images.shape}")
        if not ((labels >= 1) & (labels <= 10)).all():
            raise ValueError(f"labels should lie in 1..10, found {labels.min()}..{labels.max()}")
    return image_part(images.transpose(3, 2, 0, 1), labels % 10, 10, n, path)
