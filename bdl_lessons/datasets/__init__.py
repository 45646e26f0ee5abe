"""Data sets of the lessons, and what was measured: all of it comes with the package.

=====================  ==============================  ==========================================
name                   loader                          content
=====================  ==============================  ==========================================
co2                    ``co2()``, ``detrended()``      monthly CO2 at Mauna Loa
digits                 ``digits()``                    1797 digits, 8×8 (scikit-learn)
diabetes               ``diabetes()``                  442×10 regression (scikit-learn)
(bioassay)             ``bioassay.load()``             20 animals, 4 doses, deaths (Racine 1986)
(simulated)            ``origin_clusters()``           regression on two clusters (lesson 09)
=====================  ==============================  ==========================================

Loaders return a ``Classification`` or a ``Regression``; ``Standardiser`` puts columns to mean 0 and
variance 1. ``load_records`` and ``published_table`` give what was measured and what papers print,
``UCIResults`` both of the UCI regression sets, whose records are ``UCI_SETS``. Larger data sets,
which no lesson loads, are in ``reproductions.datasets``.

Imports: core.
"""

from bdl_lessons.datasets import bioassay
from bdl_lessons.datasets.containers import Classification, Regression
from bdl_lessons.datasets.mauna_loa import CO2, GAL_SPAN, DetrendedCO2, co2, detrended
from bdl_lessons.datasets.records import (
    UCIResults,
    chosen_settings,
    group_by,
    load_records,
    published_table,
    where,
    with_settings,
)
from bdl_lessons.datasets.rotation import rotated
from bdl_lessons.datasets.small_sets import diabetes, digits, origin_clusters
from bdl_lessons.datasets.standardiser import Standardiser
from bdl_lessons.datasets.uci_sets import UCI_SETS, UCISet, display_name

__all__ = [
    "CO2",
    "GAL_SPAN",
    "UCI_SETS",
    "Classification",
    "DetrendedCO2",
    "Regression",
    "Standardiser",
    "UCIResults",
    "UCISet",
    "bioassay",
    "chosen_settings",
    "co2",
    "detrended",
    "diabetes",
    "digits",
    "display_name",
    "group_by",
    "load_records",
    "origin_clusters",
    "published_table",
    "rotated",
    "where",
    "with_settings",
]
