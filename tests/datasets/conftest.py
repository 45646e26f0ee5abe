"""Made-up files in the official layouts, isolated folders, and a small web server."""

from __future__ import annotations

import gzip
import hashlib
import importlib
import io
import os
import struct
import tarfile
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pooch
import pytest

from bdl_lessons import datasets
from bdl_lessons.datasets import download, registry

fetching = importlib.import_module("bdl_lessons.datasets.fetch")  # the name is also a function
REAL_DATA_DIR = os.environ.get("BDL_DATA_DIR", "")


def sha256(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


def idx_bytes(array: np.ndarray) -> bytes:
    """A uint8 array in idx format, not compressed."""
    return (
        b"\0\0\x08" + bytes([array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    ) + array.astype(np.uint8).tobytes()


def tar_gz(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


@dataclass
class Folders:
    """Empty stand-ins for the three places a file may lie in, and for the registry."""

    user: Path
    repository: Path
    cache: Path
    monkeypatch: pytest.MonkeyPatch

    def register(self, dataset: str, file: str, *, urls=(), hash: str, unpacked_hash=None):
        """Replace what the registry says about one file."""
        entry = registry.entry(dataset)
        new = replace(entry.file(file), urls=tuple(urls), hash=hash, unpacked_hash=unpacked_hash)
        files = tuple(new if f.name == file else f for f in entry.files)
        self.monkeypatch.setitem(registry.ENTRIES, dataset, replace(entry, files=files))

    def put(self, dataset: str, file: str, content: bytes, *, where: Path | None = None) -> Path:
        """Write a file into BDL_DATA_DIR (or ``where``) and register its hash."""
        self.register(dataset, file, hash=sha256(content))
        return self.place(dataset, file, content, where=where)

    def place(self, dataset: str, file: str, content: bytes, *, where: Path | None = None) -> Path:
        path = (where or self.user) / registry.entry(dataset).folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path


@pytest.fixture
def folders(tmp_path, monkeypatch) -> Folders:
    places = Folders(*(tmp_path / name for name in ("user", "repository", "cache")), monkeypatch)
    places.user.mkdir()
    monkeypatch.setenv("BDL_DATA_DIR", str(places.user))
    monkeypatch.setattr(fetching, "REPOSITORY_DATA", places.repository)
    monkeypatch.setattr(pooch, "os_cache", lambda project: places.cache)
    monkeypatch.setattr(download.time, "sleep", lambda seconds: None)
    return places


@pytest.fixture
def real():
    """``real(name)`` skips the test unless the data set is in BDL_DATA_DIR."""

    def require(name: str) -> None:
        if not REAL_DATA_DIR:
            pytest.skip("BDL_DATA_DIR is not set: real data not tested")
        if "BDL_DATA_DIR" not in datasets.info(name).where:
            pytest.skip(f"{name} is not in BDL_DATA_DIR")

    return require


@dataclass
class Server:
    """What the local web server answers, by path, and how often it was asked."""

    url: str
    answers: dict[str, bytes | int | Callable] = field(default_factory=dict)
    """Content, a status, or a function that gets the handler."""
    requests: Counter = field(default_factory=Counter)
    promised: dict[str, int] = field(default_factory=dict)
    """Content-Length to announce where it is not the true one."""


@pytest.fixture
def server():
    state = Server("")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            state.requests[self.path] += 1
            answer = state.answers.get(self.path, 404)
            if isinstance(answer, int):
                self.send_error(answer)
                return
            if callable(answer):
                answer(self)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(state.promised.get(self.path, len(answer))))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *args):
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{httpd.server_port}"
    thread = threading.Thread(target=httpd.serve_forever, daemon=True)
    thread.start()
    yield state
    httpd.shutdown()
    httpd.server_close()
    thread.join()


def gzipped(content: bytes) -> bytes:
    return gzip.compress(content, mtime=0)
