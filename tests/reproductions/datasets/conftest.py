"""Made-up files in the official layouts, isolated folders, and a network of their own."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pooch
import pytest

from reproductions.datasets import files, images

REAL_DATA_DIR = os.environ.get("BDL_DATA_DIR", "")


def sha256(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


@dataclass
class Folders:
    """Empty stand-ins for the three places that a file may lie in."""

    user: Path
    repository: Path
    cache: Path
    monkeypatch: pytest.MonkeyPatch

    def put(self, source: str, name: str, content: bytes) -> None:
        """Write a file into BDL_DATA_DIR and take its hash for the official one."""
        old = images.SETS[source]
        new = replace(old, files={**old.files, name: sha256(content)})
        self.monkeypatch.setitem(images.SETS, source, new)
        self.place(self.user, new.folder, name, content)

    def place(self, root: Path, folder: str, name: str, content: bytes) -> Path:
        path = root / folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path


@pytest.fixture
def folders(tmp_path, monkeypatch) -> Folders:
    places = Folders(*(tmp_path / name for name in ("user", "repository", "cache")), monkeypatch)
    places.user.mkdir()
    monkeypatch.setenv("BDL_DATA_DIR", str(places.user))
    monkeypatch.setattr(files, "DATA", places.repository)
    monkeypatch.setattr(pooch, "os_cache", lambda project: places.cache)
    monkeypatch.setattr(files.time, "sleep", lambda seconds: None)
    return places


@pytest.fixture
def real():
    """``real(folder)`` skips the test unless the data set is in BDL_DATA_DIR."""

    def require(folder: str) -> Path:
        path = Path(REAL_DATA_DIR) / folder
        if not REAL_DATA_DIR or not path.is_dir():
            pytest.skip(f"{folder} is not in BDL_DATA_DIR: real data not tested")
        return path

    return require


@dataclass
class Network:
    """What is answered at an address, and how often it was asked; without an answer, not found."""

    answers: dict[str, bytes | Callable[[], bytes]] = field(default_factory=dict)
    requests: Counter = field(default_factory=Counter)

    def __call__(self, url: str, output_file: str, _: object) -> None:
        self.requests[url] += 1
        answer = self.answers.get(url)
        if answer is None:
            raise OSError(f"404: {url}")
        Path(output_file).write_bytes(answer() if callable(answer) else answer)


@pytest.fixture
def server(monkeypatch) -> Network:
    network = Network()
    monkeypatch.setattr(pooch, "HTTPDownloader", lambda progressbar, timeout: network)
    return network
