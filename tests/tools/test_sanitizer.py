"""The comparison of the lessons masks what was measured, and nothing else."""

import re

import pytest
from nbval.plugin import get_sanitize_patterns

from bdl_lessons.core import ResultsTable, check, check_between, check_table
from bdl_lessons.core.files import ROOT

PATTERNS = get_sanitize_patterns((ROOT / "tests/nbval_sanitize.cfg").read_text(encoding="utf-8"))


def masked(text):
    for pattern, replacement in PATTERNS:
        text = re.sub(pattern, replacement, text)
    return text


def one(claim, value, expect, atol):
    check(claim, value, expect=expect, atol=atol)


def few(claim, value, expect, atol):
    check(claim, [value, -value / 1e9], expect=[expect, 0], atol=atol)


def many(claim, value, expect, atol):
    """A long reference is not printed; the assertion in ``check`` compares it."""
    check(f"{claim} {expect}", [value] * 5, expect=[expect] * 5, atol=atol)


def bounds(claim, value, expect, atol):
    check_between(claim, value, low=expect - 0.1, high=expect + atol)


def table(claim, value, expect, atol):
    with check_table():
        check(claim, value, expect=expect, atol=atol)
        check_between("many", [value] * 9, high=1)


START = {"claim": "Var[z] = keep · p_drop: the (known) variance"}
START |= {"value": 0.25, "expect": 0.25, "atol": 0.1}


@pytest.mark.parametrize("show", [one, few, many, bounds, table])
def test_of_checks_the_measured_value_alone_is_masked(show, capsys):
    def shown(**change):
        show(**(START | change))
        return capsys.readouterr().out

    assert shown() != shown(value=0.2637218)
    assert masked(shown()) == masked(shown(value=0.2637218))
    for change in ({"expect": 0.26}, {"atol": 0.11}, {"claim": "another claim"}):
        assert masked(shown()) != masked(shown(**change))


def results(value=0.25, seeds=(1.0, 2.0), row="dropout", column="error", count=7, caption="x"):
    return ResultsTable({row: {column: value, "NLL": list(seeds), "weights": count}}, caption)


@pytest.mark.parametrize("show", [repr, ResultsTable._repr_html_])
def test_of_a_table_of_results_what_was_measured_is_masked(show):
    first = masked(show(results()))
    assert first == masked(show(results(value=-1.7e-12, seeds=(1.5, 2.5))))
    for change in ({"row": "none"}, {"column": "loss"}, {"count": 8}, {"caption": "y"}):
        assert first != masked(show(results(**change)))
