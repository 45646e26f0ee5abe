import os

import pytest

from reproductions.files import read_checked, replacing, write_checked


def test_an_error_leaves_the_old_content_and_nothing_else(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def write_half():
        with replacing(path) as file:
            file.write(b"half of")
            assert path.read_text() == "old"
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        write_half()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_killed_process_left_is_cleared_away_after_an_hour(tmp_path):
    path = tmp_path / "a.txt"
    old, new = (tmp_path / f"a.txt.{pid}.unfinished" for pid in (1, 2))
    for left in (old, new):
        left.write_text("half of")
    os.utime(old, (0, 0))
    with replacing(path) as file:
        file.write(b"new")
    assert path.read_text() == "new"
    assert sorted(tmp_path.iterdir()) == [path, new]


def test_a_checked_file_gives_back_what_was_written_and_nothing_else(tmp_path):
    path = tmp_path / "a.bin"
    content = b"content of the file"
    write_checked(path, content)
    assert read_checked(path) == content
    whole = path.read_bytes()
    for damaged in (b"", whole[:20], whole[:-1], whole + b"0", b"0" + whole[1:]):
        path.write_bytes(damaged)
        assert read_checked(path) is None
