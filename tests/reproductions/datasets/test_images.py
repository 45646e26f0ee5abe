"""Loaders of images on made-up files of the official layouts, and on real data if present."""

from __future__ import annotations

import gzip
import io
import struct
import tarfile

import numpy as np
import pytest
import torch
from PIL import Image
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


def same_pixels(x: torch.Tensor, expected: np.ndarray) -> bool:
    assert x.dtype == torch.float32
    return np.array_equal(np.round(x.numpy() * 255), expected)  # bits: rounded to integers


def put_letters(folders, n: int = 20) -> np.ndarray:
    pixels = images(n, side=28)[:, 0]
    folders.put("_LETTERS", LETTERS[0], idx_gz(pixels))
    folders.put("_LETTERS", LETTERS[1], idx_gz(np.arange(n) % 10))
    return pixels


def test_letters_have_a_test_part_alone(folders):
    pixels = put_letters(folders)
    data = datasets.notmnist()
    assert data.x_train.shape == (0, 1, 28, 28)
    assert data.y_train.shape == (0,)
    assert same_pixels(data.x_test, pixels[:, None])
    assert data.y_test.dtype == torch.int64
    assert data.x_test.max() <= 1
    assert data.classes[data.y_test[3]] == "D"


@pytest.mark.filterwarnings("error")
def test_limits_take_the_first_rows_and_own_their_memory(folders):
    put_letters(folders)
    data = datasets.notmnist(n_test=5)
    torch.testing.assert_close(data.x_test, datasets.notmnist().x_test[:5])
    data.x_test[0] = 0  # a tensor of its own: writing to it is allowed
    assert datasets.notmnist().x_test[0].any()


@pytest.mark.parametrize(
    ("n", "error"), [(0, ValueError), (21, ValueError), (2.0, TypeError), (True, TypeError)]
)
def test_bad_limits(folders, n, error):
    put_letters(folders)
    with pytest.raises(error, match="n_test"):
        datasets.load("notmnist-small", n_test=n)


def test_a_name_that_is_none_is_answered_by_the_list():
    with pytest.raises(ValueError, match=r"no images called 'minst', only mnist, .*stl10"):
        datasets.load("minst")


def cifar10_archive(batches: list[np.ndarray], labels: list[np.ndarray]) -> bytes:
    names = [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]
    records = [
        np.concatenate([y[:, None], x.reshape(len(x), -1)], axis=1).astype(np.uint8).tobytes()
        for x, y in zip(batches, labels, strict=True)
    ]
    members = dict(zip((f"cifar-10-batches-bin/{n}" for n in names), records, strict=True))
    return tar_gz({"cifar-10-batches-bin/readme.html": b"", **members})


def test_cifar10(folders):
    batches = [images(4) for _ in range(6)]
    labels = [np.arange(4) + i for i in range(6)]
    folders.put("_CIFAR10", "cifar-10-binary.tar.gz", cifar10_archive(batches, labels))
    data = datasets.cifar10()
    assert same_pixels(data.x_train, np.concatenate(batches[:5]))
    assert same_pixels(data.x_test, batches[5])
    assert data.y_train.tolist() == np.concatenate(labels[:5]).tolist()
    assert data.classes[data.y_test[0]] == "dog"
    limited = datasets.cifar10(n_train=6, n_test=2)
    torch.testing.assert_close(limited.x_train, data.x_train[:6])
    torch.testing.assert_close(limited.y_test, data.y_test[:2])


def cifar100_archive(x, coarse, fine) -> bytes:
    rows = np.concatenate([coarse[:, None], fine[:, None], x.reshape(len(x), -1)], axis=1)
    return tar_gz(
        {
            "cifar-100-binary/coarse_label_names.txt": b"fish\nflowers\n",
            "cifar-100-binary/fine_label_names.txt": b"shark\ntrout\nrose\n\n",
            "cifar-100-binary/train.bin": rows.astype(np.uint8).tobytes(),
            "cifar-100-binary/test.bin": rows[::-1].astype(np.uint8).tobytes(),
        }
    )


def test_cifar100_has_the_fine_classes(folders):
    x, coarse, fine = images(3), np.array([0, 0, 1]), np.array([1, 0, 2])
    folders.put("_CIFAR100", "cifar-100-binary.tar.gz", cifar100_archive(x, coarse, fine))
    data = datasets.cifar100()
    assert same_pixels(data.x_train, x)
    assert same_pixels(data.x_test, x[::-1])
    assert [data.classes[y] for y in data.y_train] == ["trout", "shark", "rose"]


def test_cifar10_subset_npz(folders):
    x_train, x_test = images(3), images(2)
    buffer = io.BytesIO()
    np.savez(
        buffer,
        x_train=x_train.transpose(0, 2, 3, 1),
        y_train=np.array([9, 0, 1], np.uint8),
        x_test=x_test.transpose(0, 2, 3, 1),
        y_test=np.array([5, 5], np.uint8),
    )
    folders.put("_SUBSET", "cifar10_subset.npz", buffer.getvalue())
    data = datasets.cifar10_subset()
    assert same_pixels(data.x_train, x_train)
    assert same_pixels(data.x_test, x_test)
    assert data.y_train.tolist() == [9, 0, 1]


def jpeg_npz(pixels: np.ndarray) -> bytes:
    """pixels (N, 32, 32, 3)."""
    files = []
    for image in pixels:
        buffer = io.BytesIO()
        Image.fromarray(image).save(buffer, "JPEG", quality=75)
        files.append(np.frombuffer(buffer.getvalue(), np.uint8))
    stream = np.concatenate(files)
    offsets = np.concatenate([[0], np.cumsum([len(f) for f in files])]).astype(np.int64)
    y = np.arange(len(files), dtype=np.uint8)
    arrays = {f"{p}_jpeg": stream for p in ("train", "test")}
    arrays |= {f"{p}_offsets": offsets for p in ("train", "test")}
    arrays |= {f"y_{p}": y for p in ("train", "test")}
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def flat_colours(n: int) -> np.ndarray:
    """Images of one colour each: JPEG keeps those to within a few grey levels."""
    return np.broadcast_to(
        GENERATOR.integers(0, 256, (n, 1, 1, 3), np.uint8), (n, 32, 32, 3)
    ).copy()


def test_cifar10_jpeg(folders):
    pixels = flat_colours(4)
    folders.put("_JPEG", "cifar10_jpeg.npz", jpeg_npz(pixels))
    data = datasets.cifar10_jpeg(n_train=2)
    assert data.x_train.shape == (2, 3, 32, 32)
    assert data.x_test.shape == (4, 3, 32, 32)
    expected = torch.from_numpy(pixels.transpose(0, 3, 1, 2) / 255).float()
    torch.testing.assert_close(data.x_test, expected, atol=5 / 255, rtol=0)
    torch.testing.assert_close(data.x_train, data.x_test[:2])
    assert data.y_test.tolist() == [0, 1, 2, 3]


def mat_bytes(x: np.ndarray, y) -> bytes:
    buffer = io.BytesIO()
    savemat(buffer, {"X": x, "y": np.asarray(y)[:, None]}, do_compression=True)
    return buffer.getvalue()


def put_svhn(folders, x, y) -> None:
    for part in ("train", "test"):
        folders.put("_SVHN", f"{part}_32x32.mat", mat_bytes(x.transpose(2, 3, 1, 0), y))


def test_svhn(folders):
    x = images(3)
    put_svhn(folders, x, [10, 1, 9])
    data = datasets.svhn()
    assert same_pixels(data.x_train, x)
    assert data.y_train.tolist() == [0, 1, 9]
    assert [data.classes[y] for y in data.y_test] == ["0", "1", "9"]
    assert same_pixels(datasets.svhn(n_train=2).x_train, x[:2])


def stl10_archive(x: np.ndarray, y) -> bytes:
    pixels, labels = x.transpose(0, 1, 3, 2).tobytes(), np.asarray(y, np.uint8).tobytes()
    return tar_gz(
        {
            "stl10_binary/test_X.bin": pixels,
            "stl10_binary/test_y.bin": labels,
            "stl10_binary/train_X.bin": pixels,
            "stl10_binary/train_y.bin": labels,
            "stl10_binary/unlabeled_X.bin": b"never read",
        }
    )


def test_stl10_planes_are_stored_by_columns(folders):
    x = images(3, side=96)
    folders.put("_STL10", "stl10_binary.tar.gz", stl10_archive(x, [1, 10, 4]))
    data = datasets.stl10()
    assert same_pixels(data.x_train, x)
    assert [data.classes[y] for y in data.y_train] == ["airplane", "truck", "cat"]
    assert same_pixels(datasets.stl10(n_test=1).x_test, x[:1])


def test_the_real_subset(real):
    real("cifar10-subset")
    data = datasets.cifar10_subset()
    assert torch.bincount(data.y_train).tolist() == [
        396,
        366,
        420,
        384,
        422,
        393,
        414,
        385,
        407,
        413,
    ]
    assert torch.bincount(data.y_test).tolist() == [103, 89, 100, 103, 90, 86, 112, 102, 106, 109]
    assert (data.x_train[0, :, 0, 0] * 255).round().tolist() == [59, 62, 63]
    assert (data.x_test[0, :, 0, 0] * 255).round().tolist() == [158, 112, 49]


def test_the_real_jpegs_are_the_same_images_30_db_away(real):
    real("cifar10-subset")
    real("cifar10-jpeg")
    exact = datasets.cifar10_subset(n_train=500, n_test=100)
    lossy = datasets.cifar10_jpeg(n_train=500, n_test=100)
    for part in ("train", "test"):
        torch.testing.assert_close(getattr(exact, f"y_{part}"), getattr(lossy, f"y_{part}"))
        error = getattr(exact, f"x_{part}") - getattr(lossy, f"x_{part}")
        psnr = -10 * error.square().mean(dim=(1, 2, 3)).log10()
        assert psnr.min() > 23
        assert psnr.mean().item() == pytest.approx(30.5, abs=0.5)


@pytest.mark.parametrize(
    ("name", "mean", "std"), [("mnist", 0.13066, 0.30811), ("fashion-mnist", 0.28604, 0.35302)]
)
def test_the_real_grey_sets(real, name, mean, std):
    real(name)
    data = datasets.load(name)
    assert data.x_train.shape == (60000, 1, 28, 28)
    assert data.x_test.shape == (10000, 1, 28, 28)
    assert data.x_train.double().mean().item() == pytest.approx(mean, abs=6e-6)
    assert data.x_train.double().std().item() == pytest.approx(std, abs=6e-6)
    assert len(data.y_train.unique()) == len(data.classes) == 10  # bits: integers


def test_real_letters(real):
    real("notmnist-small")
    data = datasets.notmnist()
    assert torch.bincount(data.y_test).tolist() == [1000] * 10
    assert data.x_test.double().mean().item() == pytest.approx(0.42662, abs=6e-6)
