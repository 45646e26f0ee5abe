"""What every experiment keeps, whatever it measures: four rules, each on a row of every experiment.

1. Other test rows change no training input and no choice.
2. A network sees test rows on the scale of the training rows, as often as the trial says.
3. Every method is trained with its own sampling mode, KL weight and learning rate.
4. What is recorded is its definition, computed again from the outputs of the networks.

The rows stand in ``contract_rows.py``, how they are watched in ``contracts.py``.
"""

import pytest
import torch

from .contract_rows import ROWS

CASES = [
    pytest.param(row, label, id=f"{row.experiment}, {label}")
    for row in ROWS
    for label in row.trials
]
each_case = pytest.mark.parametrize(("row", "label"), CASES)


@each_case
def test_other_test_rows_change_no_training_input_and_no_choice(row, label):
    """What a network trains on, and what is chosen, stays when the test rows are others.

    The leaks: test rows in the statistics of a standardiser, among the training or validation rows,
    or in the choice of tau, of a point of the grid or of the epoch to stop at.
    """
    original = row.run_beside(label, altered=False)
    altered = row.run_beside(label, altered=True)
    assert_same_training_inputs(original.seen, altered.seen)
    results = everything_recorded(original.result)
    altered_results = everything_recorded(altered.result)
    for name in row.choices:
        torch.testing.assert_close(
            tensor(results[name]), tensor(altered_results[name]), rtol=1e-4, atol=1e-6, msg=name
        )
    assert a_finite_result_differs(results, altered_results), "nothing saw the test rows"


@each_case
def test_test_rows_are_seen_on_the_scale_of_training_as_often_as_the_trial_says(row, label):
    """The altered test rows are copies of training rows: what a network sees must be some too.

    The leaks: test rows scaled by their own statistics, or not at all; scores of more draws than
    the trial says, or of fewer.
    """
    original = row.run_beside(label, altered=False)
    altered = row.run_beside(label, altered=True)
    training_rows = rows_of(altered.seen.trainings[-1].x)
    test_inputs = inputs_that_differ(original.seen, altered.seen)
    assert test_inputs, "no network saw the test rows"
    for x, n_samples in test_inputs:
        assert n_samples in (None, original.trial.config.get("n_samples"))
        distance = torch.cdist(rows_of(x), training_rows).min(1).values
        is_training_row = distance < 1e-3
        assert is_training_row.double().mean() >= row.copied


@each_case
def test_each_method_is_trained_with_its_own_sampling_weight_and_rate(row, label):
    """Every step of every training has what the plan of the row says.

    The faults: a KL weight that is lost, doubled or never grows; noise drawn once a batch instead
    of for every example, or the reverse; a schedule that is left out; validation rows that are
    trained on, which make more steps an epoch; a network of an ensemble that is missing.
    """
    trial, result, seen = row.run(label)
    plans = row.plan(trial, result)
    assert len(seen.trainings) == len(plans)
    for training, (sampling, kl_weights, rates) in zip(seen.trainings, plans, strict=True):
        assert training.sampling == sampling
        assert_steps(training.kl_weights, by_step_and_network(kl_weights))
        assert_steps(training.rates, tensor(rates).reshape(-1, 1))


@each_case
def test_what_is_recorded_is_its_definition(row, label):
    """The row computes metrics and arrays again, by another way.

    The faults: a standard error with the wrong divisor, a score of the wrong images, of other units
    or of the logarithm's mean instead of the mean's logarithm, percent that are shares.
    """
    trial, result, seen = row.run(label)
    metrics, arrays = row.recorded(trial, result, seen)
    for name, expected in metrics.items():
        assert_close_enough(result.metrics[name], expected, name)
    for name, expected in arrays.items():
        assert_close_enough(result.arrays[name], expected, name)


def assert_same_training_inputs(seen, other):
    """There were trainings, as many of each, on the same inputs and targets."""
    assert len(seen.trainings) == len(other.trainings) > 0
    for training, other_training in zip(seen.trainings, other.trainings, strict=True):
        torch.testing.assert_close(training.x, other_training.x)
        torch.testing.assert_close(training.y, other_training.y)


def everything_recorded(result):
    return {**result.metrics, **result.arrays}


def a_finite_result_differs(results, others):
    changed = [values for name, values in results.items() if values != others[name]]
    return any(tensor(values).isfinite().all() for values in changed)


def inputs_that_differ(seen, altered):
    """Of the altered run what was predicted for where the other had something else: test rows."""
    pairs = zip(seen.inputs, altered.inputs, strict=True)
    return [
        (x_altered, n_samples)
        for (x, _), (x_altered, n_samples) in pairs
        if not torch.equal(x, x_altered)  # bits: copies
    ]


def by_step_and_network(kl_weights):
    """``(n_steps, M)``; weights that are the same in all steps stand in one row."""
    kl_weights = tensor(kl_weights)
    return kl_weights if kl_weights.dim() == 2 else kl_weights.reshape(1, -1)


def assert_steps(actual, expected):
    """What was seen in every step; ``expected`` may have one row, or column, for all of them."""
    torch.testing.assert_close(actual, expected.expand_as(actual), rtol=1e-4, atol=1e-9)


def assert_close_enough(actual, expected, name):
    """Up to the rounding of a record and of single precision."""
    error = (tensor(actual) - tensor(expected)).abs()
    assert (error <= 1e-4 + 1e-3 * tensor(expected).abs()).all(), name


def rows_of(x):
    """Images ``(N, C, H, W)``, or rows ``(N, K)`` or ``(M, N, K)``, as ``(…, K)``."""
    return (x.flatten(1) if x.dim() == 4 else x.flatten(0, -2)).double()


def tensor(values):
    return torch.as_tensor(values, dtype=torch.float64)
