import itertools
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from bdl_lessons.core.plot_style import new_figure, style
from bdl_lessons.panels import ranking
from tests.panels.drawn import draw, legends, the

N_SPLITS = 20
WIGGLE = np.tile([-0.1, 0.1], N_SPLITS // 2)

small = st.integers(0, 4).map(float)


def uci_record(method, rmse, likelihood, ms, n_networks=1):
    return {
        "seed": 0,
        "config": {
            "data": "yacht",
            "method": method,
            "n_splits": N_SPLITS,
            "grid": [{}, {}],
        },
        "metrics": {
            "rmse": rmse,
            "rmse_error": 0.1,
            "log_likelihood": likelihood,
            "log_likelihood_error": 0.2,
            "ms_side_by_side": ms,
            "n_side_by_side": 2 * N_SPLITS * n_networks,
        },
        "arrays": {
            "rmse": rmse + WIGGLE,
            "log_likelihood": likelihood - WIGGLE,
        },
    }


def image_record(method, accuracy, seed=0, data="mnist"):
    return {
        "seed": seed,
        "config": {"data": data, "method": method, "ood": []},
        "metrics": {"accuracy_percent": accuracy, "val_nll": 0.1},
    }


@pytest.fixture
def records(monkeypatch):
    every = {
        "uci": [
            uci_record("MAP", rmse=2.0, likelihood=-1.0, ms=0.5),
            uci_record("VD", rmse=1.0, likelihood=-2.0, ms=0.3, n_networks=2),
            uci_record("D.E", rmse=1.5, likelihood=-0.5, ms=0.5, n_networks=5),
        ],
        "image_classification": [
            image_record("MAP", accuracy=50.0, data="fashion-mnist"),
            image_record("MAP", accuracy=90.0),
            image_record("MAP", accuracy=92.0, seed=1),
        ],
        "time_per_step": [
            {
                "config": {"architecture": "lenet5", "device": "cpu"},
                "metrics": {"ratio/MAP": 1.0, "ratio/VD": 1.5},
            }
        ],
    }
    monkeypatch.setattr(ranking, "_recorded", every.__getitem__)


def by_method(data, measure):
    return {row.method: row for row in ranking.rows(data, measure)}


def test_likelihoods_change_their_sign_and_errors_do_not(records):
    error = by_method("yacht", "error")
    assert (error["VD"].score, error["VD"].error) == (1.0, 0.1)
    nll = by_method("yacht", "negative log likelihood")
    assert (nll["VD"].score, nll["VD"].error, nll["VD"].printed) == (2.0, 0.2, 1.42)
    assert np.isnan(nll["MAP"].printed)


def test_time_is_relative_to_the_plain_network_and_counts_all_members(records):
    rows = by_method("yacht", "error")
    assert rows["MAP"].time == pytest.approx(1)
    assert rows["VD"].time == pytest.approx(1.2)
    assert rows["D.E"].time == pytest.approx(5)
    assert ranking._image_time("D.E") == 5
    assert ranking._image_time("VD") == 1.5
    assert np.isnan(ranking._image_time("SWAG"))


def test_seeds_are_averaged(records):
    (row,) = ranking.rows("mnist", "error")
    assert (row.score, row.error) == pytest.approx((9, 1))


def test_the_picture_shows_scores_errors_and_times_by_name(records):
    figure, _ = draw(ranking, data="yacht", measure="negative log likelihood")
    left, right = figure.axes
    assert legends(figure) == [{"ours ± standard error": "blue o", "published": "red s"}]
    rows = by_method("yacht", "negative log likelihood")
    ranked = ["D.E", "MAP", "VD"]
    texts = [text for text in left.texts if text.get_text()]
    assert [text.get_text().split() for text in texts] == [
        [str(place), method] for place, method in enumerate(ranked, start=1)
    ]
    scores, heights = the(left, "ours ± standard error").get_data()
    printed, printed_heights = the(left, "published").get_data()
    (bars,) = left.collections
    for k, (text, method) in enumerate(zip(texts, ranked, strict=True)):
        row = rows[method]
        assert heights[k] == printed_heights[k] == text.get_position()[1]
        assert scores[k] == row.score
        assert printed[k] == pytest.approx(row.printed, nan_ok=True)
        start, end = bars.get_segments()[k]
        assert start == pytest.approx([row.score - 0.2, heights[k]])
        assert end == pytest.approx([row.score + 0.2, heights[k]])
    low, high = left.get_xlim()
    assert low < 0.3 < 2.2 < high
    assert left.get_xlabel() == "← better      − log likelihood of a test point (nats)"

    numbers = {text.get_text(): text.get_position() for text in right.texts if text.get_text()}
    (points,) = [line for line in right.lines if line.get_marker() == "o"]
    assert points.get_xydata().tolist() == [
        [pytest.approx(rows[method].time), rows[method].score] for method in ranked
    ]
    for place, method in enumerate(ranked, start=1):
        x, y = numbers[str(place)]
        assert x == pytest.approx(rows[method].time, rel=0.1)
        assert y == pytest.approx(rows[method].score)
    (front,) = [line for line in right.lines if line.get_linestyle() == "--"]
    assert front.get_xdata() == pytest.approx([1, 5])
    assert front.get_ydata() == pytest.approx([1, 0.5])


def test_the_numbers_of_points_lie_on_no_other_number():
    panel = ranking.panel()
    with style():
        figure = new_figure(*panel.size)
        update = panel.build_figure(figure)
        overlaps = []
        for data, measure in itertools.product(panel.controls["data"].values, ranking.MEASURES):
            update(data, measure)
            texts = [text for text in figure.axes[1].texts if text.get_text()]
            boxes = [text.get_window_extent().padded(-2) for text in texts]
            overlaps += [
                f"{data}, {measure}: {one.get_text()} and {other.get_text()}"
                for (one, box), (other, other_box) in itertools.combinations(
                    zip(texts, boxes, strict=True), 2
                )
                if box.overlaps(other_box)
            ]
    assert overlaps == []


def test_the_readout_names_the_first_its_rivals_and_the_front(records):
    panel = ranking.panel()
    readout = panel.render(data="yacht", measure="error").readout
    assert "<b>VD</b> has the best error, clearly so." in readout
    assert "Pareto-optimal in score and time: VD · MAP" in readout
    assert "<b>MAP</b> has the best" in panel.render(data="mnist", measure="error").readout
    empty = panel.render(data="yacht", measure="calibration error").readout
    assert "No recorded method" in empty


def test_every_setting_has_a_readout_and_room_for_its_methods():
    panel = ranking.panel()
    update = panel.build_figure(Figure(figsize=panel.size))
    for data, measure in itertools.product(panel.controls["data"].values, ranking.MEASURES):
        assert update(data, measure)
        assert len(ranking.rows(data, measure)) <= ranking._MOST


HARD = 5 * np.arange(20.0)  # the same splits are hard for both
NONE = np.zeros(20)
CLEAR = {
    "a steady gap on splits that are hard for both": ("yacht", 2, HARD, HARD + 0.3 + WIGGLE, True),
    "a small one": ("yacht", 2, HARD, HARD + 0.02 + WIGGLE, False),
    "2.9 errors, two methods": ("yacht", 2, NONE, 0.12 + WIGGLE, True),
    "3.6 errors, where six pairs ask for 3.0": ("yacht", 4, NONE, 0.15 + WIGGLE, True),
    "and 105 for 4.2": ("yacht", 15, NONE, 0.15 + WIGGLE, False),
    "one seed": ("mnist", 2, NONE[:3], np.array([9.0]), False),
    "three seeds, 1.7 errors": ("mnist", 2, NONE[:3], np.arange(3.0), False),
    "three seeds, 5.2, where 4.3 are asked for": ("mnist", 2, NONE[:3], np.arange(2.0, 5), True),
}
"""Data set, number of methods, scores of two of them, whether the lead of the first counts."""


def row_of(runs):
    return ranking.Row(
        method="method", score=runs.mean(), error=0.0, printed=np.nan, time=1.0, runs=runs
    )


@pytest.mark.parametrize("case", CLEAR)
def test_a_lead_is_clear_from_its_paired_error_and_the_number_of_methods(case):
    data, n_methods, first, other, expected = CLEAR[case]
    assert ranking._is_clear(row_of(first), row_of(other), data, n_methods) == expected


@pytest.mark.parametrize(
    ("data", "best_by_error", "n_rivals"),
    [("yacht", "GP", 7), ("energy", "GP", 12), ("concrete", "D.E", 14)],
)
def test_what_the_lesson_says_of_the_ranking(data, best_by_error, n_rivals):
    """Lesson 14, "What you should have seen": the best methods, their rivals, the fastest ones."""

    def ranked(measure):
        return sorted(ranking.rows(data, measure), key=lambda row: row.score)

    assert ranked("error")[0].method == best_by_error
    best, *others = ranked("negative log likelihood")
    assert best.method == "GP"
    assert len(others) == 14
    rivals = [row for row in others if not ranking._is_clear(best, row, data, n_methods=15)]
    assert len(rivals) == n_rivals
    readout = ranking.panel().render(data=data, measure="error").readout
    front = re.search("time: (.*)[.]", readout)[1].split(" · ")
    assert {"D.E", "MAP"} <= set(front)


@given(st.lists(st.tuples(small, small), min_size=1, max_size=7))
def test_the_front_is_pareto_optimal(points):
    time, loss = np.array(points).T

    def beats(other, one):
        return all(a <= b for a, b in zip(other, one, strict=True)) and other != one

    expected = [not any(beats(other, one) for other in points) for one in points]
    assert ranking.pareto_front(time, loss).tolist() == expected
