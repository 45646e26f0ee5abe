import numpy as np
import pytest
import torch

from bdl_lessons.core import CheckFailed, ResultsTable, check, check_between, check_table

NAN = np.nan
EIGHTHS = np.arange(9) / 8


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda: check("m", 0.2503, expect=0.25, atol=1e-3), "m: 0.2503 (expected 0.25 ± 0.001)"),
        (lambda: check("x", [1.0, 2.0], expect=[1.5, 2], atol=1), "x: 1, 2 (expected 1.5, 2 ± 1)"),
        (
            lambda: check("table", torch.full((2, 3), 0.25), expect=np.zeros((2, 3)), atol=1),
            "table: off by 2.5e-01 (expected a reference of shape 2×3 ± 1)",
        ),
        (lambda: check("edge", 1.5, expect=1.0, atol=0.5), "edge: 1.5 (expected 1 ± 0.5)"),
        (lambda: check("g", [torch.ones((), requires_grad=True)], 1, 0), "g: 1 (expected 1 ± 0)"),
        (lambda: check_between("many", EIGHTHS, high=1), "many: 0 to 1 (expected <= 1)"),
        (lambda: check_between("r", [1.2, 1.9], low=1, high=2), "r: 1.2, 1.9 (expected 1 to 2)"),
        (lambda: check_between("r", 3.0, low=1), "r: 3 (expected >= 1)"),
    ],
)
def test_a_claim_that_holds_is_printed_with_measurement_and_reference(call, line, capsys):
    call()
    assert capsys.readouterr().out == f"ok   {line}\n"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: check("m", [0.2, 0.5, 0.3], 0.25, atol=0.1), "m: measured 0.5, expected 0.25"),
        (lambda: check("x", NAN, expect=0.25, atol=10), "x: measured nan"),
        (lambda: check_between("x", 0.99, low=1, high=2), "x: measured 0.99, expected 1 to 2"),
        (lambda: check_between("x", [1.5, 2.01], low=1, high=2), "x: measured 2.01"),
        (lambda: check_between("x", NAN, low=1, high=2), "x: measured nan"),
    ],
)
def test_a_claim_that_does_not_hold_fails_with_the_worst_value(call, message):
    with pytest.raises(CheckFailed, match=message):
        call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: check("m", EIGHTHS[:, None], expect=EIGHTHS, atol=1), r"value has shape \(9, 1\)"),
        (lambda: check("m", 0.0, expect=NAN, atol=1), "expect must be finite"),
        (lambda: check("m", [], expect=1.0, atol=1), "value is empty"),
        (lambda: check_between("m", 1.0), "give low, high or both"),
        (lambda: check_between("m", 1.0, low=2, high=1), "nothing between"),
    ],
)
def test_a_claim_without_meaning_is_refused_by_name(call, message):
    with pytest.raises((TypeError, ValueError), match=f"'m': .*{message}|'m'.*{message}"):
        call()


def test_several_checks_make_one_aligned_table(capsys):
    with check_table():
        check("mean", 0.2503, expect=0.25, atol=1e-3)
        check_between("a ratio", torch.tensor([1.2, 1.9]), low=1, high=2)
        assert capsys.readouterr().out == ""
    assert capsys.readouterr().out.splitlines() == [
        "     claim   │ measured               │ expected",
        "ok   mean    │ 0.2503                 │ 0.25 ± 0.001",
        "ok   a ratio │ 1.2, 1.9               │ 1 to 2",
    ]


def test_a_long_claim_goes_on_below_so_that_no_number_is_broken(capsys):
    claim = "a claim that needs many more words than there is room for beside four long numbers"
    with check_table():
        check(claim, [1, 2, 3, 4], [1, 2, 3, 4], atol=1e-12)
        check("short", 1, 1, atol=0)
    head, first, *others, last = capsys.readouterr().out.splitlines()
    assert max(map(len, (head, first, *others, last))) <= 104
    assert first.endswith("│ 1, 2, 3, 4 ± 1e-12")
    assert all(line.count("│") == 2 and line.startswith("     ") for line in others)
    assert " ".join(line[5:].partition("│")[0].strip() for line in (first, *others)) == claim
    assert last.startswith("ok   short ")


def test_a_failure_in_a_table_shows_what_held_before_it(capsys):
    def both():
        with check_table():
            check("first", 1, expect=1, atol=0)
            check("second", 3, expect=1, atol=0)

    with pytest.raises(CheckFailed, match="second: measured 3"):
        both()
    assert "ok   first" in capsys.readouterr().out
    check("alone", 1, expect=1, atol=0)
    assert capsys.readouterr().out == "ok   alone: 1 (expected 1 ± 0)\n"


RESULTS = {
    "none": {"error (%)": [3.9, 4.1, 4.0], "NLL": 0.12, "weights": 1234, "prior": "none"},
    "dropout": {"error (%)": torch.tensor([3.0, 3.2]), "NLL": 0.1, "weights": 9, "prior": "<b>"},
}


class TestResultsTable:
    def test_seeds_become_mean_and_standard_error(self):
        text = repr(ResultsTable(RESULTS, "300 examples"))
        assert text.splitlines()[0] == "300 examples"
        assert "4.000 ± 0.058" in text  # std of 3.9, 4.1, 4.0 is 0.1; over sqrt(3) it is 0.0577
        assert "3.10 ± 0.10" in text

    def test_only_floats_are_marked_as_measured(self):
        shown = ResultsTable(RESULTS, "x")._repr_html_()
        assert shown.count('<td class="measured">') == 4
        assert '<td class="measured">0.12</td><td>1234</td>' in shown
        assert "&lt;b&gt;" in shown
        assert '<th scope="row">dropout</th>' in shown

    @pytest.mark.parametrize(
        ("rows", "message"),
        [
            ({"a": {}}, "at least one row and one column"),
            ({"a": {"x": 1.0}, "b": {"y": 1.0}}, r"row 'b' has columns \['y'\], not \['x'\]"),
            ({"a": {"x": float("nan")}}, "a, x: a result must be finite"),
            ({"a": {"x": []}}, "a, x is empty"),
        ],
    )
    def test_a_table_that_says_nothing_is_refused(self, rows, message):
        with pytest.raises(ValueError, match=message):
            ResultsTable(rows, "x")
