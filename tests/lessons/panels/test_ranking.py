import itertools

import numpy as np
import pytest

from bdl_lessons.experiments.uci.methods import METHODS
from bdl_lessons.lessons.panels import ranking


def uci_record(method, rmse, likelihood, ms, n_networks=1):
    config = {"data": "yacht", "method": method, "n_splits": 20, "grid": [{}, {}]}
    metrics = {
        "rmse": rmse,
        "rmse_error": 0.1,
        "log_likelihood": likelihood,
        "log_likelihood_error": 0.2,
        "ms_side_by_side": ms,
        "n_side_by_side": 40 * n_networks,
    }
    return {"config": config, "metrics": metrics, "seed": 0}


def image_record(method, accuracy, seed=0):
    config = {"data": "mnist", "method": method, "ood": []}
    metrics = {"accuracy_percent": accuracy, "val_nll": 0.1}
    return {"config": config, "metrics": metrics, "seed": seed}


@pytest.fixture
def records(monkeypatch):
    made = {
        "uci": [
            uci_record("MAP", 2.0, -1.0, ms=0.5),
            uci_record("VD", 1.0, -2.0, ms=0.6),
            uci_record("D.E", 1.5, -0.5, ms=0.5, n_networks=5),
        ],
        "image_classification": [
            {**image_record("MAP", 90.0), "config": {**image_record("MAP", 0)["config"]}},
            image_record("MAP", 92.0, seed=1),
        ],
        "time_per_step": [
            {
                "config": {"architecture": "lenet5", "device": "cpu"},
                "metrics": {"ratio/MAP": 1.0, "ratio/VD": 1.5},
            }
        ],
    }
    monkeypatch.setattr(ranking, "_recorded", made.__getitem__)
    monkeypatch.setattr(ranking, "CHOICE", "mnist")
    return made


def by_method(rows):
    return {row.method: row for row in rows}


def test_likelihoods_change_their_sign_and_errors_do_not(records):
    error, nll = (by_method(ranking.rows("Yacht", m)) for m in ranking.MEASURES[:2])
    assert (error["VD"].score, error["VD"].error) == (1.0, 0.1)
    assert (nll["VD"].score, nll["VD"].error) == (2.0, 0.2)
    assert nll["VD"].printed == pytest.approx(1.42)
    assert np.isnan(nll["MAP"].printed)


def test_time_is_relative_to_the_plain_network_and_counts_all_members(records):
    found = by_method(ranking.rows("Yacht", "error"))
    assert found["MAP"].time == 1
    assert found["VD"].time == pytest.approx(1.2)
    assert found["D.E"].time == pytest.approx(5)
    assert ranking._image_time("D.E") == 5
    assert ranking._image_time("VD") == 1.5
    assert np.isnan(ranking._image_time("SWAG"))


def test_seeds_are_averaged(records):
    (row,) = ranking.rows("MNIST", "error")
    assert row.score == pytest.approx(9)
    assert row.error == pytest.approx(1)


def test_the_readout_names_the_first_its_rivals_and_the_front(records):
    readout = ranking.panel().render(data="Yacht", measure="error").readout
    assert "<b>VD</b> has the best error; no other within the errors" in readout
    assert "Pareto-optimal in score and time: VD, MAP" in readout
    empty = ranking.panel().render(data="Yacht", measure="calibration error").readout
    assert "No recorded method" in empty


def test_every_setting_can_be_shown():
    panel = ranking.panel()
    for data, measure in itertools.product(ranking.DATA, ranking.MEASURES):
        assert panel.render(data=data, measure=measure).readout
    assert len(METHODS) + 1 <= ranking._MOST
