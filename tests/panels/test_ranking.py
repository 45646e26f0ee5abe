import itertools
import re

import numpy as np
import pytest

from bdl_lessons.datasets.records import load_records
from bdl_lessons.panels import ranking


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
    uci = [uci_record("MAP", 2.0, -1.0, ms=0.5), uci_record("VD", 1.0, -2.0, ms=0.6)]
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
    assert (nll["VD"].score, nll["VD"].error) == (2.0, 0.2)
    assert nll["VD"].printed == pytest.approx(1.42)
    assert np.isnan(nll["MAP"].printed)


def test_time_is_relative_to_the_plain_network_and_counts_all_members(records):
    found = by_method(ranking.rows("yacht", "error"))
    assert found["MAP"].time == 1
    assert found["VD"].time == pytest.approx(1.2)
    assert found["D.E"].time == pytest.approx(5)
    assert ranking._image_time("D.E") == 5
    assert ranking._image_time("VD") == 1.5
    assert np.isnan(ranking._image_time("SWAG"))


def test_seeds_are_averaged(records):
    (row,) = ranking.rows("mnist", "error")
    assert row.score == pytest.approx(9)
    assert row.error == pytest.approx(1)


def test_the_readout_names_the_first_its_rivals_and_the_front(records):
    panel = ranking.panel()
    readout = panel.render(data="yacht", measure="error").readout
    assert "<b>VD</b> has the best error, clearly so." in readout
    assert "Pareto-optimal in score and time: VD · MAP" in readout
    assert "<b>MAP</b> has the best" in panel.render(data="mnist", measure="error").readout
    empty = panel.render(data="yacht", measure="calibration error").readout
    assert "No recorded method" in empty


def test_every_setting_can_be_shown():
    panel = ranking.panel()
    for data, measure in itertools.product(panel.controls["data"].values, ranking.MEASURES):
        assert panel.render(data=data, measure=measure).readout
    methods = {record["config"]["method"] for record in load_records("uci")}
    assert len(methods) <= ranking._MOST


def test_two_methods_differ_clearly_by_more_than_two_paired_errors(records):
    """Hard splits are hard for both: the large variance over splits does not hide a steady gap."""
    hard = 5 * np.arange(20.0)
    for name, gap, clear in [("steady", 0.3, True), ("noisy", 0.02, False)]:
        rows = [
            ranking.Row("A", 0.0, 1.0, np.nan, 1.0, hard),
            ranking.Row("B", gap, 1.0, np.nan, 1.0, hard + gap + np.tile([-0.1, 0.1], 10)),
        ]
        assert ranking._is_clear(*rows, "yacht", 1) == clear, name


def test_three_seeds_need_more_than_four_errors_and_one_seed_shows_no_difference():
    """Differences 0, 1, 2 are 1.7 errors; shifted by 2, 5.2. Student's t asks for 4.3."""
    first = ranking.Row("A", 0.0, 0.0, np.nan, 1.0, np.zeros(3))
    for runs, clear in [([9.0], False), ([0.0, 1, 2], False), ([2.0, 3, 4], True)]:
        other = ranking.Row("B", np.mean(runs), 0.0, np.nan, 1.0, np.array(runs))
        assert ranking._is_clear(first, other, "mnist", 1) == clear, runs


def test_the_best_of_many_needs_more_than_one_gap_that_was_chosen_beforehand():
    """A mean difference of 2.9 errors over 20 splits counts alone; the best of 15 needs 3.3."""
    runs = 0.12 + np.tile([-0.1, 0.1], 10)
    rows = [ranking.Row(name, 0, 0, np.nan, 1, r) for name, r in [("A", 0 * runs), ("B", runs)]]
    assert ranking._is_clear(*rows, "yacht", n_rivals=1)
    assert not ranking._is_clear(*rows, "yacht", n_rivals=14)


def test_what_the_lesson_says_of_the_ranking():
    """Lesson 12, "What you should have seen": the best methods, their rivals, the fastest ones."""
    expected = {"yacht": ("GP", "GP", 4), "energy": ("GP", "GP", 4), "concrete": ("D.E", "GP", 14)}
    for name, (by_error, by_likelihood, n_rivals) in expected.items():
        error, likelihood = (
            sorted(ranking.rows(name, measure), key=lambda row: row.score)
            for measure in ranking.MEASURES[:2]
        )
        assert (error[0].method, likelihood[0].method) == (by_error, by_likelihood)
        first, *others = likelihood
        assert len(others) == 14
        near = {row.method for row in others if not ranking._is_clear(first, row, name, 14)}
        assert len(near) == n_rivals
        assert by_error in near | {"GP"}
        readout = ranking.panel().render(data=name, measure="error").readout
        assert "D.E" in re.search("time: (.*)[.]", readout)[1].split(" · ")
