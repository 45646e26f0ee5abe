from __future__ import annotations

import pooch
import pytest

from bdl_lessons import datasets

from .conftest import fetching


@pytest.fixture
def no_work(monkeypatch):
    """Reporting must neither hash nor download."""

    def refuse(*args, **kwargs):
        raise AssertionError("status() must be cheap")

    monkeypatch.setattr(fetching, "_digest", refuse)
    monkeypatch.setattr(pooch, "retrieve", refuse)


def test_status_covers_the_registry_and_is_cheap(folders, no_work):
    folders.place("cifar10", "cifar-10-binary.tar.gz", b"not looked into")
    by_name = {s.name: s for s in datasets.status()}
    assert list(by_name) == datasets.names()
    assert by_name["digits"].found
    assert by_name["digits"].where == "scikit-learn"
    assert by_name["cifar10"].found
    assert by_name["cifar10"].where == "BDL_DATA_DIR"
    assert by_name["cifar10"].remedy == ""


def test_a_missing_set_says_what_to_do(folders, no_work):
    missing = datasets.info("svhn")
    assert not missing.found
    assert missing.missing == ("train_32x32.mat", "test_32x32.mat")
    assert "246 MB" in missing.remedy
    assert str(folders.user / "svhn") in missing.remedy
    assert str(folders.cache / "svhn") in missing.remedy


def test_a_set_without_address_says_where_it_comes_from(folders, no_work):
    assert "make_co2" in datasets.info("co2").remedy
    assert "'cifar10'" in datasets.info("cifar10-subset").remedy


def test_a_set_in_two_places_and_incomplete(folders, no_work):
    folders.place("svhn", "train_32x32.mat", b"")
    assert datasets.info("svhn").missing == ("test_32x32.mat",)
    folders.place("svhn", "test_32x32.mat", b"", where=folders.cache)
    both = datasets.info("svhn")
    assert both.found
    assert both.where == "BDL_DATA_DIR, cache"


def test_an_unpacked_idx_file_counts_as_found(folders, no_work):
    folders.place("notmnist-small", "t10k-images-idx3-ubyte", b"")
    folders.place("notmnist-small", "t10k-labels-idx1-ubyte", b"")
    assert datasets.info("notmnist-small").found


def test_a_wrong_bdl_data_dir_is_reported_not_raised(folders, no_work, monkeypatch):
    monkeypatch.setenv("BDL_DATA_DIR", str(folders.user / "nowhere"))
    assert all("not a folder" in s.remedy for s in datasets.status() if not s.found)
    assert datasets.info("digits").found


def test_the_committed_series_is_found_without_any_setting(monkeypatch):
    monkeypatch.delenv("BDL_DATA_DIR", raising=False)
    assert datasets.info("co2").where == "data/"
