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
    n_examples = {"digits": 1797, "diabetes": 442}[task]
    x = torch.cat([inputs for inputs, _ in (split.train, split.validation, split.test)])
    rows = [tuple(row) for row in x.tolist()]
    assert len(rows) == n_examples
    assert len(set(rows)) == n_examples


@pytest.mark.parametrize("task", structure_and_nll.TASKS)
def test_another_seed_is_another_split(task):
    """So that eight seeds are eight splits."""
    x, _ = structure_and_nll.TASKS[task].split(0).train
    x_of_another_seed, _ = structure_and_nll.TASKS[task].split(1).train
    assert (x != x_of_another_seed).any(1).double().mean() > 0.5


def test_other_test_rows_change_no_training_input(monkeypatch):
    """Neither scales nor the precision come from tested patients, whose scale is that of others."""
    data = structure_and_nll.diabetes()
    split = structure_and_nll.diabetes_split(0)
    rows = np.random.default_rng(0).permutation(len(data.x))
    test = rows[354:]
    x = data.x.clone()
    y = data.y.clone()
    train = rows[: len(test)]
    x[test] = x[train]
    y[test] = 100 * y[test]
    altered = dataclasses.replace(data, x=x, y=y)
    monkeypatch.setattr(structure_and_nll, "diabetes", lambda: altered)
    other = structure_and_nll.diabetes_split(0)
    torch.testing.assert_close(split.train, other.train)
    torch.testing.assert_close(split.validation, other.validation)
    assert split.y_scale == pytest.approx(other.y_scale)
    assert split.tau == pytest.approx(other.tau)
    torch.testing.assert_close(other.test[0], other.train[0][:88])


def test_scores_of_diabetes_are_in_original_units():
    split = structure_and_nll.diabetes_split(0)
    y = split.test[1]
    draws = torch.zeros(5, len(y), 1)
    rmse, log_likelihood = structure_and_nll.diabetes_scores(draws, y, split)
    original_y = split.y_scale * y
    assert rmse == pytest.approx(float(original_y.square().mean().sqrt()), rel=1e-5)
    noise = torch.distributions.Normal(0.0, split.y_scale / split.tau**0.5)
    assert log_likelihood == pytest.approx(float(noise.log_prob(original_y).mean()), abs=1e-4)


@pytest.mark.parametrize("method", ["MC dropout", "VSD, T = 2, per factor"])
def test_a_run_gives_one_row_for_each_setting_and_split(method):
    task = dataclasses.replace(structure_and_nll.TASKS["diabetes"], n_steps=3)
    splits = [task.split(seed) for seed in range(2)]
    results = structure_and_nll.run(task, method, splits, settings=(0.1, 0.3, 0.5))
    assert results.scores.shape == (3, 2, 2, 2)
    assert results.validation_nll.shape == (3, 2)
    assert results.alphas.shape == (3, 2, 2)
    assert np.isnan(results.alphas).all() == (method == "MC dropout")


def test_members_have_the_data_and_the_setting_of_their_place():
    """Setting by setting: with one step of training the first two networks differ in data only."""
    task = dataclasses.replace(structure_and_nll.TASKS["digits"], n_steps=1)
    splits = [task.split(seed) for seed in range(2)]
    members = structure_and_nll.train(task, "MC dropout", (0.1, 0.5), splits)
    rates = [members.network(number)[0].p_drop for number in range(4)]
    assert rates == pytest.approx([0.1, 0.1, 0.5, 0.5])


def test_a_tuned_method_keeps_the_setting_with_the_least_validation_nll():
    scores = np.arange(6.0).reshape(3, 2)
    validation_nll = np.array([[3.0, 3.0], [1.0, 2.0], [0.0, 4.0]])
    results = structure_and_nll.Results(scores, validation_nll, alphas=scores)
    best = structure_and_nll.at_its_best("MAP", results)
    assert best.scores.tolist() == [[2.0, 3.0]]
    assert best.validation_nll.tolist() == [[1.0, 2.0]]
    assert best.alphas.tolist() == [[2.0, 3.0]]
    assert structure_and_nll.at_its_best("VD, per weight", results) is results


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "method"), [("digits", "VSD, T = 0, per factor"), ("diabetes", "VD, per factor")]
)
def test_the_committed_arrays_are_what_training_gives(name, method):
    stored = arrays.load("structure_and_nll")
    row = structure_and_nll.METHODS.index(method)
    task = structure_and_nll.TASKS[name]
    splits = [task.split(seed) for seed in range(structure_and_nll.N_SEEDS)]
    results = structure_and_nll.run(task, method, splits, settings=(1.0,))
    stored_alphas = stored[f"{name}_alpha"][row].mean(1)
    assert np.allclose(results.alphas.mean(1), stored_alphas, atol=0.03)
    stored_scores = stored[name][row].mean(1)
    assert np.allclose(results.scores.mean(1), stored_scores, rtol=0.1, atol=0.02)
