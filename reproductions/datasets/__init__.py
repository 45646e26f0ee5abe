"""Data sets of the papers that no lesson loads: found on this machine or downloaded.

==================  ====================  ==========================================
name                loader                content
==================  ====================  ==========================================
mnist               ``mnist()``           60000 + 10000 digits, 28×28
fashion-mnist       ``fashion_mnist()``   60000 + 10000 articles of clothing, 28×28
notmnist-small      ``notmnist()``        10000 letters, test part only, 28×28
cifar10             ``cifar10()``         50000 + 10000 colour images, 32×32
cifar100            ``cifar100()``        50000 + 10000 colour images, 32×32
cifar10-subset      ``cifar10_subset()``  4000 + 1000, exact pixels
cifar10-jpeg        ``cifar10_jpeg()``    50000 + 10000, lossy pixels
svhn                ``svhn()``            73257 + 26032 house-number digits, 32×32
stl10               ``stl10()``           5000 + 8000 colour images, 96×96
bostonHousing, …    ``uci(name)``         the UCI regression sets (``UCI_SETS``)
==================  ====================  ==========================================

A file is looked for in ``BDL_DATA_DIR``, in ``data/``, in the user's cache, and then downloaded;
every failure is a ``DatasetError`` that names the remedy. A file whose hash is right is the
official one, and its layout is not checked again.
"""

from __future__ import annotations

from bdl_lessons.core import validation
from bdl_lessons.datasets import Classification
from reproductions.datasets.files import DatasetError
from reproductions.datasets.images import (
    CAFFE_SCALE,
    cifar10,
    cifar10_jpeg,
    cifar10_subset,
    cifar100,
    fashion_mnist,
    mnist,
    notmnist,
    stl10,
    svhn,
)
from reproductions.datasets.regression import splits, uci

_LOADERS = {
    "mnist": mnist,
    "fashion-mnist": fashion_mnist,
    "notmnist-small": notmnist,
    "cifar10": cifar10,
    "cifar100": cifar100,
    "cifar10-subset": cifar10_subset,
    "cifar10-jpeg": cifar10_jpeg,
    "svhn": svhn,
    "stl10": stl10,
}


@validation.typechecked
def load(name: str, **options) -> Classification:
    """The images called ``name``; ``options`` go to their loader (``n_train=``, ``n_test=``).

    Raises:
        ValueError: if there are no such images; the message lists those there are.
        DatasetError: if they cannot be had.
    """
    if name not in _LOADERS:
        raise ValueError(f"there are no images called {name!r}, only {', '.join(_LOADERS)}")
    return _LOADERS[name](**options)
