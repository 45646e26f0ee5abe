"""CIFAR-10, CIFAR-100, STL-10 and SVHN from the official files; two stand-ins for CIFAR-10.

A record of CIFAR is one label byte (CIFAR-100: coarse, then fine) and 3072 pixel bytes, red plane
first, each plane row by row. The better known "python version" holds pickles, which can run any
code when read; it is not used here. STL-10 stores each plane *column* by column, and labels 1..10.
SVHN has MATLAB files with X ``(32, 32, 3, N)`` and y in 1..10, where 10 is zero.
"""

from __future__ import annotations

import io
import itertools
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from bdl_lessons.datasets.archives import read_members, read_npz, read_records
from bdl_lessons.datasets.containers import Classification, first_n, image_part
from bdl_lessons.datasets.errors import reading, unknown
from bdl_lessons.datasets.fetch import fetch
from bdl_lessons.datasets.idx import DIGITS

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
STL_CLASSES = ("airplane", "bird", "car", "cat", "deer", "dog", "horse", "monkey", "ship", "truck")
PIXELS, STL_PIXELS = 3 * 32 * 32, 3 * 96 * 96


def cifar10(n_train: int | None = None, n_test: int | None = None) -> Classification:
    """CIFAR-10: x ``(50000, 3, 32, 32)`` and ``(10000, 3, 32, 32)``, RGB, official order."""
    path = fetch("cifar10", "cifar-10-binary.tar.gz")
    batches = [f"cifar-10-batches-bin/data_batch_{i}.bin" for i in range(1, 6)]
    test_batch = "cifar-10-batches-bin/test_batch.bin"
    content = read_members(path, dict.fromkeys([*batches, test_batch], 10_000 * (PIXELS + 1)))

    def part(members: list[str], n: int | None):
        rows = read_records(b"".join(content[name] for name in members), PIXELS + 1, path)
        return image_part(rows[:, 1:].reshape(-1, 3, 32, 32), rows[:, 0], 10, n, path)

    return Classification("cifar10", *part(batches, n_train), *part([test_batch], n_test), CLASSES)


def cifar100(
    n_train: int | None = None,
    n_test: int | None = None,
    labels: Literal["fine", "coarse"] = "fine",
) -> Classification:
    """CIFAR-100: x ``(50000, 3, 32, 32)`` and ``(10000, 3, 32, 32)``; 100 classes, or 20 coarse."""
    columns = {"coarse": 0, "fine": 1}
    if labels not in columns:
        raise unknown("labels", labels, columns)
    path = fetch("cifar100", "cifar-100-binary.tar.gz")
    train, test = "cifar-100-binary/train.bin", "cifar-100-binary/test.bin"
    names = f"cifar-100-binary/{labels}_label_names.txt"
    sizes = {train: 50_000 * (PIXELS + 2), test: 10_000 * (PIXELS + 2), names: 10_000}
    content = read_members(path, sizes)
    classes = tuple(content[names].decode("ascii", "replace").split())

    def part(member: str, n: int | None):
        rows = read_records(content[member], PIXELS + 2, path)
        images, y = rows[:, 2:].reshape(-1, 3, 32, 32), rows[:, columns[labels]]
        return image_part(images, y, len(classes), n, path)

    return Classification("cifar100", *part(train, n_train), *part(test, n_test), classes)


def stl10(n_train: int | None = None, n_test: int | None = None) -> Classification:
    """STL-10: x ``(5000, 3, 96, 96)`` and ``(8000, 3, 96, 96)``, RGB."""
    path = fetch("stl10", "stl10_binary.tar.gz")
    sizes = {
        "stl10_binary/train_X.bin": 5_000 * STL_PIXELS,
        "stl10_binary/train_y.bin": 5_000,
        "stl10_binary/test_X.bin": 8_000 * STL_PIXELS,
        "stl10_binary/test_y.bin": 8_000,
    }
    content = read_members(path, sizes)

    def part(name: str, n: int | None):
        columns_first = read_records(content[f"stl10_binary/{name}_X.bin"], STL_PIXELS, path)
        images = columns_first.reshape(-1, 3, 96, 96).transpose(0, 1, 3, 2)
        labels = np.frombuffer(content[f"stl10_binary/{name}_y.bin"], np.uint8).astype(np.int64)
        return image_part(images, labels - 1, 10, n, path)

    return Classification("stl10", *part("train", n_train), *part("test", n_test), STL_CLASSES)


def cifar10_subset(n_train: int | None = None, n_test: int | None = None) -> Classification:
    """The first 4000 training and 1000 test images of CIFAR-10, exact pixels."""
    path = fetch("cifar10-subset", "cifar10_subset.npz")
    keys = ("x_train", "y_train", "x_test", "y_test")
    x_train, y_train, x_test, y_test = read_npz(path, dict.fromkeys(keys, np.uint8))

    def part(images: np.ndarray, y: np.ndarray, n: int | None):
        with reading(path):
            if images.shape[1:] != (32, 32, 3):
                raise ValueError(f"images should be (N, 32, 32, 3), are {images.shape}")
        return image_part(images.transpose(0, 3, 1, 2), y, 10, n, path)

    train, test = part(x_train, y_train, n_train), part(x_test, y_test, n_test)
    return Classification("cifar10-subset", *train, *test, CLASSES)


def cifar10_jpeg(n_train: int | None = None, n_test: int | None = None) -> Classification:
    """All of CIFAR-10 after JPEG compression of quality 75: full size, but lossy.

    The pixels are not the official ones (mean PSNR 30.5 dB against them): numbers obtained on this
    set must not be compared with published ones.
    """
    path = fetch("cifar10-jpeg", "cifar10_jpeg.npz")

    def part(prefix: str, n: int | None):
        jpeg, cuts, labels = f"{prefix}_jpeg", f"{prefix}_offsets", f"y_{prefix}"
        dtypes = {jpeg: np.uint8, cuts: np.int64, labels: np.uint8}
        stream, offsets, y = read_npz(path, dtypes)
        with reading(path):
            if (np.diff(offsets) <= 0).any() or offsets[0] != 0 or offsets[-1] != len(stream):
                raise ValueError(f"{prefix}_offsets do not cut up the {len(stream)} bytes")
            if len(offsets) != len(y) + 1:
                raise ValueError(f"{len(offsets) - 1} {prefix} images but {len(y)} labels")
        n = first_n(n, len(y))
        images = _decode(stream, offsets[: n + 1], path)
        return image_part(images, y[: len(images)], 10, None, path)

    return Classification("cifar10-jpeg", *part("train", n_train), *part("test", n_test), CLASSES)


def _decode(stream: np.ndarray, offsets: np.ndarray, path: Path) -> np.ndarray:
    from PIL import Image

    images = np.empty((len(offsets) - 1, 32, 32, 3), np.uint8)
    with reading(path):
        for i, (start, end) in enumerate(itertools.pairwise(offsets)):
            with Image.open(io.BytesIO(stream[start:end].tobytes()), formats=["JPEG"]) as image:
                images[i] = np.asarray(image.convert("RGB"))
    return images.transpose(0, 3, 1, 2)


def svhn(n_train: int | None = None, n_test: int | None = None) -> Classification:
    """SVHN: x ``(73257, 3, 32, 32)`` and ``(26032, 3, 32, 32)``, RGB; label = the digit.

    The file's label 10 stands for the digit 0 and becomes class 0. The 531131 "extra" images are
    not used.
    """
    return Classification(
        "svhn", *_svhn_part("train", n_train), *_svhn_part("test", n_test), DIGITS
    )


def _svhn_part(part: str, n: int | None) -> tuple[torch.Tensor, torch.Tensor]:
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
