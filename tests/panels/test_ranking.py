import itertools
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from bdl_lessons.panels import ranking

small = st.integers(0, 4).map(float)


def uci_record(method, rmse, likelihood, ms, n_networks=1):
    config = {"data": "yacht", "method": method, "n_splits": 20, "grid": [{}, {}]}
    metrics = {"rmse": rmse, "rmse_error": 0.1, "ms_side_by_side": ms}
    metrics |= {"log_likelihood": likelihood, "log_likelihood_error": 0.2}
    metrics["n_side_by_side"] = 40 * n_networks
    wiggle = np.tile([-0.1, 0.1], 10)
    arrays = {"rmse": rmse + wiggle, "log_likelihood": likelihood + wiggle[::-1]}
    return {"config": config, "metrics": metrics, "arrays": arrays, "seed": 0}


def image_record(method, accuracy, seed=0, data="mnist"):
    config = {"data": data, "method": method, "ood": []}
    metrics = {"accuracy_percent": accuracy, "val_nll": 0.1}
    return {"config": config, "metrics": metrics, "seed": seed}


@pytest.fixture
def records(monkeypatch):
    uci = [uci_record("MAP", 2.0, -1.0, ms=0.5)]
    uci.append(uci_record("VD", 1.0, -2.0, ms=0.3, n_networks=2))
    uci.append(uci_record("D.E", 1.5, -0.5, ms=0.5, n_networks=5))
    images = [image_record("MAP", 50.0, data="fashion-mnist"), image_record("MAP", 90.0)]
    images.append(image_record("MAP", 92.0, seed=1))
    ratios = {"ratio/MAP": 1.0, "ratio/VD": 1.5}
    times = [{"config": {"architecture": "lenet5", "device": "cpu"}, "metrics": ratios}]
    made = {"uci": uci, "image_classification": images, "time_per_step": times}
    monkeypatch.setattr(ranking, "_recorded", made.__getitem__)


def by_method(rows):
    return {row.method: row for row in rows}


def test_likelihoods_change_their_sign_and_errors_do_not(records):
    error, nll = (by_method(ranking.rows("yacht", m)) for m in ranking.MEASURES[:2])
    assert (error["VD"].score, error["VD"].error) == (1.0, 0.1)
    assert (nll["VD"].score, nll["VD"].error, nll["VD"].printed) == (2.0, 0.2, 1.42)
    assert np.isnan(nll["MAP"].printed)


def test_time_is_relative_to_the_plain_network_and_counts_all_members(records):
    found = by_method(ranking.rows("yacht", "error"))
    assert [found[name].time for name in ("MAP", "VD", "D.E")] == pytest.approx([1, 1.2, 5])
    assert [ranking._image_time(name) for name in ("D.E", "VD")] == [5, 1.5]
    assert np.isnan(ranking._image_time("SWAG"))


def test_seeds_are_averaged(records):
    (row,) = ranking.rows("mnist", "error")
    assert (row.score, row.error) == pytest.approx((9, 1))


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


HARD = 5 * np.arange(20.0)
WIGGLE = np.tile([-0.1, 0.1], 10)
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


@pytest.mark.parametrize("case", CLEAR)
def test_a_lead_is_clear_from_its_paired_error_and_the_number_of_methods(case):
    data, n_methods, *both, clear = CLEAR[case]
    first, other = (ranking.Row("method", runs.mean(), 0.0, np.nan, 1.0, runs) for runs in both)
    assert ranking._is_clear(first, other, data, n_methods) == clear


def test_what_the_lesson_says_of_the_ranking():
    """Lesson 12, "What you should have seen": the best methods, their rivals, the fastest ones."""
    expected = {"yacht": ("GP", 7), "energy": ("GP", 12), "concrete": ("D.E", 14)}
    panel = ranking.panel()
    for name, (by_error, n_rivals) in expected.items():
        error, likelihood = (
            sorted(ranking.rows(name, measure), key=lambda row: row.score)
            for measure in ranking.MEASURES[:2]
        )
        first, *others = likelihood
        assert (error[0].method, first.method, len(others)) == (by_error, "GP", 14)
        near = [row for row in others if not ranking._is_clear(first, row, name, 15)]
        assert len(near) == n_rivals
        readout = panel.render(data=name, measure="error").readout
        assert {"D.E", "MAP"} <= {*re.search("time: (.*)[.]", readout)[1].split(" · ")}


@given(st.lists(st.tuples(small, small), min_size=1, max_size=7))
def test_the_front_is_pareto_optimal(points):
    time, loss = np.array(points).T

    def beats(other, one):
        return all(a <= b for a, b in zip(other, one, strict=True)) and other != one

    expected = [not any(beats(other, one) for other in points) for one in points]
    assert ranking.pareto_front(time, loss).tolist() == expected
