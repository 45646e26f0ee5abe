"""Loaders of images on made-up files of the official layouts, and on real data if present."""

from __future__ import annotations

import gzip
import io
import struct
import tarfile

import numpy as np
import pytest
import torch
from scipy.io import savemat

from reproductions import datasets

GENERATOR = np.random.default_rng(0)
LETTERS = "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"


def tar_gz(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def idx_gz(array: np.ndarray) -> bytes:
    header = b"\0\0\x08" + bytes([array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return gzip.compress(header + array.astype(np.uint8).tobytes())


def images(n: int, side: int = 32) -> np.ndarray:
    """uint8 (n, 3, side, side), every pixel different from its neighbours."""
    return GENERATOR.integers(0, 256, (n, 3, side, side), np.uint8)


def rows(*columns: np.ndarray) -> bytes:
    """Records of the binary versions of CIFAR: labels, then the planes of the image."""
    flat = [column.reshape(len(column), -1) for column in columns]
    return np.concatenate(flat, 1).astype(np.uint8).tobytes()


def saved(write, *args, **arrays) -> bytes:
    buffer = io.BytesIO()
    write(buffer, *args, **arrays)
    return buffer.getvalue()


def same_pixels(x: torch.Tensor, expected: np.ndarray) -> bool:
    assert x.dtype == torch.float32
    return np.array_equal(np.round(x.numpy() * 255), expected)  # bits: rounded to integers


def put_letters(folders, n: int = 20) -> np.ndarray:
    pixels = images(n, side=28)[:, 0]
    folders.put("notmnist-small", LETTERS[0], idx_gz(pixels))
    folders.put("notmnist-small", LETTERS[1], idx_gz(np.arange(n) % 10))
    return pixels


@pytest.mark.filterwarnings("error")
def test_limits_take_the_first_rows_and_own_their_memory(folders):
    pixels = put_letters(folders)
    data = datasets.load("notmnist-small", n_test=5)
    assert same_pixels(data.x_test, pixels[:5, None])
    assert data.x_train.shape == (0, 1, 28, 28)
    assert data.y_test.tolist() == [0, 1, 2, 3, 4]
    data.x_test[0] = 0  # a tensor of its own: writing to it is allowed
    assert datasets.load("notmnist-small").x_test[0].any()
    for n in (0, 21):
        with pytest.raises(ValueError, match="n_test"):
            datasets.load("notmnist-small", n_test=n)


def test_a_name_that_is_none_is_answered_by_the_list():
    with pytest.raises(ValueError, match=r"no images called 'minst', only mnist, .*stl10"):
        datasets.load("minst")


X = images(5)
X_TEST = images(3)
LABELS = np.array([0, 5, 9, 2, 2])
SQUARE = images(3, side=96)
COARSE = np.zeros(5)


def cifar10() -> dict[str, bytes]:
    batches = [(f"data_batch_{i + 1}", rows(LABELS[i : i + 1], X[i : i + 1])) for i in range(5)]
    members = [("readme", b""), *batches, ("test_batch", rows(LABELS[:3], X_TEST))]
    folder = "cifar-10-batches-bin"
    archive = tar_gz({f"{folder}/{name}.bin": content for name, content in members})
    return {"cifar-10-binary.tar.gz": archive}


def cifar100() -> dict[str, bytes]:
    members = {
        "coarse_label_names.txt": b"fish\n",
        "train.bin": rows(COARSE, LABELS, X),
        "test.bin": rows(COARSE[:3], LABELS[:3], X_TEST),
    }
    named = {f"cifar-100-binary/{name}": content for name, content in members.items()}
    return {"cifar-100-binary.tar.gz": tar_gz(named)}


def subset() -> dict[str, bytes]:
    pixels = {"x_train": X.transpose(0, 2, 3, 1), "x_test": X_TEST.transpose(0, 2, 3, 1)}
    return {"cifar10_subset.npz": saved(np.savez, y_train=LABELS, y_test=LABELS[:3], **pixels)}


def svhn() -> dict[str, bytes]:
    """Its label 10 is the digit 0."""
    parts = {"train": (X, LABELS), "test": (X_TEST, LABELS[:3])}
    return {
        f"{part}_32x32.mat": saved(
            savemat, {"X": x.transpose(2, 3, 1, 0), "y": np.where(y, y, 10)[:, None]}
        )
        for part, (x, y) in parts.items()
    }


def stl10() -> dict[str, bytes]:
    """Planes by columns, labels from 1."""
    columns = SQUARE.transpose(0, 1, 3, 2).tobytes()
    labels = LABELS[:3].astype(np.uint8) + 1
    members = {f"{part}_{kind}": columns for part in ("test", "train") for kind in "X"}
    members |= {f"{part}_y": labels.tobytes() for part in ("test", "train")}
    members["unlabeled_X"] = b"never read"
    named = {f"stl10_binary/{name}.bin": content for name, content in members.items()}
    return {"stl10_binary.tar.gz": tar_gz(named)}


@pytest.mark.parametrize(
    ("name", "made", "train", "test", "n_classes"),
    [
        ("cifar10", cifar10, X, X_TEST, 10),
        ("cifar100", cifar100, X, X_TEST, 100),
        ("cifar10-subset", subset, X, X_TEST, 10),
        ("svhn", svhn, X, X_TEST, 10),
        ("stl10", stl10, SQUARE, SQUARE, 10),
    ],
)
def test_colour_images_have_their_pixels_and_labels(folders, name, made, train, test, n_classes):
    for file, content in made().items():
        folders.put(name, file, content)
    data = datasets.load(name)
    few = datasets.load(name, n_train=2, n_test=1)
    for part, x, n in (("train", train, 2), ("test", test, 1)):
        assert same_pixels(getattr(data, f"x_{part}"), x)
        assert same_pixels(getattr(few, f"x_{part}"), x[:n])
        assert getattr(data, f"y_{part}").tolist() == LABELS[: len(x)].tolist()
        assert getattr(few, f"y_{part}").tolist() == LABELS[:n].tolist()
    assert len(data.classes) == n_classes


def test_real_images(real):
    """Facts of the official files: numbers of images, of each class, first pixels, moments."""
    for name, mean, std in (("mnist", 0.13066, 0.30811), ("fashion-mnist", 0.28604, 0.35302)):
        real(name)
        data = datasets.load(name)
        assert (len(data.x_train), len(data.x_test)) == (60_000, 10_000)
        moments = data.x_train.double().mean().item(), data.x_train.double().std().item()
        assert moments == pytest.approx((mean, std), abs=6e-6)
    real("notmnist-small")
    assert torch.bincount(datasets.load("notmnist-small").y_test).tolist() == [1000] * 10
    real("cifar10-subset")
    few = datasets.load("cifar10-subset", 500, 100)
    assert (few.x_train[0, :, 0, 0] * 255).round().tolist() == [59, 62, 63]
