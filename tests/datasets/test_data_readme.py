from __future__ import annotations

import hashlib
import re
import subprocess

import pytest

from bdl_lessons.core.files import DATA

NOT_HASHED = ("README.md", ".gitattributes", "results/")


def recorded() -> dict[str, str]:
    """Path below data/ -> sha256, from the rows of the table."""
    rows = re.findall(r"^\| `([^`]+)` \|.*\| `([0-9a-f]{64})` \|$", text(), re.MULTILINE)
    return dict(rows)


def text() -> str:
    return (DATA / "README.md").read_text(encoding="utf-8")


def committed() -> list[str]:
    run = subprocess.run(["git", "ls-files", "."], cwd=DATA, capture_output=True, text=True)
    if run.returncode:
        pytest.skip("not a git repository: committed files unknown")
    paths = run.stdout.splitlines()
    return [path for path in paths if not path.startswith(NOT_HASHED) and not path.endswith(".py")]


def test_every_committed_file_has_a_row_with_its_hash():
    rows, problems = recorded(), []
    for path in committed():
        digest = hashlib.sha256((DATA / path).read_bytes()).hexdigest()
        if rows.get(path) != digest:
            problems.append(f"`{path}` should have `{digest}`, data/README.md has {rows.get(path)}")
    assert not problems, "\n".join(problems)


def test_no_row_without_a_file():
    assert [path for path in recorded() if not (DATA / path).is_file()] == []


def test_rows_name_command_source_and_licence():
    lines = [line for line in text().splitlines() if line.startswith("| `")]
    assert len(lines) == len(recorded()), "a row without a hash"
    for line in lines:
        assert all(cell.strip() for cell in line.strip("|").split("|"))
