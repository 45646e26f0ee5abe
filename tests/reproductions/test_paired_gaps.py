import pandas as pd
import pytest

from reproductions.paired_gaps import LEAST_SEEDS, claim, gaps_by_seed, signed


def measured(kind, accuracies):
    """Two values a seed, half a point around the mean."""
    rows = []
    for seed, mean in accuracies.items():
        for value in (mean - 0.5, mean + 0.5):
            rows.append({"kind": kind, "seed": seed, "accuracy": value})
    return rows


def test_gaps_are_between_means_on_the_same_seed():
    """The seeds stand in different orders, and one of them lacks the other kind."""
    rows = measured("ours", {0: 91.0, 1: 95.0, 2: 70.0}) + measured("other", {1: 93.0, 0: 90.0})
    gaps = gaps_by_seed(pd.DataFrame(rows), "kind", "ours", "other")
    assert gaps.to_dict() == pytest.approx({0: 1.0, 1: 2.0})


def test_a_kind_that_was_not_measured_has_no_gaps():
    rows = pd.DataFrame(measured("ours", {0: 91.0}))
    assert gaps_by_seed(rows, "kind", "ours", "other").empty
    assert gaps_by_seed(rows, "kind", "other", "ours").empty


def test_a_negative_mean_has_one_sign():
    assert signed(pd.Series([-2.0, -1.0, -3.0]), digits=2) == "-2.00 ± 0.58"


@pytest.mark.parametrize(
    ("mean", "sign", "holds"), [(1.5, 1, 1), (1.0, 1, 0), (-1.5, 1, 0), (-1.5, -1, 1), (1.5, -1, 0)]
)
def test_a_case_counts_from_two_errors_on_and_with_the_sign(mean, sign, holds):
    """Three gaps a unit apart have a standard error of 0.58."""
    gaps = pd.Series([mean - 1, mean, mean + 1])
    of_one = claim(
        "Ours is ahead",
        published="ahead",
        gaps={"30°": gaps, "too few": gaps[: LEAST_SEEDS - 1]},
        condition="toys",
        digits=1,
        sign=sign,
    )
    assert (of_one.holds, of_one.of) == (holds, 1)
    assert of_one.ours == f"30° {signed(gaps, digits=1)} points"


def test_nothing_that_was_measured_is_nothing_that_holds():
    of_none = claim("", published="", gaps={}, condition="", digits=1)
    assert of_none.verdict == "not run"
    assert of_none.ours == "–"
