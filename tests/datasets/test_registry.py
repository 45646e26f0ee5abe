from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from bdl_lessons import datasets
from bdl_lessons.datasets import registry

from .conftest import REAL_DATA_DIR


def test_every_set_has_a_loader_a_licence_and_a_citation():
    assert set(datasets.names()) == set(datasets._LOADERS)
    for name in datasets.names():
        entry = registry.entry(name)
        assert entry.name == name
        assert entry.licence
        assert entry.citation
        assert entry.files or entry.source, "a set has files or says what ships it"
        for file in entry.files:
            assert file.urls or entry.source
            assert re.fullmatch(r"sha256:[0-9a-f]{64}|md5:[0-9a-f]{32}", file.hash)
            assert all(re.match(r"https?://", url) for url in file.urls)


def test_no_two_sets_claim_the_same_file():
    places = [
        (registry.entry(n).folder, f.name)
        for n in datasets.names()
        for f in registry.entry(n).files
    ]
    assert len(places) == len(set(places))


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("minst", "mnist"), ("MNIST", "mnist"), ("boston", "bostonHousing"), ("cifar", "cifar10")],
)
def test_an_unknown_name_is_answered_by_the_nearest_and_the_list(wrong, right):
    for ask in (datasets.entry, datasets.info, datasets.load):
        with pytest.raises(ValueError, match=f"unknown name of a data set '{wrong}'") as caught:
            ask(wrong)
        assert f"Did you mean {right!r}" in str(caught.value)
        assert all(name in str(caught.value) for name in datasets.names())


def test_a_name_like_no_other_gets_no_guess():
    with pytest.raises(ValueError, match=r"unknown name of a data set 'qqqq'\. Known"):
        datasets.load("qqqq")


def test_load_passes_options_on():
    assert len(datasets.load("digits", n_test=100).x_test) == 100


def test_nothing_heavy_is_imported():
    code = (
        "import sys, bdl_lessons.core; before = set(sys.modules);"
        "import bdl_lessons.datasets;"
        "print(*{m.partition('.')[0] for m in set(sys.modules) - before})"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"pooch", "requests", "filelock", "scipy", "sklearn", "PIL", "statsmodels", "pandas"}
    assert not heavy & set(run.stdout.split())


def test_registry_agrees_with_the_hashes_recorded_beside_the_real_data():
    sums = Path(REAL_DATA_DIR) / "SHA256SUMS"
    if not REAL_DATA_DIR or not sums.is_file():
        pytest.skip("no SHA256SUMS in BDL_DATA_DIR")
    lines = (line.partition("  ") for line in sums.read_text("utf-8").splitlines())
    recorded = {path: digest for digest, _, path in lines}
    compared = 0
    for name in datasets.names():
        entry = registry.entry(name)
        for file in entry.files:
            digest = recorded.get(f"{entry.folder}/{file.name}")
            if digest:
                assert file.hash == f"sha256:{digest}"
                compared += 1
    assert compared >= 20
