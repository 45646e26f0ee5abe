"""Where a file is looked for, what is downloaded, and what a failure says."""

from __future__ import annotations

import contextlib
import socket
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from reproductions.datasets import DatasetError, files
from reproductions.datasets.files import Source, fetch

from .conftest import REAL_DATA_DIR, sha256

CONTENT = b"ten bytes!" * 1000
NAME = "letters.gz"


@pytest.fixture
def source(folders, server):
    """A set with one file, which is served at one address."""
    server.answers["/" + NAME] = CONTENT
    return Source("letters", "Letters", {NAME: sha256(CONTENT)}, (server.url,))


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
    assert fetch(source, NAME).read_bytes() == CONTENT
    assert fetch(source, NAME) == cached(folders)
    assert server.requests["/" + NAME] == 1
    assert [path.name for path in cached(folders).parent.iterdir()] == [NAME]


def test_bdl_data_dir_that_does_not_exist(folders, source, monkeypatch):
    monkeypatch.setenv("BDL_DATA_DIR", str(folders.user / "nowhere"))
    refused(source, "nowhere', which is not a folder")
    monkeypatch.setenv("BDL_DATA_DIR", "~nosuchuser/data")
    refused(source, "~nosuchuser/data', which is not a folder")


def test_a_second_mirror_is_asked_when_the_first_has_nothing(folders, source, server):
    both = replace(source, addresses=(server.url + "gone/", server.url))
    assert fetch(both, NAME).read_bytes() == CONTENT


def test_a_failure_names_file_address_reason_and_remedy(folders, source, server):
    server.answers.clear()
    message = refused(source, "404")
    for said in (NAME, server.url, str(folders.user / "letters"), str(cached(folders).parent)):
        assert said in message
    assert sha256(CONTENT) in message
    assert not cached(folders).exists()


def test_a_server_in_trouble_is_asked_again(folders, source, server):
    def busy(handler) -> None:
        server.answers["/" + NAME] = CONTENT
        handler.send_error(503)

    server.answers["/" + NAME] = busy
    assert fetch(source, NAME).read_bytes() == CONTENT
    assert server.requests["/" + NAME] == 2


def test_no_network(folders, source):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/"
    refused(replace(source, addresses=(url,)), "refused")


def slow(handler) -> None:
    threading.Event().wait(5)
    with contextlib.suppress(OSError):  # the other side has hung up
        handler.send_response(200)
        handler.end_headers()
        handler.wfile.write(CONTENT)


def test_a_server_that_is_silent_is_left(folders, source, server, monkeypatch):
    monkeypatch.setattr(files, "TIMEOUT_S", (1, 1))
    server.answers["/slow/" + NAME] = slow
    both = replace(source, addresses=(server.url + "slow/", server.url))
    assert fetch(both, NAME).read_bytes() == CONTENT
    assert server.requests["/" + NAME] == 1, "the first address was waited for"


def cut_off(handler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(CONTENT)))
    handler.end_headers()
    with contextlib.suppress(OSError):
        handler.wfile.write(CONTENT[:100])
    handler.close_connection = True


@pytest.mark.parametrize("answer", [CONTENT + b"!", cut_off], ids=["wrong hash", "cut off"])
def test_what_is_not_the_official_file_is_not_kept(folders, source, server, answer):
    server.answers["/" + NAME] = answer
    refused(source, "is not on this machine")
    assert list(cached(folders).parent.iterdir()) == []


def test_a_file_without_any_address_says_where_it_comes_from(folders, source):
    message = refused(replace(source, addresses=(), note="Made by hand."), "Made by hand")
    assert sha256(CONTENT) in message


@pytest.mark.parametrize("place", ["user", "repository"])
def test_a_hand_placed_file_with_a_wrong_hash_is_an_error_and_stays(folders, source, server, place):
    path = folders.place(getattr(folders, place), "letters", NAME, CONTENT[:-1])
    message = refused(source, "Replace it")
    assert str(path) in message
    assert sha256(CONTENT) in message
    assert path.read_bytes() == CONTENT[:-1]
    assert not server.requests


def test_a_truncated_file_in_the_cache_is_downloaded_again(folders, source):
    folders.place(folders.cache, "letters", NAME, CONTENT[:50])
    assert fetch(source, NAME).read_bytes() == CONTENT


def test_a_cache_that_cannot_be_written_to(folders, source):
    folders.cache.write_text("a plain file")
    refused(source, r"[Ee]xist|[Dd]irectory")


def test_hashes_are_those_recorded_beside_the_real_data():
    sums = Path(REAL_DATA_DIR) / "SHA256SUMS"
    if not REAL_DATA_DIR or not sums.is_file():
        pytest.skip("no SHA256SUMS in BDL_DATA_DIR")
    from bdl_lessons.datasets import UCI_SETS
    from reproductions.datasets import images

    lines = (line.partition("  ") for line in sums.read_text("utf-8").splitlines())
    recorded = {path: f"sha256:{digest}" for digest, _, path in lines}
    known = {f"uci/{one.name}/data.txt": f"sha256:{one.sha256}" for one in UCI_SETS.values()}
    for one in vars(images).values():
        if isinstance(one, Source):
            known |= {f"{one.folder}/{name}": digest for name, digest in one.files.items()}
    both = known.keys() & recorded.keys()
    assert {path: known[path] for path in both} == {path: recorded[path] for path in both}
    assert len(both) >= 20
