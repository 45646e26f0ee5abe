from __future__ import annotations

import contextlib
import multiprocessing
import os
import socket
import threading
from pathlib import Path

import pooch
import pytest

from bdl_lessons.datasets import DatasetCorrupt, DatasetError, DatasetUnavailable, download, fetch

from .conftest import fetching, gzipped, sha256

CONTENT = b"ten bytes!" * 1000
FILE = "t10k-labels-idx1-ubyte.gz"


@pytest.fixture
def remote(folders, server):
    """``notmnist-small`` has one file of known hash, served at one address."""
    server.answers["/" + FILE] = CONTENT
    folders.register("notmnist-small", FILE, urls=[f"{server.url}/{FILE}"], hash=sha256(CONTENT))
    return server


def load() -> Path:
    return fetch("notmnist-small", FILE)


def cached(folders) -> Path:
    return folders.cache / "notmnist-small" / FILE


def test_bdl_data_dir_comes_first_then_data_then_the_cache(folders, remote):
    in_cache = folders.place("notmnist-small", FILE, CONTENT, where=folders.cache)
    assert load() == in_cache
    in_repository = folders.place("notmnist-small", FILE, CONTENT, where=folders.repository)
    assert load() == in_repository
    in_user = folders.place("notmnist-small", FILE, CONTENT)
    assert load() == in_user
    assert not remote.requests


def test_downloads_once_and_leaves_only_the_file(folders, remote):
    assert load().read_bytes() == CONTENT
    assert load() == cached(folders)
    assert remote.requests["/" + FILE] == 1
    assert {p.name for p in cached(folders).parent.iterdir()} <= {FILE, ".lock"}


def test_works_without_bdl_data_dir(folders, remote, monkeypatch):
    monkeypatch.delenv("BDL_DATA_DIR")
    assert load() == cached(folders)
    monkeypatch.setenv("BDL_DATA_DIR", "")
    assert load() == cached(folders)


def test_bdl_data_dir_that_does_not_exist(folders, monkeypatch):
    monkeypatch.setenv("BDL_DATA_DIR", str(folders.user / "nowhere"))
    with pytest.raises(DatasetUnavailable, match="nowhere', which is not a folder"):
        load()


def test_a_second_mirror_is_asked_when_the_first_has_nothing(folders, remote):
    urls = [f"{remote.url}/gone", f"{remote.url}/{FILE}"]
    folders.register("notmnist-small", FILE, urls=urls, hash=sha256(CONTENT))
    assert load().read_bytes() == CONTENT


def test_404_names_file_address_reason_and_remedy(folders, remote):
    remote.answers.clear()
    with pytest.raises(DatasetUnavailable) as caught:
        load()
    message = str(caught.value)
    assert FILE in message
    assert f"{remote.url}/{FILE}: the server says 404" in message
    assert str(folders.user / "notmnist-small") in message
    assert str(folders.cache / "notmnist-small") in message
    assert sha256(CONTENT) in message
    assert remote.requests["/" + FILE] == 1, "a 404 will not change: no second try"
    assert not cached(folders).exists()


def test_a_server_in_trouble_is_asked_again(folders, remote):
    remote.answers["/" + FILE] = 503
    with pytest.raises(DatasetUnavailable, match="503"):
        load()
    assert remote.requests["/" + FILE] == download.ROUNDS


def test_no_network(folders, monkeypatch):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/{FILE}"
    folders.register("notmnist-small", FILE, urls=[url], hash=sha256(CONTENT))
    with pytest.raises(DatasetUnavailable, match="the connection failed"):
        load()
    assert not cached(folders).exists()


def test_a_download_with_a_wrong_hash_is_not_kept(folders, remote):
    remote.answers["/" + FILE] = CONTENT + b"!"
    with pytest.raises(DatasetUnavailable, match="wrong hash"):
        load()
    assert list(cached(folders).parent.glob("[!.]*")) == []


def test_a_connection_cut_in_the_middle_is_tried_again_and_not_kept(folders, remote):
    remote.promised["/" + FILE] = len(CONTENT) + 10
    with pytest.raises(DatasetUnavailable, match="the connection failed"):
        load()
    assert remote.requests["/" + FILE] == download.ROUNDS
    assert list(cached(folders).parent.glob("[!.]*")) == []


def endless(handler) -> None:
    handler.send_response(200)
    handler.end_headers()
    with contextlib.suppress(OSError):  # the other side hangs up
        while True:
            handler.wfile.write(bytes(2**16))


def dripping(handler) -> None:
    handler.send_response(200)
    handler.end_headers()
    with contextlib.suppress(OSError):
        while True:
            handler.wfile.write(b"x")
            threading.Event().wait(0.02)  # time.sleep does nothing in these tests


def silent(handler) -> None:
    threading.Event().wait(0.6)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (endless, "sends more than 16 MB"),
        (dripping, "sends less than 20 kB/s"),
        (silent, "the server does not answer"),
    ],
)
def test_a_server_beyond_the_limits_is_left_and_the_next_one_tried(
    folders, remote, monkeypatch, answer, said
):
    monkeypatch.setattr(download, "READ_S", 0.2)
    monkeypatch.setattr(download, "GRACE_S", 0.2)
    remote.answers["/bad"] = answer
    urls = [f"{remote.url}/bad", f"{remote.url}/gone"]
    folders.register("notmnist-small", FILE, urls=urls, hash=sha256(CONTENT))
    with pytest.raises(DatasetUnavailable, match=f"/bad: {said}"):
        load()
    assert remote.requests["/bad"] == 1, "no second try"
    assert list(cached(folders).parent.glob("[!.]*")) == []
    urls[1] = f"{remote.url}/{FILE}"
    folders.register("notmnist-small", FILE, urls=urls, hash=sha256(CONTENT))
    assert load().read_bytes() == CONTENT


def test_a_compressed_transfer_is_unpacked(folders, remote):
    def packed(handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Encoding", "gzip")
        handler.end_headers()
        handler.wfile.write(gzipped(CONTENT))

    remote.answers["/" + FILE] = packed
    assert load().read_bytes() == CONTENT


def test_a_file_without_any_address_says_where_it_comes_from(folders):
    with pytest.raises(DatasetUnavailable, match="make_co2"):
        fetch("co2", "co2_mauna_loa_monthly.csv")


@pytest.mark.parametrize("place", ["user", "repository"])
def test_a_hand_placed_file_with_a_wrong_hash_is_an_error_and_stays(folders, remote, place):
    path = folders.place("notmnist-small", FILE, CONTENT[:-1], where=getattr(folders, place))
    with pytest.raises(DatasetCorrupt) as caught:
        load()
    for said in (str(path), sha256(CONTENT), sha256(CONTENT[:-1]), "replace it"):
        assert said in str(caught.value)
    assert path.read_bytes() == CONTENT[:-1]
    assert not remote.requests


def test_a_repaired_file_is_hashed_again(folders, remote):
    path = folders.place("notmnist-small", FILE, b"!" + CONTENT[1:])
    os.utime(path, ns=(0, 10**18))
    with pytest.raises(DatasetCorrupt):
        load()
    path.write_bytes(CONTENT)
    os.utime(path, ns=(0, 10**18 + 1))
    assert load() == path


def test_a_truncated_file_in_the_cache_is_downloaded_again(folders, remote):
    folders.place("notmnist-small", FILE, CONTENT[:50], where=folders.cache)
    assert load().read_bytes() == CONTENT


def test_a_truncated_file_in_the_cache_without_network_stays_and_is_named(folders, remote):
    remote.answers.clear()
    path = folders.place("notmnist-small", FILE, CONTENT[:50], where=folders.cache)
    with pytest.raises(DatasetUnavailable) as caught:
        load()
    assert str(path) in str(caught.value)
    assert sha256(CONTENT[:50]) in str(caught.value)
    assert path.read_bytes() == CONTENT[:50]


def test_what_an_earlier_crash_left_behind_is_removed(folders, remote):
    leftover = folders.place("notmnist-small", "tmpab12cd_x", b"half", where=folders.cache)
    other = folders.place("notmnist-small", "notes.txt", b"mine", where=folders.cache)
    assert load().read_bytes() == CONTENT
    assert not leftover.exists()
    assert other.exists()


def test_a_cache_below_a_plain_file(folders, remote, tmp_path, monkeypatch):
    (tmp_path / "plain").write_text("")
    monkeypatch.setattr(pooch, "os_cache", lambda project: tmp_path / "plain" / "cache")
    with pytest.raises(DatasetUnavailable, match="cannot write to the cache folder"):
        load()


def test_a_read_only_cache_is_used_if_it_has_the_file_and_named_if_not(
    folders, remote, monkeypatch
):
    path = folders.place("notmnist-small", FILE, CONTENT, where=folders.cache)

    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    for call in ("mkdir", "open", "rename", "replace", "unlink"):
        monkeypatch.setattr(os, call, refuse)  # chmod does not bind the superuser
    assert load() == path
    path.write_bytes(CONTENT[:-1])
    with pytest.raises(DatasetUnavailable, match=r"cannot write to the cache folder.*denied"):
        load()


def test_a_lock_that_cannot_be_taken(folders, remote):
    (folders.cache / "notmnist-small" / ".lock").mkdir(parents=True)
    with pytest.raises(DatasetUnavailable, match="cannot write to the cache folder"):
        load()


def test_a_full_disk(folders, remote, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pooch, "retrieve", full)
    with pytest.raises(DatasetUnavailable, match="No space left"):
        load()


def _fetch_in_child(cache: str, url: str, barrier, results) -> None:
    pooch.os_cache = lambda project: Path(cache)
    fetching.REPOSITORY_DATA = Path(cache) / "none"
    from dataclasses import replace

    from bdl_lessons.datasets import registry

    entry = registry.entry("notmnist-small")
    files = tuple(replace(f, urls=(url,), hash=sha256(CONTENT)) for f in entry.files)
    registry.ENTRIES["notmnist-small"] = replace(entry, files=files)
    barrier.wait(60)
    results.put(load().read_bytes() == CONTENT)


def test_two_processes_at_once_end_with_one_correct_file(folders, remote, monkeypatch):
    monkeypatch.delenv("BDL_DATA_DIR")
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(2), context.Queue()
    arguments = (str(folders.cache), f"{remote.url}/{FILE}", barrier, results)
    children = [context.Process(target=_fetch_in_child, args=arguments) for _ in range(2)]
    for child in children:
        child.start()
    assert [results.get(timeout=90) for _ in children] == [True, True]
    for child in children:
        child.join(30)
        assert child.exitcode == 0
    assert cached(folders).read_bytes() == CONTENT
    assert remote.requests["/" + FILE] == 1, "the second waits for the first"


def test_a_file_the_set_does_not_have():
    with pytest.raises(ValueError, match=r"unknown file of mnist 'train.gz'.*t10k-labels"):
        fetch("mnist", "train.gz")


def test_every_failure_is_a_dataset_error():
    assert issubclass(DatasetUnavailable, DatasetError)
    assert issubclass(DatasetCorrupt, DatasetError)
