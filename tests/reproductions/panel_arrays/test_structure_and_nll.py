"""The networks behind the second panel of lesson 11: their data, their scores, their training."""

import dataclasses

import numpy as np
import pytest
import torch

from bdl_lessons.panels import arrays
from reproductions.panel_arrays import structure_and_nll


@pytest.mark.parametrize("task", structure_and_nll.TASKS)
def test_the_parts_of_a_split_do_not_overlap(task):
    split = structure_and_nll.TASKS[task].split(3)
    rows = [
        tuple(row.tolist())
        for part in ("train", "validation", "test")
        for row in torch.cat([getattr(split, part)[0]])
    ]
    assert len(set(rows)) == len(rows) == {"digits": 1797, "diabetes": 442}[task]


def test_other_test_rows_change_no_training_input(monkeypatch):
    """Neither scales nor the precision come from tested patients, whose scale is that of others."""
    data = structure_and_nll.diabetes()
    split = structure_and_nll.diabetes_split(0)
    rows = np.random.default_rng(0).permutation(len(data.x))
    test = rows[354:]
    x = data.x.clone()
    y = data.y.clone()
    x[test] = x[rows[: len(test)]]
    y[test] = 100 * y[test]
    altered = dataclasses.replace(data, x=x, y=y)
    monkeypatch.setattr(structure_and_nll, "diabetes", lambda: altered)
    other = structure_and_nll.diabetes_split(0)
    torch.testing.assert_close((split.train, split.validation), (other.train, other.validation))
    assert (split.y_scale, split.tau) == pytest.approx((other.y_scale, other.tau))
    torch.testing.assert_close(other.test[0], other.train[0][:88])


def test_scores_of_diabetes_are_in_original_units():
    split = structure_and_nll.diabetes_split(0)
    y = split.test[1]
    scores = structure_and_nll.diabetes_scores(torch.zeros(5, len(y), 1), y, split)
    assert scores[0] == pytest.approx(split.y_scale * float(y.square().mean().sqrt()), rel=1e-5)
    std = split.y_scale / split.tau**0.5
    normal = torch.distributions.Normal(0.0, std).log_prob(split.y_scale * y).mean()
    assert scores[1] == pytest.approx(float(normal), abs=1e-4)


@pytest.mark.parametrize("method", ["MC dropout", "VSD, T = 2, per factor"])
def test_a_run_gives_one_row_for_each_setting_and_split(method):
    task = dataclasses.replace(structure_and_nll.TASKS["diabetes"], n_steps=3)
    splits = [task.split(seed) for seed in range(2)]
    parts = structure_and_nll.run(task, method, splits, settings=(0.1, 0.3, 0.5))
    assert [part.shape for part in parts] == [(3, 2, 2, 2), (3, 2), (3, 2, 2)]
    assert np.isnan(parts[2]).all() == (method == "MC dropout")


def test_members_have_the_data_and_the_setting_of_their_place():
    """Setting by setting: with one step of training the first two networks differ in data only."""
    task = dataclasses.replace(structure_and_nll.TASKS["digits"], n_steps=1)
    splits = [task.split(seed) for seed in range(2)]
    members = structure_and_nll.train(task, "MC dropout", (0.1, 0.5), splits)
    rates = [members.network(number)[0].p_drop for number in range(4)]
    assert rates == pytest.approx([0.1, 0.1, 0.5, 0.5])


def test_a_tuned_method_keeps_the_setting_with_the_least_validation_nll():
    scores = np.arange(6.0).reshape(3, 2)
    validation = np.array([[3.0, 3.0], [1.0, 2.0], [0.0, 4.0]])
    kept = structure_and_nll.at_its_best("MAP", (scores, validation, scores))
    assert [part.tolist() for part in kept] == [[[2.0, 3.0]], [[1.0, 2.0]], [[2.0, 3.0]]]
    assert structure_and_nll.at_its_best("VD, per weight", (scores,))[0] is scores


@pytest.mark.slow
def test_the_committed_arrays_are_what_training_gives():
    stored = arrays.load("structure_and_nll")
    for name, method in (("digits", "VSD, T = 0, per factor"), ("diabetes", "VD, per factor")):
        task = structure_and_nll.TASKS[name]
        splits = [task.split(seed) for seed in range(structure_and_nll.N_SEEDS)]
        scores, _, alphas = structure_and_nll.run(task, method, splits, (1.0,))
        row = structure_and_nll.METHODS.index(method)
        assert np.allclose(alphas.mean(1), stored[f"{name}_alpha"][row].mean(1), atol=0.03)
        theirs = stored[name][row].mean(1)
        assert np.allclose(scores.mean(1), theirs, rtol=0.1, atol=0.02)
