"""Images from the official files, and two stand-ins for CIFAR-10: a source and a loader for each.

Loaders take ``n_train`` and ``n_test``: the first images of a part, all of them if ``None``.
"""

from __future__ import annotations

import gzip
import io
import itertools
import tarfile
from pathlib import Path

import numpy as np
import torch

from bdl_lessons.core.validation import typechecked
from bdl_lessons.datasets.containers import Classification, first_n
from reproductions.datasets.files import Source, fetch

DIGITS = tuple("0123456789")
CLOTHES = (
    *("T-shirt/top", "trouser", "pullover", "dress", "coat"),
    *("sandal", "shirt", "sneaker", "bag", "ankle boot"),
)
CAFFE_SCALE = 255 / 256
"""On pixels in [0, 1]: the bytes divided by 256, as Caffe and many papers have them, not by 255."""

_Part = tuple[torch.Tensor, torch.Tensor]


def _part(images: np.ndarray, labels: np.ndarray, n: int | None) -> _Part:
    """The first ``n`` images as float32 in [0, 1] and labels as int64, from bytes ``(N, C, H, W)``.

    Raises:
        ValueError, TypeError: if ``n`` is not an integer between 1 and N.
    """
    n = first_n(n, len(images))
    pixels = torch.from_numpy(np.ascontiguousarray(images[:n], np.float32)).div_(255)
    return pixels, torch.from_numpy(labels[:n].astype(np.int64))


# ------------------------------------------------------------------------------- idx: grey, 28×28

_MNIST = Source(
    "mnist",
    "MNIST (LeCun et al. 1998; usually given as CC BY-SA 3.0)",
    {
        "train-images-idx3-ubyte.gz": "sha256:"
        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        "train-labels-idx1-ubyte.gz": "sha256:"
        "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        "t10k-images-idx3-ubyte.gz": "sha256:"
        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        "t10k-labels-idx1-ubyte.gz": "sha256:"
        "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    },
    (
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
        "http://yann.lecun.com/exdb/mnist/",
    ),
)
_FASHION = Source(
    "fashion-mnist",
    "Fashion-MNIST (Xiao, Rasul and Vollgraf, arXiv:1708.07747; MIT, (c) 2017 Zalando SE)",
    {
        "train-images-idx3-ubyte.gz": "sha256:"
        "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
        "train-labels-idx1-ubyte.gz": "sha256:"
        "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
        "t10k-images-idx3-ubyte.gz": "sha256:"
        "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
        "t10k-labels-idx1-ubyte.gz": "sha256:"
        "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
    },
    (
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
    ),
)
_LETTERS = Source(
    "notmnist-small",
    "notMNIST (Bulatov 2011, no licence stated; sample of davidflanagan/notMNIST-to-MNIST)",
    {
        "t10k-images-idx3-ubyte.gz": "sha256:"
        "70ae9e06201f2827e5b0a3781a3169d735dd2efc69996b9eeaee7f10ed4044d7",
        "t10k-labels-idx1-ubyte.gz": "sha256:"
        "1fa03836e01c862542f8eb83463bb951bebec6fcb3efa28dad748c6b38a9021b",
    },
    ("https://raw.githubusercontent.com/davidflanagan/notMNIST-to-MNIST/master/",),
)


@typechecked
def mnist(n_train: int | None = None, n_test: int | None = None) -> Classification:
    """MNIST: x ``(60000, 1, 28, 28)`` and ``(10000, 1, 28, 28)``."""
    train, test = _idx_part(_MNIST, "train", n_train), _idx_part(_MNIST, "t10k", n_test)
    return Classification("mnist", *train, *test, DIGITS)


@typechecked
def fashion_mnist(n_train: int | None = None, n_test: int | None = None) -> Classification:
    """Fashion-MNIST: x ``(60000, 1, 28, 28)`` and ``(10000, 1, 28, 28)``."""
    train, test = _idx_part(_FASHION, "train", n_train), _idx_part(_FASHION, "t10k", n_test)
    return Classification("fashion-mnist", *train, *test, CLOTHES)


@typechecked
def notmnist(n_test: int | None = None) -> Classification:
    """notMNIST, 1000 of each letter A–J: x_test ``(10000, 1, 28, 28)``, no training images.

    It is there to be out of distribution for a network trained on MNIST.
    """
    x, y = _idx_part(_LETTERS, "t10k", n_test)
    return Classification("notmnist-small", x[:0], y[:0], x, y, tuple("ABCDEFGHIJ"))


def _idx_part(source: Source, part: str, n: int | None) -> _Part:
    images = _read_idx(fetch(source, f"{part}-images-idx3-ubyte.gz"))
    return _part(images[:, None], _read_idx(fetch(source, f"{part}-labels-idx1-ubyte.gz")), n)


def _read_idx(path: Path) -> np.ndarray:
    """A header, then the array in C order. The header has two zero bytes, the type (8: bytes), the
    number of dimensions, and each dimension as a big-endian 32-bit integer.
    """
    content = gzip.decompress(path.read_bytes())
    start = 4 + 4 * content[3]
    return np.frombuffer(content, np.uint8, offset=start).reshape(
        np.frombuffer(content[4:start], ">u4")
    )


# ----------------------------------------------------------------------------------------- colour

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
STL_CLASSES = ("airplane", "bird", "car", "cat", "deer", "dog", "horse", "monkey", "ship", "truck")
_KRIZHEVSKY = "Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009"
_TORONTO = ("https://www.cs.toronto.edu/~kriz/",)
_CIFAR10 = Source(
    "cifar10",
    f"CIFAR-10, binary version ({_KRIZHEVSKY}; no licence stated)",
    {"cifar-10-binary.tar.gz": "md5:c32a1d4ab5d03f1284b67883e8d87530"},
    _TORONTO,
)
_CIFAR100 = Source(
    "cifar100",
    f"CIFAR-100, binary version ({_KRIZHEVSKY}; no licence stated)",
    {"cifar-100-binary.tar.gz": "md5:03b5dce01913d631647c71ecec9e9cb8"},
    _TORONTO,
)
_SUBSET = Source(
    "cifar10-subset",
    f"the first 4000 + 1000 images of CIFAR-10 ({_KRIZHEVSKY})",
    {
        "cifar10_subset.npz": "sha256:"
        "5e81f99fe5af185b32d0cb5efbf72c956a858f8e684fdfba6995f9e197878f5c"
    },
    note="Made from public PNG copies, in no public place: use 'cifar10' with n_train=4000, "
    "n_test=1000 for the same images.",
)
_JPEG = Source(
    "cifar10-jpeg",
    f"CIFAR-10 after lossy JPEG compression ({_KRIZHEVSKY})",
    {"cifar10_jpeg.npz": "sha256:d18053244b3721e5daa26c0b71e1b71193e233142a9840e12bbf7c1c6c667db9"},
    note="Made from public JPEG copies, in no public place: use 'cifar10' instead.",
)
_SVHN = Source(
    "svhn",
    "SVHN (Netzer et al. 2011; for non-commercial use)",
    {
        "train_32x32.mat": "md5:e26dedcc434d2e4c54c9b2d4a06d8373",
        "test_32x32.mat": "md5:eb5a983be6a315427106f1b164d9cef3",
    },
    ("http://ufldl.stanford.edu/housenumbers/",),
)
_STL10 = Source(
    "stl10",
    "STL-10, binary version, 2.6 GB (Coates, Lee and Ng 2011; images from ImageNet)",
    {"stl10_binary.tar.gz": "md5:91f7769df0f17e558f3565bffb0c7dfb"},
    ("http://ai.stanford.edu/~acoates/stl10/",),
)


@typechecked
def cifar10(n_train: int | None = None, n_test: int | None = None) -> Classification:
    """CIFAR-10: x ``(50000, 3, 32, 32)`` and ``(10000, 3, 32, 32)``, RGB, official order.

    From the binary version, whose records are a label and the three planes of pixels. The better
    known "python version" holds pickles, which can run any code when read.
    """
    folder, path = "cifar-10-batches-bin", fetch(_CIFAR10, "cifar-10-binary.tar.gz")
    names = [f"{folder}/data_batch_{i}.bin" for i in range(1, 6)]
    *train, test = _members(path, *names, f"{folder}/test_batch.bin")
    parts = _cifar_part(b"".join(train), 1, n_train), _cifar_part(test, 1, n_test)
    return Classification("cifar10", *parts[0], *parts[1], CLASSES)


@typechecked
def cifar100(n_train: int | None = None, n_test: int | None = None) -> Classification:
    """CIFAR-100: x ``(50000, 3, 32, 32)`` and ``(10000, 3, 32, 32)``; the 100 fine classes."""
    names = [f"cifar-100-binary/{n}" for n in ("train.bin", "test.bin", "fine_label_names.txt")]
    train, test, classes = _members(fetch(_CIFAR100, "cifar-100-binary.tar.gz"), *names)
    parts = _cifar_part(train, 2, n_train), _cifar_part(test, 2, n_test)
    return Classification("cifar100", *parts[0], *parts[1], tuple(classes.decode().split()))


@typechecked
def stl10(n_train: int | None = None, n_test: int | None = None) -> Classification:
    """STL-10: x ``(5000, 3, 96, 96)`` and ``(8000, 3, 96, 96)``, RGB.

    The file stores each plane column by column, and labels 1 to 10.
    """
    names = [f"stl10_binary/{part}_{kind}.bin" for part in ("train", "test") for kind in "Xy"]
    content = _members(fetch(_STL10, "stl10_binary.tar.gz"), *names)
    arrays = [np.frombuffer(one, np.uint8) for one in content]
    parts = [
        _part(x.reshape(-1, 3, 96, 96).transpose(0, 1, 3, 2), y - 1, n)
        for x, y, n in ((*arrays[:2], n_train), (*arrays[2:], n_test))
    ]
    return Classification("stl10", *parts[0], *parts[1], STL_CLASSES)


@typechecked
def svhn(n_train: int | None = None, n_test: int | None = None) -> Classification:
    """SVHN: x ``(73257, 3, 32, 32)`` and ``(26032, 3, 32, 32)``, RGB; label = the digit.

    The file's label 10 stands for the digit 0 and becomes class 0. The 531131 "extra" images are
    not used.
    """
    from scipy.io import loadmat

    files = (loadmat(fetch(_SVHN, f"{part}_32x32.mat")) for part in ("train", "test"))
    parts = [
        _part(file["X"].transpose(3, 2, 0, 1), file["y"].ravel() % 10, n)
        for file, n in zip(files, (n_train, n_test), strict=True)
    ]
    return Classification("svhn", *parts[0], *parts[1], DIGITS)


@typechecked
def cifar10_subset(n_train: int | None = None, n_test: int | None = None) -> Classification:
    """The first 4000 training and 1000 test images of CIFAR-10, exact pixels."""
    with np.load(fetch(_SUBSET, "cifar10_subset.npz")) as file:
        parts = [
            _part(file[f"x_{part}"].transpose(0, 3, 1, 2), file[f"y_{part}"], n)
            for part, n in (("train", n_train), ("test", n_test))
        ]
    return Classification("cifar10-subset", *parts[0], *parts[1], CLASSES)


@typechecked
def cifar10_jpeg(n_train: int | None = None, n_test: int | None = None) -> Classification:
    """All of CIFAR-10 after JPEG compression of quality 75: full size, but lossy.

    The pixels are not the official ones (mean PSNR 30.5 dB against them): numbers obtained on this
    set must not be compared with published ones.
    """
    from PIL import Image

    with np.load(fetch(_JPEG, "cifar10_jpeg.npz")) as archive:
        file = dict(archive)
    parts = []
    for part, n in (("train", n_train), ("test", n_test)):
        stream, labels = file[f"{part}_jpeg"].tobytes(), file[f"y_{part}"]
        cuts = itertools.pairwise(file[f"{part}_offsets"][: first_n(n, len(labels)) + 1])
        images = [np.asarray(Image.open(io.BytesIO(stream[i:j]))) for i, j in cuts]
        parts.append(_part(np.stack(images).transpose(0, 3, 1, 2), labels[: len(images)], None))
    return Classification("cifar10-jpeg", *parts[0], *parts[1], CLASSES)


def _cifar_part(content: bytes, n_labels: int, n: int | None) -> _Part:
    """Records of the labels (CIFAR-100: coarse, then fine) and the planes red, green, blue."""
    rows = np.frombuffer(content, np.uint8).reshape(-1, n_labels + 3 * 32 * 32)
    return _part(rows[:, n_labels:].reshape(-1, 3, 32, 32), rows[:, n_labels - 1], n)


def _members(path: Path, *wanted: str) -> list[bytes]:
    """The content of files inside a ``.tar.gz``, read without unpacking it to disk.

    Reading stops at the last wanted file: what follows in STL-10 are 2.7 GB of unlabelled images.
    """
    content: dict[str, bytes] = {}
    with tarfile.open(path, "r|gz") as archive:
        for member in archive:
            name = member.name.removeprefix("./")
            if name in wanted:
                content[name] = archive.extractfile(member).read()
            if len(content) == len(wanted):
                break
    return [content[name] for name in wanted]
