"""Files of the pages are written where their content is new, and only there."""

import os

from tools.web.live import write_if_changed


def test_a_file_is_replaced_when_its_content_changed_and_left_alone_otherwise(tmp_path):
    path = tmp_path / "web" / "player.js"
    write_if_changed(path, b"old")
    os.utime(path, ns=(1, 1))
    write_if_changed(path, b"old")
    assert path.stat().st_mtime_ns == 1
    write_if_changed(path, b"new")
    assert path.read_bytes() == b"new"
