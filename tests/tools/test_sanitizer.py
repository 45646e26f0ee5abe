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


def show_one(claim, value, expect, atol):
    check(claim, value, expect=expect, atol=atol)


def show_two(claim, value, expect, atol):
    check(claim, [value, -value / 1e9], expect=[expect, 0], atol=atol)


def show_many(claim, value, expect, atol):
    """A long reference is not printed; the assertion in ``check`` compares it."""
    check(f"{claim} {expect}", [value] * 5, expect=[expect] * 5, atol=atol)


def show_bounds(claim, value, expect, atol):
    check_between(claim, value, low=expect - 0.1, high=expect + atol)


def show_table(claim, value, expect, atol):
    with check_table():
        check(claim, value, expect=expect, atol=atol)
        check_between("many", [value] * 9, high=1)


CLAIM = "Var[z] = keep · p_drop: the (known) variance"
SHOW = [show_one, show_two, show_many, show_bounds, show_table]


@pytest.mark.parametrize("show", SHOW, ids=lambda show: show.__name__)
def test_of_checks_the_measured_value_alone_is_masked(show, capsys):
    def printed(claim=CLAIM, value=0.25, expect=0.25, atol=0.1):
        show(claim=claim, value=value, expect=expect, atol=atol)
        return capsys.readouterr().out

    assert printed() != printed(value=0.2637218)
    assert masked(printed()) == masked(printed(value=0.2637218))
    assert masked(printed()) != masked(printed(expect=0.26))
    assert masked(printed()) != masked(printed(atol=0.11))
    assert masked(printed()) != masked(printed(claim="another claim"))


@pytest.mark.parametrize("show", [repr, ResultsTable._repr_html_])
def test_of_a_table_of_results_what_was_measured_is_masked(show):
    def printed(row="dropout", column="error", value=0.25, nll=(1.0, 2.0), count=7, caption="x"):
        table = ResultsTable({row: {column: value, "NLL": list(nll), "weights": count}}, caption)
        return masked(show(table))

    assert printed() == printed(value=-1.7e-12, nll=(1.5, 2.5))
    assert printed() != printed(row="none")
    assert printed() != printed(column="loss")
    assert printed() != printed(count=8)
    assert printed() != printed(caption="y")
