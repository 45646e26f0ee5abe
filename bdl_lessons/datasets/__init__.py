"""Data sets: found on this machine or fetched from their official address, hashes checked.

=====================  ==============================  ==========================================
name                   loader                          content
=====================  ==============================  ==========================================
mnist                  ``mnist()``                     60000 + 10000 digits, 28×28
fashion-mnist          ``fashion_mnist()``             60000 + 10000 articles of clothing, 28×28
notmnist-small         ``notmnist()``                  10000 letters, test part only, 28×28
cifar10                ``cifar10()``                   50000 + 10000 colour images, 32×32
cifar100               ``cifar100()``                  50000 + 10000 colour images, 32×32
cifar10-subset         ``cifar10_subset()``            4000 + 1000, exact pixels
cifar10-jpeg           ``cifar10_jpeg()``              50000 + 10000, lossy pixels
svhn                   ``svhn()``                      73257 + 26032 house-number digits, 32×32
stl10                  ``stl10()``                     5000 + 8000 colour images, 96×96
bostonHousing, …       ``uci(name)``                   the eight UCI regression sets (``UCI``)
co2                    ``co2()``                       monthly CO2 at Mauna Loa
digits                 ``digits()``                    1797 digits, 8×8 (scikit-learn)
diabetes               ``diabetes()``                  442×10 regression (scikit-learn)
(bioassay)             ``bioassay.load()``             20 animals, 4 doses, deaths (Racine 1986)
(simulated)            ``origin_clusters()``           regression on two clusters (lesson 09)
=====================  ==============================  ==========================================

Loaders return a ``Classification`` or a ``Regression``. ``load(name)`` calls the loader of a set by
name, ``status()`` says which sets are on this machine (lesson 00), ``splits`` gives the standard
splits of the UCI sets, and ``Standardiser`` puts columns to mean 0 and variance 1.
``load_records`` and ``published_table`` give what was measured and what papers print. A file is
looked for in ``BDL_DATA_DIR``, in ``data/``, in the user's cache, and then downloaded; every
failure is a ``DatasetError`` that names the remedy.

Imports: core.
"""

from __future__ import annotations

from functools import partial

from bdl_lessons.core import validation
from bdl_lessons.datasets.co2 import CO2, GAL_SPAN, DetrendedCO2, co2, detrended
from bdl_lessons.datasets.colour_archives import (
    cifar10,
    cifar10_jpeg,
    cifar10_subset,
    cifar100,
    stl10,
    svhn,
)
from bdl_lessons.datasets.containers import Classification, Regression
from bdl_lessons.datasets.errors import DatasetCorrupt, DatasetError, DatasetUnavailable
from bdl_lessons.datasets.fetch import fetch
from bdl_lessons.datasets.idx import CAFFE_SCALE, fashion_mnist, mnist, notmnist
from bdl_lessons.datasets.records import (
    UCIResults,
    chosen_settings,
    display_name,
    group_by,
    load_records,
    published_table,
    where,
    with_settings,
)
from bdl_lessons.datasets.registry import entry, names
from bdl_lessons.datasets.report import Status, info, status
from bdl_lessons.datasets.splits import Standardiser, splits
from bdl_lessons.datasets.toy import diabetes, digits, origin_clusters
from bdl_lessons.datasets.uci import UCI, uci

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
    **{name: partial(uci, name) for name in UCI},
    "co2": co2,
    "digits": digits,
    "diabetes": diabetes,
}


@validation.typechecked
def load(name: str, **options) -> Classification | Regression | CO2:
    """The data set called ``name``; ``options`` go to its loader (``n_train=``, ``n_test=``, …).

    Raises:
        ValueError: if there is no such data set; the message lists the known ones.
        DatasetError: if it cannot be had or read.
    """
    return _LOADERS[entry(name).name](**options)
