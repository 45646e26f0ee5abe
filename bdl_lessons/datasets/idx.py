"""The idx format of MNIST, and the sets that come in it.

An idx file is a header and then the raw bytes: two zero bytes, a type code (8 = unsigned byte),
the number of dimensions, each dimension as a big-endian 32-bit integer, the array in C order.
"""

from __future__ import annotations

import gzip
import math
from pathlib import Path

import numpy as np
import torch

from bdl_lessons.core.validation import typechecked
from bdl_lessons.datasets.containers import Classification, image_part
from bdl_lessons.datasets.errors import reading
from bdl_lessons.datasets.fetch import fetch

DIGITS = tuple("0123456789")
CLOTHES = (
    *("T-shirt/top", "trouser", "pullover", "dress", "coat"),
    *("sandal", "shirt", "sneaker", "bag", "ankle boot"),
)
LETTERS = tuple("ABCDEFGHIJ")
CAFFE_SCALE = 255 / 256
"""On pixels in [0, 1]: the bytes divided by 256, as Caffe and many papers have them, not by 255."""


@typechecked
def mnist(n_train: int | None = None, n_test: int | None = None) -> Classification:
    """MNIST: x ``(60000, 1, 28, 28)`` and ``(10000, 1, 28, 28)``; the first images if limited."""
    train, test = _part("mnist", "train", 10, n_train), _part("mnist", "t10k", 10, n_test)
    return Classification("mnist", *train, *test, DIGITS)


@typechecked
def fashion_mnist(n_train: int | None = None, n_test: int | None = None) -> Classification:
    """Fashion-MNIST: x ``(60000, 1, 28, 28)`` and ``(10000, 1, 28, 28)``."""
    name = "fashion-mnist"
    train, test = _part(name, "train", 10, n_train), _part(name, "t10k", 10, n_test)
    return Classification(name, *train, *test, CLOTHES)


@typechecked
def notmnist(n_test: int | None = None) -> Classification:
    """notMNIST, 1000 of each letter A–J: x_test ``(10000, 1, 28, 28)``, no training images.

    It is there to be out of distribution for a network trained on MNIST.
    """
    x_test, y_test = _part("notmnist-small", "t10k", 10, n_test)
    x_train, y_train = x_test.new_empty(0, *x_test.shape[1:]), y_test.new_empty(0)
    return Classification("notmnist-small", x_train, y_train, x_test, y_test, LETTERS)


def read_idx(path: Path) -> np.ndarray:
    """The array of an idx file of unsigned bytes, plain or ``.gz``.

    Raises:
        DatasetCorrupt: if the file is truncated, or its header does not describe what follows.
    """
    opened = gzip.open if path.suffix == ".gz" else open
    with reading(path):
        with opened(path, "rb") as stream:
            content = stream.read()
        if content[:3] != b"\0\0\x08":
            raise ValueError(f"an idx file of bytes starts with 0 0 8, this one: {content[:3]!r}")
        start = 4 + 4 * content[3]
        shape = np.frombuffer(content[4:start], ">u4").tolist()
        if math.prod(shape) != len(content) - start:
            raise ValueError(
                f"the header promises {shape}, {len(content) - start} bytes of data follow"
            )
        return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def _part(name: str, part: str, n_classes: int, n: int | None) -> tuple[torch.Tensor, torch.Tensor]:
    images_path = fetch(name, f"{part}-images-idx3-ubyte.gz")
    labels_path = fetch(name, f"{part}-labels-idx1-ubyte.gz")
    images, labels = read_idx(images_path), read_idx(labels_path)
    with reading(images_path):
        if images.ndim != 3 or labels.ndim != 1:
            raise ValueError(f"expected images and labels, got {images.shape} and {labels.shape}")
    return image_part(images[:, None], labels, n_classes, n, labels_path)
