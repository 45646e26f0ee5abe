"""Loaders of images on made-up files of the official layouts, and on real data if present."""

from __future__ import annotations

import gzip
import io
import struct
import tarfile
from dataclasses import replace

import numpy as np
import PIL.Image
import pytest
import torch
from scipy.io import savemat

from reproductions import datasets
from reproductions.datasets.images import SETS

GENERATOR = np.random.default_rng(0)
LETTER_IMAGES = "t10k-images-idx3-ubyte.gz"
LETTER_LABELS = "t10k-labels-idx1-ubyte.gz"


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
    folders.put("notmnist-small", LETTER_IMAGES, idx_gz(pixels))
    folders.put("notmnist-small", LETTER_LABELS, idx_gz(np.arange(n) % 10))
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
    ("name", "new_files", "train", "test", "n_classes"),
    [
        ("cifar10", cifar10, X, X_TEST, 10),
        ("cifar100", cifar100, X, X_TEST, 100),
        ("svhn", svhn, X, X_TEST, 10),
        ("stl10", stl10, SQUARE, SQUARE, 10),
    ],
)
def test_colour_images_have_their_pixels_and_labels(
    folders, name, new_files, train, test, n_classes
):
    for file, content in new_files().items():
        folders.put(name, file, content)
    data = datasets.load(name)
    assert same_pixels(data.x_train, train)
    assert same_pixels(data.x_test, test)
    assert data.y_train.tolist() == LABELS[: len(train)].tolist()
    assert data.y_test.tolist() == LABELS[: len(test)].tolist()
    assert len(data.classes) == n_classes
    few = datasets.load(name, n_train=2, n_test=1)
    assert same_pixels(few.x_train, train[:2])
    assert same_pixels(few.x_test, test[:1])
    assert few.y_train.tolist() == LABELS[:2].tolist()
    assert few.y_test.tolist() == LABELS[:1].tolist()


def sheet(pixels: np.ndarray, n_columns: int) -> bytes:
    """A lossless picture of ``(N, 3, 32, 32)``, line by line, ``n_columns`` images to a line."""
    lines = [np.concatenate(line, axis=2) for line in np.split(pixels, len(pixels) // n_columns)]
    picture = np.concatenate(lines, axis=1).transpose(1, 2, 0)
    return saved(PIL.Image.fromarray(picture).save, "WEBP", lossless=True)


@pytest.mark.parametrize(("name", "n_train_sheets"), [("cifar10-sheets", 2), ("svhn-sheets", 0)])
def test_sheets_are_read_line_by_line_in_the_order_of_their_numbers(folders, name, n_train_sheets):
    """Two sheets of twelve for each part, also where there are labels of more images."""
    n_images = 24
    pixels = {part: images(n_images) for part in ("train", "test")}
    labels = {part: np.arange(n_images + 6) % 10 for part in pixels}
    source = replace(SETS[name], files={})
    folders.monkeypatch.setitem(SETS, name, source)
    n_sheets = {"train": n_train_sheets, "test": 2}
    for part, n in n_sheets.items():
        for k in reversed(range(n)):
            shown = pixels[part][12 * k : 12 * (k + 1)]
            folders.put(name, f"{part}_{k:02d}.webp", sheet(shown, n_columns=4))
    arrays = {f"y_{part}": values for part, values in labels.items()}
    folders.put(name, "labels.npz", saved(np.savez, **arrays))
    data = datasets.load(name, n_test=13)
    n_train = 12 * n_train_sheets
    assert same_pixels(data.x_train, pixels["train"][:n_train])
    assert data.y_train.tolist() == labels["train"][:n_train].tolist()
    assert same_pixels(data.x_test, pixels["test"][:13])
    assert data.y_test.tolist() == labels["test"][:13].tolist()
    with pytest.raises(ValueError, match=r"n_test must .*24"):
        datasets.load(name, n_test=25)


def test_every_sheet_has_a_digest():
    """The sheets of a set are those of its folder, the subset's the first of CIFAR-10."""
    whole = SETS["cifar10-sheets"].files
    subset = SETS["cifar10-subset"].files
    assert len(whole) == 50 + 10 + 1
    assert subset.items() < whole.items()
    assert {len(digest) for digest in whole.values()} == {64}


def test_real_images(real):
    """Facts of the official files: numbers of images, of each class, first pixels, moments."""
    for name, mean, std in (("mnist", 0.13066, 0.30811), ("fashion-mnist", 0.28604, 0.35302)):
        real(name)
        data = datasets.load(name)
        assert len(data.x_train) == 60_000
        assert len(data.x_test) == 10_000
        pixels = data.x_train.double()
        assert pixels.mean().item() == pytest.approx(mean, abs=6e-6)
        assert pixels.std().item() == pytest.approx(std, abs=6e-6)
    real("notmnist-small")
    assert torch.bincount(datasets.load("notmnist-small").y_test).tolist() == [1000] * 10
    real("cifar10")
    few = datasets.load("cifar10-subset")
    assert len(few.x_train) == 4000
    assert len(few.x_test) == 1000
    assert (few.x_train[0, :, 0, 0] * 255).round().tolist() == [59, 62, 63]
    assert (few.x_test[0, :, 0, 0] * 255).round().tolist() == [158, 112, 49]
    counts = [396, 366, 420, 384, 422, 393, 414, 385, 407, 413]
    assert torch.bincount(few.y_train).tolist() == counts
    real("cifar100")
    fine = datasets.load("cifar100-sheets")
    assert torch.bincount(fine.y_test).tolist() == [100] * 100
    real("svhn")
    means = datasets.load("svhn-sheets").x_test.double().mean((0, 2, 3))
    assert means.tolist() == pytest.approx([0.4537, 0.4538, 0.4702], abs=6e-5)
