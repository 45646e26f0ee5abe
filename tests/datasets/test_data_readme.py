import hashlib
import re
import subprocess

import pytest

from bdl_lessons.core.files import DATA

NOT_HASHED = ("README.md", ".gitattributes", "results/")
TEXT = (DATA / "README.md").read_text(encoding="utf-8")
RECORDED = dict(re.findall(r"^\| `([^`]+)` \|.*\| `([0-9a-f]{64})` \|$", TEXT, re.MULTILINE))
"""Path below data/ -> sha256, from the rows of the table."""


def committed() -> list[str]:
    run = subprocess.run(["git", "ls-files", "."], cwd=DATA, capture_output=True, text=True)
    if run.returncode:
        pytest.skip("not a git repository: committed files unknown")
    paths = run.stdout.splitlines()
    return [path for path in paths if not path.startswith(NOT_HASHED) and not path.endswith(".py")]


def test_every_committed_file_has_a_row_with_its_hash():
    problems = []
    for path in committed():
        digest = hashlib.sha256((DATA / path).read_bytes()).hexdigest()
        if (recorded := RECORDED.get(path)) != digest:
            problems.append(f"`{path}` should have `{digest}`, data/README.md has {recorded}")
    assert not problems, "\n".join(problems)


def test_rows_have_a_file_and_name_command_source_and_licence():
    assert [path for path in RECORDED if not (DATA / path).is_file()] == []
    lines = [line for line in TEXT.splitlines() if line.startswith("| `")]
    assert len(lines) == len(RECORDED), "a row without a hash"
    for line in lines:
        assert all(cell.strip() for cell in line.strip("|").split("|"))
