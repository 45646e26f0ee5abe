"""No test compares the bits of floats unless it says why that is safe on every machine.

Floats that come by two routes, in two batch sizes, on two processors or with two thread counts
differ in their last bits. ``torch.testing.assert_close`` and ``pytest.approx`` compare such floats;
"all different" is asked as ``torch.pdist(rows).min() > 1e-6``, "equal" as ``assert_close`` with an
expanded row. Where bits may be compared, a comment ``# bits: reason`` stands on the line: copies,
indexing, saved and loaded values, integers, Booleans.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
BITWISE = {"equal", "array_equal", "array_equiv", "assert_array_equal", "assert_equal", "unique"}
REASON = re.compile(r"# bits: \w+")


def unexplained(source: str) -> list[int]:
    """Lines that name a comparison of bits, or ask one without a tolerance, and give no reason."""
    lines = source.splitlines()
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if (_compares_bits(node) or _has_no_tolerance(node))
        and not any(REASON.search(line) for line in lines[node.lineno - 1 : node.end_lineno])
    ]


def _compares_bits(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in BITWISE


def _has_no_tolerance(node: ast.AST) -> bool:
    """A call with ``rtol=0, atol=0``, or ``rel=0, abs=0``."""
    if not isinstance(node, ast.Call):
        return False
    zero = {
        keyword.arg
        for keyword in node.keywords
        if isinstance(keyword.value, ast.Constant) and keyword.value.value == 0
    }
    return {"rtol", "atol"} <= zero or {"rel", "abs"} <= zero


@pytest.mark.parametrize("path", sorted(TESTS.rglob("*.py")), ids=lambda p: str(p.name))
def test_bits_are_compared_for_a_reason_only(path):
    places = [f"{path}:{line}" for line in unexplained(path.read_text(encoding="utf-8"))]
    remedy = "use torch.testing.assert_close, or say why: # bits: ..."
    assert not places, "\n".join([remedy, *places])
