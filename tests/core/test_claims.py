import numpy as np
import pytest
import torch

from bdl_lessons.core import CheckFailed, ResultsTable, check, check_between, check_table


def test_prints_claim_measured_value_reference_and_tolerance(capsys):
    check("mean", 0.2503, expect=0.25, atol=1e-3)
    assert capsys.readouterr().out == "ok   mean: 0.2503 (expected 0.25 ± 0.001)\n"


def test_prints_a_few_numbers_one_by_one(capsys):
    check("pair", torch.tensor([0.5, 0.26]), expect=[0.5, 0.25], atol=0.1)
    check("three", [1.0, 2.0, 1.5], expect=1.5, atol=1)
    assert capsys.readouterr().out.splitlines() == [
        "ok   pair: 0.5, 0.26 (expected 0.5, 0.25 ± 0.1)",
        "ok   three: 1, 2, 1.5 (expected 1.5 ± 1)",
    ]


def test_sums_up_many_numbers(capsys):
    check("table", torch.full((2, 3), 0.25), expect=np.zeros((2, 3)), atol=1)
    check("many", np.arange(9) / 8, expect=0.5, atol=1)
    check_between("many", np.arange(9) / 8, high=1)
    assert capsys.readouterr().out.splitlines() == [
        "ok   table: off by 2.5e-01 (expected a reference of shape 2×3 ± 1)",
        "ok   many: 0 to 1 (expected 0.5 ± 1)",
        "ok   many: 0 to 1 (expected <= 1)",
    ]


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

    def test_equal_runs_have_no_error(self):
        assert "2.00 ± 0.00" in repr(ResultsTable({"a": {"x": [2.0, 2.0]}}, "x"))

    @pytest.mark.parametrize(
        ("rows", "message"),
        [
            ({}, "at least one row"),
            ({"a": {}}, "at least one row and one column"),
            ({"a": {"x": 1.0}, "b": {"y": 1.0}}, r"row 'b' has columns \['y'\], not \['x'\]"),
            ({"a": {"x": float("nan")}}, "a, x: a result must be finite"),
            ({"a": {"x": [1.0, float("inf")]}}, "a, x: a result must be finite"),
            ({"a": {"x": []}}, "a, x is empty"),
        ],
    )
    def test_a_table_that_says_nothing_is_refused(self, rows, message):
        with pytest.raises(ValueError, match=message):
            ResultsTable(rows, "x")


def test_failure_carries_the_worst_measured_value():
    with pytest.raises(CheckFailed, match=r"mean: measured 0\.5, expected 0\.25 ± 0\.001"):
        check("mean", [0.25, 0.5, 0.3], expect=0.25, atol=1e-3)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [0.25, float("nan")]])
def test_what_is_not_finite_fails(value):
    with pytest.raises(CheckFailed):
        check("mean", value, expect=0.25, atol=10)


def test_the_tolerance_is_inclusive_and_binding():
    check("edge", 1.5, expect=1.0, atol=0.5)
    with pytest.raises(CheckFailed):
        check("edge", 1.5000001, expect=1.0, atol=0.5)


def test_shapes_do_not_broadcast_silently():
    with pytest.raises(ValueError, match=r"value has shape \(2, 1\), expect has \(2,\)"):
        check("mean", np.zeros((2, 1)), expect=np.zeros(2), atol=1)


@pytest.mark.parametrize(
    ("expect", "atol", "message"),
    [
        (0.0, -1, "atol"),
        (0.0, np.nan, "atol"),
        (0.0, np.inf, "atol"),
        (np.nan, 1, "expect must be finite"),
    ],
)
def test_a_meaningless_reference_is_refused(expect, atol, message):
    with pytest.raises(ValueError, match=message):
        check("mean", 0.0, expect=expect, atol=atol)


def test_gradients_and_devices_do_not_matter():
    check("grad", torch.ones(2, requires_grad=True), expect=[1, 1], atol=0)


def test_between_prints_measured_value_and_bounds(capsys):
    check_between("ratio", torch.tensor([1.2, 1.9]), low=1, high=2)
    check_between("ratio", 3.0, low=1)
    check_between("ratio", 3.0, high=4.5)
    assert capsys.readouterr().out.splitlines() == [
        "ok   ratio: 1.2, 1.9 (expected 1 to 2)",
        "ok   ratio: 3 (expected >= 1)",
        "ok   ratio: 3 (expected <= 4.5)",
    ]


@pytest.mark.parametrize("value", [0.99, 2.01, float("nan"), [1.5, 3.0]])
def test_between_fails_outside(value):
    with pytest.raises(CheckFailed, match="ratio: measured"):
        check_between("ratio", value, low=1, high=2)


@pytest.mark.parametrize("bounds", [{}, {"low": 2, "high": 1}, {"low": float("nan")}])
def test_between_needs_sensible_bounds(bounds):
    with pytest.raises(ValueError, match="ratio"):
        check_between("ratio", 1.0, **bounds)


@pytest.mark.parametrize("empty", [[], torch.empty(0), np.zeros((3, 0))])
def test_nothing_is_not_compared(empty):
    with pytest.raises(ValueError, match="'mean': value is empty"):
        check("mean", empty, expect=1.0, atol=1e-6)
    with pytest.raises(ValueError, match="'mean': expect is empty"):
        check("mean", 1.0, expect=empty, atol=1e-6)
    with pytest.raises(ValueError, match="'mean': value is empty"):
        check_between("mean", empty, low=0)


@pytest.mark.parametrize("value", [1 + 5j, [1 + 5j], np.array([1 + 5j]), torch.tensor([1 + 5j])])
def test_an_imaginary_part_is_not_dropped(value):
    with pytest.raises(TypeError, match="'mean': value is complex; check its real part"):
        check("mean", value, expect=1.0, atol=1e-6)
    with pytest.raises(TypeError, match="'mean': expect is complex"):
        check("mean", 1.0, expect=value, atol=1e-6)
    with pytest.raises(TypeError, match="'mean': value is complex"):
        check_between("mean", value, low=0)
