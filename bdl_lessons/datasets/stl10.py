"""STL-10, labelled part, from the official binary archive.

Pixels are bytes ``(N, 3, 96, 96)``, each colour plane *column* by column; labels are 1..10.
"""

from __future__ import annotations

import numpy as np

from bdl_lessons.datasets.archives import read_members, read_records
from bdl_lessons.datasets.containers import Classification, image_part
from bdl_lessons.datasets.fetch import fetch

CLASSES = ("airplane", "bird", "car", "cat", "deer", "dog", "horse", "monkey", "ship", "truck")
PIXELS = 3 * 96 * 96


def stl10(n_train: int | None = None, n_test: int | None = None) -> Classification:
    """STL-10: x ``(5000, 3, 96, 96)`` and ``(8000, 3, 96, 96)``, RGB."""
    path = fetch("stl10", "stl10_binary.tar.gz")
    sizes = {
        "stl10_binary/train_X.bin": 5_000 * PIXELS,
        "stl10_binary/train_y.bin": 5_000,
        "stl10_binary/test_X.bin": 8_000 * PIXELS,
        "stl10_binary/test_y.bin": 8_000,
    }
    content = read_members(path, sizes)

    def part(name: str, n: int | None):
        columns_first = read_records(content[f"stl10_binary/{name}_X.bin"], PIXELS, path)
        images = columns_first.reshape(-1, 3, 96, 96).transpose(0, 1, 3, 2)
        labels = np.frombuffer(content[f"stl10_binary/{name}_y.bin"], np.uint8).astype(np.int64)
        return image_part(images, labels - 1, 10, n, path)

    return Classification("stl10", *part("train", n_train), *part("test", n_test), CLASSES)
