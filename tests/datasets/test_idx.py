from __future__ import annotations

import gzip

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from bdl_lessons import datasets
from bdl_lessons.datasets import DatasetCorrupt
from bdl_lessons.datasets.idx import read_idx

from .conftest import gzipped, idx_bytes, sha256

IMAGES, LABELS = "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"


def put_letters(folders, images: np.ndarray, labels: np.ndarray) -> None:
    folders.put("notmnist-small", IMAGES, gzipped(idx_bytes(images)))
    folders.put("notmnist-small", LABELS, gzipped(idx_bytes(labels)))


def made_up(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    return generator.integers(0, 256, (n, 28, 28), np.uint8), (np.arange(n) % 10).astype(np.uint8)


@given(
    array=arrays(np.uint8, array_shapes(min_dims=1, max_dims=4, max_side=6)), packed=st.booleans()
)
def test_what_was_written_is_read(tmp_path_factory, array, packed):
    path = tmp_path_factory.mktemp("idx") / ("a-ubyte.gz" if packed else "a-ubyte")
    path.write_bytes(gzipped(idx_bytes(array)) if packed else idx_bytes(array))
    np.testing.assert_array_equal(read_idx(path), array)  # bits: integers


def test_pixels_labels_and_order(folders):
    images, labels = made_up(20)
    put_letters(folders, images, labels)
    data = datasets.notmnist()
    assert data.x_train.shape == (0, 1, 28, 28)
    assert data.y_train.shape == (0,)
    assert data.x_test.dtype == torch.float32
    assert data.y_test.dtype == torch.int64
    pixels = np.round(data.x_test[:, 0].numpy() * 255)
    np.testing.assert_array_equal(pixels, images)  # bits: rounded to integers
    assert data.x_test.max() <= 1
    assert data.classes[data.y_test[3]] == "D"


@pytest.mark.filterwarnings("error")
def test_limits_take_the_first_rows_and_own_their_memory(folders):
    images, labels = made_up(20)
    put_letters(folders, images, labels)
    data = datasets.notmnist(n_test=5)
    torch.testing.assert_close(data.x_test, datasets.notmnist().x_test[:5])
    data.x_test[0] = 0  # a tensor of its own: writing to it is allowed
    assert datasets.notmnist().x_test[0].any()


@pytest.mark.parametrize(
    ("n", "error"), [(0, ValueError), (21, ValueError), (2.0, TypeError), (True, TypeError)]
)
def test_bad_limits(folders, n, error):
    put_letters(folders, *made_up(20))
    with pytest.raises(error, match="n_test"):
        datasets.notmnist(n_test=n)


def test_an_unpacked_file_is_checked_against_the_hash_of_the_content(folders):
    images, labels = (idx_bytes(a) for a in made_up(20))
    for file, content in ((IMAGES, images), (LABELS, labels)):
        folders.register(
            "notmnist-small", file, hash=sha256(gzipped(content)), unpacked_hash=sha256(content)
        )
        folders.place("notmnist-small", file.removesuffix(".gz"), content)
    assert len(datasets.notmnist().x_test) == 20
    folders.place("notmnist-small", LABELS.removesuffix(".gz"), labels[:-1])
    with pytest.raises(DatasetCorrupt, match=sha256(labels)):
        datasets.notmnist()


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda b: b[: len(b) // 2], "EOFError"),
        (lambda b: b[:4], "EOFError|BadGzipFile"),
        (lambda b: b"", "starts with 0 0 8"),
        (lambda b: b"<html>404</html>", "Not a gzipped file"),
        (lambda b: gzipped(b"\x80\x04pickle"), "starts with 0 0 8"),
        (lambda b: gzipped(gzip.decompress(b)[:-1]), "promises"),
        (lambda b: gzipped(gzip.decompress(b) + b"\0"), "promises"),
        (lambda b: gzipped(gzip.decompress(b)[:6]), "."),
        (lambda b: gzipped(b"\0\0\x0d" + gzip.decompress(b)[3:]), "starts with 0 0 8"),
    ],
    ids=[
        "truncated",
        "cut in header",
        "empty",
        "html",
        "magic",
        "short",
        "long",
        "no dims",
        "floats",
    ],
)
def test_damaged_files_are_named(folders, damage, said):
    put_letters(folders, *made_up(20))
    path = folders.put("notmnist-small", IMAGES, damage(gzipped(idx_bytes(made_up(20)[0]))))
    with pytest.raises(DatasetCorrupt, match=said) as caught:
        datasets.notmnist()
    assert str(path) in str(caught.value)


def test_a_label_out_of_range(folders):
    images, labels = made_up(20)
    labels[7] = 10
    put_letters(folders, images, labels)
    with pytest.raises(DatasetCorrupt, match=r"0\.\.9, found 0\.\.10") as caught:
        datasets.notmnist(n_test=3)
    assert LABELS in str(caught.value)


def test_more_images_than_labels(folders):
    put_letters(folders, made_up(20)[0], made_up(19)[1])
    with pytest.raises(DatasetCorrupt, match="20 images but 19 labels"):
        datasets.notmnist()


def test_labels_where_images_should_be(folders):
    folders.put("notmnist-small", IMAGES, gzipped(idx_bytes(made_up(20)[1])))
    folders.put("notmnist-small", LABELS, gzipped(idx_bytes(made_up(20)[1])))
    with pytest.raises(DatasetCorrupt, match="expected images and labels"):
        datasets.notmnist()


@pytest.mark.parametrize(
    ("name", "loader", "mean", "std"),
    [
        ("mnist", datasets.mnist, 0.13066, 0.30811),
        ("fashion-mnist", datasets.fashion_mnist, 0.28604, 0.35302),
    ],
)
def test_the_real_sets(real, name, loader, mean, std):
    real(name)
    data = loader()
    assert data.x_train.shape == (60000, 1, 28, 28)
    assert data.x_test.shape == (10000, 1, 28, 28)
    assert data.x_train.double().mean().item() == pytest.approx(mean, abs=6e-6)
    assert data.x_train.double().std().item() == pytest.approx(std, abs=6e-6)
    assert len(data.y_train.unique()) == len(data.classes) == 10  # bits: integers


def test_real_notmnist(real):
    real("notmnist-small")
    data = datasets.notmnist()
    assert torch.bincount(data.y_test).tolist() == [1000] * 10
    assert data.x_test.double().mean().item() == pytest.approx(0.42662, abs=6e-6)
