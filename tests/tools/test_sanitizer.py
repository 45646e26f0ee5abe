"""The comparison of the lessons masks what was measured, and nothing else."""

import re

import pytest
from nbval.plugin import get_sanitize_patterns

from bdl_lessons.core import ResultsTable, check, check_between, check_table
from bdl_lessons.core.files import ROOT

CONFIG = ROOT / "tests/nbval_sanitize.cfg"


def masked(text):
    for pattern, replacement in get_sanitize_patterns(CONFIG.read_text(encoding="utf-8")):
        text = re.sub(pattern, replacement, text)
    return text


def table(claim, value, expect, atol):
    with check_table():
        check(claim, value, expect=expect, atol=atol)
        check_between("many", [value] * 9, high=1)


START = {"claim": "Var[z] = keep · p_drop: the (known) variance"}
START |= {"value": 0.25, "expect": 0.25, "atol": 0.1}
SHOWN = {  # what is shown of a claim, a measured value, its reference and the tolerance
    "one": lambda claim, value, expect, atol: check(claim, value, expect=expect, atol=atol),
    "many": lambda claim, value, expect, atol: check(
        claim, [value] * 5, expect=[expect] * 5, atol=atol
    ),
    "few": lambda claim, value, expect, atol: check(
        claim, [value, -value / 1e9], expect=[expect, 0], atol=atol
    ),
    "bounds": lambda claim, value, expect, atol: check_between(
        claim, value, low=expect - 0.1, high=expect + atol
    ),
    "table": table,
}


def shown(kind, capsys, **change):
    SHOWN[kind](**(START | change))
    return capsys.readouterr().out


@pytest.mark.parametrize("kind", SHOWN)
def test_another_measured_value_is_the_same_text(kind, capsys):
    first, second = shown(kind, capsys), shown(kind, capsys, value=0.2637218)
    assert first != second
    assert masked(first) == masked(second)


@pytest.mark.parametrize("kind", SHOWN)
@pytest.mark.parametrize("change", [{"expect": 0.26}, {"atol": 0.11}, {"claim": "another claim"}])
def test_another_claim_reference_or_tolerance_is_another_text(kind, change, capsys):
    if kind == "many" and "expect" in change:
        return  # a long reference is not printed; the assertion in check compares it
    assert masked(shown(kind, capsys)) != masked(shown(kind, capsys, **change))


def results(value=0.25, seeds=(1.0, 2.0), row="dropout", column="error", count=7, caption="x"):
    return ResultsTable({row: {column: value, "NLL": list(seeds), "weights": count}}, caption)


@pytest.mark.parametrize("show", [repr, ResultsTable._repr_html_])
def test_a_table_of_results(show):
    first = masked(show(results()))
    assert first == masked(show(results(value=-1.7e-12, seeds=(1.5, 2.5))))
    for change in ({"row": "none"}, {"column": "loss"}, {"count": 8}, {"caption": "y"}):
        assert first != masked(show(results(**change)))
