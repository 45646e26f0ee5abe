from __future__ import annotations

import io
import tarfile

import numpy as np
import pytest

from bdl_lessons.datasets import DatasetCorrupt
from bdl_lessons.datasets.archives import read_members, read_npz, read_records

from .conftest import tar_gz


@pytest.fixture
def archive(tmp_path):
    def write(content: bytes):
        path = tmp_path / "a.tar.gz"
        path.write_bytes(content)
        return path

    return write


def special(name: str, **attributes) -> bytes:
    """An archive with one member that is not a regular file."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        member = tarfile.TarInfo(name)
        for key, value in attributes.items():
            setattr(member, key, value)
        tar.addfile(member)
    return buffer.getvalue()


def test_reads_wanted_members_only(archive):
    path = archive(tar_gz({"./b.bin": b"bb", "other": b"x" * 100, "a.bin": b"a"}))
    assert read_members(path, {"a.bin": 1, "b.bin": 2}) == {"a.bin": b"a", "b.bin": b"bb"}


def test_stops_at_the_last_wanted_member(archive):
    noise = np.random.default_rng(0).integers(0, 256, 10**6, np.uint8).tobytes()
    whole = tar_gz({"a.bin": b"a" * 1000, "unlabelled": noise})
    assert read_members(archive(whole[: len(whole) // 2]), {"a.bin": 1000})["a.bin"] == b"a" * 1000


def test_nothing_is_written_whatever_the_members_are_called(archive, tmp_path):
    path = archive(tar_gz({"../evil": b"x", "/evil": b"x", "a.bin": b"a"}))
    read_members(path, {"a.bin": 1})
    assert [p.name for p in tmp_path.iterdir()] == ["a.tar.gz"]
    assert not (tmp_path.parent / "evil").exists()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (tar_gz({"b.bin": b"b"}), "it has no a.bin"),
        (tar_gz({"a.bin": b"aa"}), "at most 1 bytes"),
        (special("a.bin", type=tarfile.SYMTYPE, linkname="/etc/passwd"), "is not a file"),
        (special("a.bin", type=tarfile.LNKTYPE, linkname="b.bin"), "is not a file"),
        (special("a.bin", type=tarfile.DIRTYPE), "is not a file"),
        (tar_gz({"b.bin": b"b" * 10**5, "a.bin": b"a"})[:100], "a.tar.gz"),
        (b"", "a.tar.gz"),
        (b"<html>", "a.tar.gz"),
    ],
    ids=["missing", "large", "symlink", "hard link", "folder", "truncated", "empty", "html"],
)
def test_bad_archives_are_named(archive, content, said):
    path = archive(content)
    with pytest.raises(DatasetCorrupt, match=said) as caught:
        read_members(path, {"a.bin": 1})
    assert str(path) in str(caught.value)


def test_records(tmp_path):
    assert read_records(bytes(range(6)), 3, tmp_path).tolist() == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(DatasetCorrupt, match="7 bytes are not a whole number of 3-byte rows"):
        read_records(b"1234567", 3, tmp_path)


def test_npz_refuses_pickles_wrong_dtypes_and_missing_arrays(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, x=np.arange(3, dtype=np.uint8), objects=np.array([{}], dtype=object))
    assert read_npz(path, {"x": np.uint8})[0].tolist() == [0, 1, 2]
    for wanted, said in (
        ({"objects": np.uint8}, "allow_pickle=False"),
        ({"x": np.int64}, "should be int64, is uint8"),
        ({"y": np.uint8}, "y"),
    ):
        with pytest.raises(DatasetCorrupt, match=said):
            read_npz(path, wanted)
    whole = path.read_bytes()
    path.write_bytes(whole[:-30])
    with pytest.raises(DatasetCorrupt, match=r"a\.npz"):
        read_npz(path, {"x": np.uint8})
