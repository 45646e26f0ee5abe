"""Where a file is looked for, what is downloaded, and what a failure says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from reproductions.datasets import DatasetError
from reproductions.datasets.files import Source, fetch

from .conftest import REAL_DATA_DIR, sha256

CONTENT = b"ten bytes!" * 1000
NAME, URL = "letters.gz", "https://example.org/"


@pytest.fixture
def source(folders, server):
    """A set with one file, which is served at one address."""
    server.answers[URL + NAME] = CONTENT
    return Source("letters", "Letters", {NAME: sha256(CONTENT)}, (URL,))


def cached(folders) -> Path:
    return folders.cache / "letters" / NAME


def refused(source, said):
    with pytest.raises(DatasetError, match=said) as caught:
        fetch(source, NAME)
    return str(caught.value)


def test_bdl_data_dir_comes_first_then_data_then_the_cache(folders, source, server):
    for root in (folders.cache, folders.repository, folders.user):
        path = folders.place(root, "letters", NAME, CONTENT)
        assert fetch(source, NAME) == path
    assert not server.requests


@pytest.mark.parametrize("named", [None, ""])
def test_downloads_once_and_leaves_only_the_file(folders, source, server, monkeypatch, named):
    if named is None:
        monkeypatch.delenv("BDL_DATA_DIR")
    else:
        monkeypatch.setenv("BDL_DATA_DIR", named)
    folders.place(folders.cache, "letters", NAME, CONTENT[:50])  # cut off: replaced
    assert fetch(source, NAME).read_bytes() == CONTENT
    assert fetch(source, NAME) == cached(folders)
    assert server.requests[URL + NAME] == 1
    assert [path.name for path in cached(folders).parent.iterdir()] == [NAME]


def test_bdl_data_dir_that_does_not_exist(folders, source, monkeypatch):
    monkeypatch.setenv("BDL_DATA_DIR", str(folders.user / "nowhere"))
    refused(source, "nowhere', which is not a folder")


def test_a_second_mirror_is_asked_and_a_server_in_trouble_again(folders, source, server):
    def busy() -> bytes:
        server.answers[URL + NAME] = CONTENT
        raise OSError("503")

    server.answers[URL + NAME] = busy
    both = replace(source, addresses=(URL + "gone/", URL))
    assert fetch(both, NAME).read_bytes() == CONTENT
    assert server.requests[URL + NAME] == 2


def test_a_failure_names_file_address_reason_and_remedy(folders, source, server):
    server.answers[URL + NAME] = CONTENT + b"!"
    message = refused(replace(source, title="made by hand"), "is not on this machine")
    places = str(folders.user / "letters"), str(cached(folders).parent)
    for said in (NAME, URL, "made by hand", *places, sha256(CONTENT)):
        assert said in message
    assert list(cached(folders).parent.iterdir()) == []


@pytest.mark.parametrize("place", ["user", "repository"])
def test_a_hand_placed_file_with_a_wrong_hash_is_an_error_and_stays(folders, source, server, place):
    path = folders.place(getattr(folders, place), "letters", NAME, CONTENT[:-1])
    assert str(path) in refused(source, "Replace it")
    assert path.read_bytes() == CONTENT[:-1]
    assert not server.requests


def test_hashes_are_those_recorded_beside_the_real_data():
    sums = Path(REAL_DATA_DIR) / "SHA256SUMS"
    if not REAL_DATA_DIR or not sums.is_file():
        pytest.skip("no SHA256SUMS in BDL_DATA_DIR")
    from bdl_lessons.datasets import UCI_SETS
    from reproductions.datasets.images import SETS

    lines = (line.partition("  ") for line in sums.read_text("utf-8").splitlines())
    recorded = {path: digest for digest, _, path in lines}
    known = {f"uci/{one.name}/data.txt": one.sha256 for one in UCI_SETS.values()}
    for one in SETS.values():
        known |= {f"{one.folder}/{name}": digest for name, digest in one.files.items()}
    both = known.keys() & recorded.keys()
    assert {path: known[path] for path in both} == {path: recorded[path] for path in both}
    assert len(both) >= 19
