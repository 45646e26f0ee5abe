from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from bdl_lessons import datasets
from bdl_lessons.datasets import UCI, DatasetCorrupt, Standardiser, splits

from .conftest import REAL_DATA_DIR

FACTS = {  # rows, features, mean and sd of the target
    "bostonHousing": (506, 13, 22.5328, 9.188),
    "concrete": (1030, 8, 35.818, 16.698),
    "energy": (768, 8, 22.3072, 10.084),
    "kin8nm": (8192, 8, 0.71428, 0.26359),
    "naval-propulsion-plant": (11934, 16, 0.975, 0.01472),
    "power-plant": (9568, 4, 454.365, 17.066),
    "wine-quality-red": (1599, 11, 5.63602, 0.80732),
    "yacht": (308, 6, 10.4954, 15.136),
}


def text(rows: list[list[float]]) -> bytes:
    return "".join(" ".join(map(str, row)) + " \n" for row in rows).encode()


def test_features_and_target(folders):
    rows = np.arange(21.0).reshape(3, 7)
    folders.put("yacht", "data.txt", text(rows.tolist()) + b"\n\n")
    data = datasets.uci("yacht")
    assert data.x.dtype == data.y.dtype == torch.float64
    np.testing.assert_array_equal(data.x.numpy(), rows[:, :6])  # bits: small integers
    np.testing.assert_array_equal(data.y.numpy(), rows[:, 6])  # bits: small integers
    assert len(data.feature_names) == 6


def test_the_second_target_of_naval_is_left_out(folders):
    folders.put("naval-propulsion-plant", "data.txt", text([list(range(18))] * 2))
    data = datasets.uci("naval-propulsion-plant")
    assert data.x.shape == (2, 16)
    assert data.y.tolist() == [16, 16]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([[1.0] * 7, [1, 2, float("nan"), 4, 5, 6, 7]], "row 1 .* not a finite number"),
        ([[1.0] * 7, [1, 2, float("inf"), 4, 5, 6, 7]], "row 1 .* not a finite number"),
        ([[1.0] * 8] * 2, "expected 7 columns, found 8"),
        ([[1.0] * 7, [1.0] * 6], "columns"),
        ([["a"] * 7], "could not convert"),
        ([], "."),
    ],
    ids=["nan", "inf", "columns", "ragged", "text", "empty"],
)
@pytest.mark.filterwarnings("ignore:loadtxt")
def test_bad_tables_are_named(folders, rows, said):
    path = folders.put("yacht", "data.txt", text(rows))
    with pytest.raises(DatasetCorrupt, match=said) as caught:
        datasets.uci("yacht")
    assert str(path) in str(caught.value)


def test_an_unknown_set():
    with pytest.raises(ValueError, match="unknown name of a UCI set 'wine'"):
        datasets.uci("wine")


def test_all_eight_are_registered():
    assert set(UCI) == set(FACTS)
    for name, columns in UCI.items():
        assert len(columns.features) == FACTS[name][1]
        assert datasets.entry(name).folder == f"uci/{name}"


@pytest.mark.parametrize("name", FACTS)
def test_the_real_sets(real, name):
    real(name)
    rows, features, mean, std = FACTS[name]
    data = datasets.load(name)
    assert data.x.shape == (rows, features)
    assert data.y.mean().item() == pytest.approx(mean, rel=2e-5)
    assert data.y.std(correction=0).item() == pytest.approx(std, rel=1e-4)


@pytest.mark.parametrize("name", FACTS)
def test_the_splits_are_the_published_ones(real, name):
    real(name)
    folder = Path(REAL_DATA_DIR) / "uci" / name
    pairs = splits(FACTS[name][0])
    assert len(pairs) == int((folder / "n_splits.txt").read_text())
    for i, (train, test) in enumerate(pairs):
        for part, rows in (("train", train), ("test", test)):
            published = np.loadtxt(folder / f"index_{part}_{i}.txt")
            np.testing.assert_array_equal(rows, published.astype(int))  # bits: integers


def test_the_constant_columns_of_naval_stay_finite(real):
    real("naval-propulsion-plant")
    x = datasets.uci("naval-propulsion-plant").x
    x = x[splits(len(x))[0][0]]
    scale = Standardiser.fit(x)
    assert scale.transform(x).isfinite().all()
    for column in (8, 11):
        assert scale.std[column] == 1
        assert scale.transform(x)[:, column].abs().max() < 1e-6
