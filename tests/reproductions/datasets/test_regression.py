from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bdl_lessons.datasets import UCI_SETS
from reproductions.datasets import regression, splits, uci

from .conftest import sha256

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


def test_features_come_first_then_the_target_and_a_second_target_is_left_out(folders, monkeypatch):
    content = b"0 1 2 3 \n10 11 12 13 \n\n"
    record = replace(UCI_SETS["yacht"], name="new", n_features=2, sha256=sha256(content)[7:])
    monkeypatch.setitem(regression.UCI_SETS, "new", record)
    folders.place(folders.user, "uci/new", "data.txt", content)
    data = uci("new")
    assert data.x.dtype == data.y.dtype == torch.float64
    assert data.x.tolist() == [[0, 1], [10, 11]]
    assert data.y.tolist() == [2, 12]
    assert data.target == record.target


@pytest.mark.parametrize("name", UCI_SETS)
def test_the_real_sets(real, name):
    assert name in FACTS, f"give {name} a row in FACTS"
    rows, features, mean, std = FACTS[name]
    assert UCI_SETS[name].n_features == features
    real(f"uci/{name}")
    data = uci(name)
    assert data.x.shape == (rows, features)
    assert data.y.mean().item() == pytest.approx(mean, rel=2e-5)
    assert data.y.std(correction=0).item() == pytest.approx(std, rel=1e-4)


@pytest.mark.parametrize("name", FACTS)
def test_the_splits_are_the_published_ones(real, name):
    folder = real(f"uci/{name}")
    if not (folder / "n_splits.txt").exists():
        pytest.skip(f"{name} is in no paper: nobody has published its splits")
    pairs = splits(FACTS[name][0])
    assert len(pairs) == int((folder / "n_splits.txt").read_text())
    for i, (train, test) in enumerate(pairs):
        for part, rows in (("train", train), ("test", test)):
            published = np.loadtxt(folder / f"index_{part}_{i}.txt")
            np.testing.assert_array_equal(rows, published.astype(int))  # bits: integers


@given(n=st.integers(6, 300), n_splits=st.integers(1, 25))
def test_each_split_is_a_partition_of_nine_to_one(n, n_splits):
    pairs = splits(n, n_splits)
    assert len(pairs) == n_splits
    for train, test in pairs:
        assert len(train) == int(0.9 * n + 0.5)
        assert sorted([*train, *test]) == list(range(n))
