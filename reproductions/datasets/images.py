"""Images from the official files, or from sheets of pictures: a record for each in ``SETS``."""

import gzip
import tarfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import PIL.Image
import torch
from scipy.io import loadmat

from bdl_lessons.core.validation import typechecked
from bdl_lessons.datasets.containers import Classification, first_n
from reproductions.datasets.files import Source, fetch

CAFFE_SCALE = 255 / 256
"""On pixels in [0, 1]: the bytes divided by 256, as Caffe and many papers have them, not by 255."""

SIDE = 32
"""Pixels of a side of the images on sheets."""
LABELS = "labels.npz"
DIGESTS = Path(__file__).with_name("sheets.sha256")
"""The SHA-256 of every sheet, as ``sha256sum`` writes them."""

Rows = tuple[np.ndarray, np.ndarray]
"""Images as bytes, ``(N, C, H, W)``, and labels, ``(N,)``."""


@dataclass(frozen=True)
class Images(Source):
    """A set of images with labels.

    Attributes:
        name: what it is called in ``SETS``; that of its folder if empty.
        read: the source, and ``"train"`` or ``"test"``, to the rows of that part.
    """

    name: str = field(default="", kw_only=True)
    read: Callable[["Images", str], Rows] = field(kw_only=True)
    n_classes: int = field(default=10, kw_only=True)


@typechecked
def load(name: str, n_train: int | None = None, n_test: int | None = None) -> Classification:
    """The images called ``name``: the first ones of each part, all of them if ``None``.

    Raises ValueError if there are no such images, or ``n_train`` or ``n_test`` is not between 1 and
    what there is; DatasetError if they cannot be had.
    """
    if name not in SETS:
        raise ValueError(f"there are no images called {name!r}, only {', '.join(SETS)}")
    source = SETS[name]
    x_train, y_train = _first_rows(source, "train", n_train)
    x_test, y_test = _first_rows(source, "test", n_test)
    classes = tuple(str(label) for label in range(source.n_classes))
    return Classification(name, x_train, y_train, x_test, y_test, classes)


def _first_rows(source: "Images", part: str, n: int | None) -> tuple[torch.Tensor, torch.Tensor]:
    """Pixels in [0, 1] and labels of the first ``n`` images of a part, all for ``None``."""
    images, labels = source.read(source, part)
    n = first_n(n, len(labels))
    pixels = np.ascontiguousarray(images[:n], np.float32)
    return torch.from_numpy(pixels).div_(255), torch.from_numpy(labels[:n].astype(np.int64))


def _idx_files(*digests: str) -> dict[str, str]:
    """The names of MNIST's files and their SHA-256; of two digests those of the test part."""
    parts = ("train", "t10k")
    kinds = ("images-idx3", "labels-idx1")
    names = [f"{part}-{kind}-ubyte.gz" for part in parts for kind in kinds]
    return dict(zip(names[-len(digests) :], digests, strict=True))


def _idx(source: Images, part: str) -> Rows:
    """MNIST's format: a header, then the array in C order. The header has two zero bytes, the type
    (8: bytes), the number of dimensions, and each dimension as a big-endian 32-bit integer."""
    prefix = {"train": "train", "test": "t10k"}[part]
    rows = [np.empty((0, 28, 28), np.uint8), np.empty(0, np.uint8)]  # notMNIST has none to train on
    for k, name in enumerate(name for name in source.files if name.startswith(prefix)):
        content = gzip.decompress(fetch(source, name).read_bytes())
        start = 4 + 4 * content[3]
        shape = np.frombuffer(content[4:start], ">u4")
        rows[k] = np.frombuffer(content, np.uint8, offset=start).reshape(shape)
    return rows[0][:, None], rows[1]


def _cifar(source: Images, part: str) -> Rows:
    """The binary version: records of labels (CIFAR-100: coarse, then fine) and three planes.

    The better known "python version" holds pickles, which can run any code when read.
    """
    if source.folder == "cifar10":
        batches = {"train": [f"data_batch_{i}" for i in range(1, 6)], "test": ["test_batch"]}[part]
        names = [f"cifar-10-batches-bin/{name}.bin" for name in batches]
        n_labels = 1
    else:
        names = [f"cifar-100-binary/{part}.bin"]
        n_labels = 2
    rows = np.concatenate(_members(source, names)).reshape(-1, n_labels + 3 * 32 * 32)
    return rows[:, n_labels:].reshape(-1, 3, 32, 32), rows[:, n_labels - 1]


def _stl10(source: Images, part: str) -> Rows:
    """The file stores each plane column by column, and labels 1 to 10."""
    x, y = _members(source, [f"stl10_binary/{part}_{kind}.bin" for kind in "Xy"])
    return x.reshape(-1, 3, 96, 96).transpose(0, 1, 3, 2), y - 1


def _members(source: Images, wanted: list[str]) -> list[np.ndarray]:
    """The bytes of files inside the ``.tar.gz`` of a source, read without unpacking it to disk.

    Reading stops at the last wanted file: what follows in STL-10 are 2.7 GB of unlabelled images.
    """
    content: dict[str, np.ndarray] = {}
    with tarfile.open(fetch(source, *source.files), "r|gz") as archive:
        for member in archive:
            name = member.name.removeprefix("./")
            if name in wanted:
                content[name] = np.frombuffer(archive.extractfile(member).read(), np.uint8)
            if len(content) == len(wanted):
                break
    return [content[name] for name in wanted]


def _svhn(source: Images, part: str) -> Rows:
    """Label 10 stands for the digit 0 and becomes class 0. The 531131 "extra" images are left."""
    file = loadmat(fetch(source, f"{part}_32x32.mat"))
    return file["X"].transpose(3, 2, 0, 1), file["y"].ravel() % 10


def _sheets(source: Images, part: str) -> Rows:
    """Sheets of 25 rows of 40 images, in official order, and the labels of all of them.

    A part without a sheet has no images. Where a source names the first sheets alone, it has the
    first images alone.
    """
    names = sorted(name for name in source.files if name.startswith(f"{part}_"))
    images = [np.empty((0, 3, 32, 32), np.uint8)]
    images += [_images_on_sheet(fetch(source, name)) for name in names]
    pixels = np.concatenate(images)
    with np.load(fetch(source, LABELS)) as labels:
        known = labels[f"y_{part}"] if names else np.empty(0, np.uint8)
    return pixels, known[: len(pixels)]


def _images_on_sheet(path: Path) -> np.ndarray:
    """The images of a sheet, line by line: ``(1000, 3, 32, 32)``."""
    with PIL.Image.open(path) as picture:
        pixels = np.asarray(picture.convert("RGB"))
    lines, columns = (length // SIDE for length in pixels.shape[:2])
    cells = pixels.reshape(lines, SIDE, columns, SIDE, 3)
    return cells.transpose(0, 2, 4, 1, 3).reshape(-1, 3, SIDE, SIDE)


def _sheet_files(folder: str, **n_sheets: int) -> dict[str, str]:
    """The labels and the first sheets of each part, with their SHA-256."""
    digests = {}
    for line in DIGESTS.read_text("ascii").splitlines():
        digest, path = line.split()
        digests[path] = digest
    names = [LABELS]
    names += [f"{part}_{k:02d}.webp" for part, n in n_sheets.items() for k in range(n)]
    return {name: digests[f"{folder}/{name}"] for name in names}


_KRIZHEVSKY = "Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009"
_CIFAR_DIGESTS = {10: "c32a1d4ab5d03f1284b67883e8d87530", 100: "03b5dce01913d631647c71ecec9e9cb8"}
_SETS = (
    Images(
        "mnist",
        "MNIST (LeCun et al. 1998; usually given as CC BY-SA 3.0)",
        _idx_files(
            "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        ),
        (
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
        ),
        read=_idx,
    ),
    Images(
        "fashion-mnist",
        "Fashion-MNIST (Xiao, Rasul and Vollgraf, arXiv:1708.07747; MIT, (c) 2017 Zalando SE)",
        _idx_files(
            "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
            "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
        ),
        (
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
            "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
        ),
        read=_idx,
    ),
    Images(  # 1000 of each letter, to be out of distribution for a network trained on MNIST
        "notmnist-small",
        "notMNIST (Bulatov 2011, no licence stated; sample of davidflanagan/notMNIST-to-MNIST)",
        _idx_files(
            "70ae9e06201f2827e5b0a3781a3169d735dd2efc69996b9eeaee7f10ed4044d7",
            "1fa03836e01c862542f8eb83463bb951bebec6fcb3efa28dad748c6b38a9021b",
        ),
        ("https://raw.githubusercontent.com/davidflanagan/notMNIST-to-MNIST/master/",),
        read=_idx,
    ),
    *(
        Images(  # of 100 the fine classes
            f"cifar{n}",
            f"CIFAR-{n}, binary version ({_KRIZHEVSKY}; no licence stated)",
            {f"cifar-{n}-binary.tar.gz": f"md5:{digest}"},
            ("https://www.cs.toronto.edu/~kriz/",),
            read=_cifar,
            n_classes=n,
        )
        for n, digest in _CIFAR_DIGESTS.items()
    ),
    Images(
        "cifar10",
        f"CIFAR-10 ({_KRIZHEVSKY}; no licence stated; as sheets, in no public place: 'cifar10' has "
        "the same images, but for 75 + 20 that are here from JPEG copies)",
        _sheet_files("cifar10", train=50, test=10),
        name="cifar10-sheets",
        read=_sheets,
    ),
    Images(
        "cifar10",
        f"the first 4000 + 1000 images of CIFAR-10 ({_KRIZHEVSKY}; as sheets, in no public place: "
        "'cifar10' with n_train=4000, n_test=1000 gives the same images)",
        _sheet_files("cifar10", train=4, test=1),
        name="cifar10-subset",
        read=_sheets,
    ),
    Images(
        "cifar100",
        f"the test images of CIFAR-100 ({_KRIZHEVSKY}; no licence stated; as sheets, in no public "
        "place: 'cifar100' has the same)",
        _sheet_files("cifar100", test=10),
        name="cifar100-sheets",
        read=_sheets,
        n_classes=100,
    ),
    Images(
        "svhn",
        "the first 10,000 test images of SVHN (Netzer et al. 2011; for non-commercial use; as "
        "sheets, in no public place: 'svhn' with n_test=10000 has the same)",
        _sheet_files("svhn", test=10),
        name="svhn-sheets",
        read=_sheets,
    ),
    Images(
        "svhn",
        "SVHN (Netzer et al. 2011; for non-commercial use)",
        {
            "train_32x32.mat": "md5:e26dedcc434d2e4c54c9b2d4a06d8373",
            "test_32x32.mat": "md5:eb5a983be6a315427106f1b164d9cef3",
        },
        ("http://ufldl.stanford.edu/housenumbers/",),
        read=_svhn,
    ),
    Images(
        "stl10",
        "STL-10, binary version, 2.6 GB (Coates, Lee and Ng 2011; images from ImageNet)",
        {"stl10_binary.tar.gz": "md5:91f7769df0f17e558f3565bffb0c7dfb"},
        ("http://ai.stanford.edu/~acoates/stl10/",),
        read=_stl10,
    ),
)
SETS = {one.name or one.folder: one for one in _SETS}
"""Name -> how to get the images of that name."""
