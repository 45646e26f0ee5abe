"""The whole course as one file: what is committed, as a zip archive."""

from __future__ import annotations

import subprocess
from functools import cache

from bdl_lessons.core.files import ROOT

NAME = "bdl-course.zip"


@cache
def content() -> bytes:
    """The archive of the last commit; nothing where there is no repository or no git."""
    command = ["git", "archive", "--format=zip", "--prefix=bdl-course/", "HEAD"]
    try:
        return subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return b""
