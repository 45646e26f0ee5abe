"""The mutants find the checks that let wrong answers pass, and spare right answers."""

import dataclasses

import pytest
import torch
from torch import Generator, Tensor

from bdl_lessons.exercises.grader import Answer, Criterion, Exercise, close, normals
from tests.exercises.mutants import mutants, survivors

X = normals(0)(3, 4)
W = normals(1)(4)


def dropout(x: Tensor, p_drop: float, generator: Generator) -> Tensor:
    """Noise of mean one."""
    keep = 1 - p_drop
    return x * (torch.rand(x.shape, generator=generator) < keep) / keep


def penalty(x: Tensor, w: Tensor, p_drop: float, n_train: int) -> Tensor:
    scale = _coin(p_drop) / n_train
    return scale * (x**2 @ w**2).sum() - x.var(0)[0]


def _coin(p_drop: float) -> float:
    return p_drop * (1 - p_drop)


def total(x: Tensor) -> Tensor:
    return x.sum(0)


def ratio(x: Tensor, p_drop: float, keep: float) -> Tensor:
    return x * keep / p_drop


def task(solution, probe, *checks) -> Exercise:
    criteria = tuple(Criterion(str(index), check, "") for index, check in enumerate(checks))
    return Exercise("00.9", "", solution, probe, criteria, (), ())


def mutant_of(solution: Answer, ending: str) -> Answer:
    """The only mutant whose change ends so."""
    (mutant,) = [mutant for mutant in mutants(solution) if mutant.change.endswith(ending)]
    return mutant.answer


@pytest.mark.parametrize(
    "change",
    [
        "scale * (x ** 2 @ w ** 2).sum() → scale + (x ** 2 @ w ** 2).sum()",
        "scale * (x ** 2 @ w ** 2).sum() → scale",
        "x ** 2 → x * 2",
        "x ** 2 → w ** 2",
        "x ** 2 @ w ** 2 → x ** 2 * w ** 2",
        "(x ** 2 @ w ** 2).sum() → (x ** 2 @ w ** 2).mean()",
        "x.var(0) → x.var(dim=1)",
        "x.var(0) → x.var(0, correction=0)",
        "_coin(p_drop) / n_train → _coin(p_drop) / (n_train - 1)",
        "x and w exchanged",
    ],
)
def test_changes(change):
    assert mutant_of(penalty, change)


def test_a_changed_helper_is_the_one_that_is_called():
    changed = mutant_of(penalty, ": 1 - p_drop → 1 + p_drop")
    subtracted = X.var(0)[0]
    right = penalty(X, W, 0.5, 10) + subtracted
    wrong = changed(X, W, 0.5, 10) + subtracted
    assert float(wrong / right) == pytest.approx(3.0)


@pytest.mark.parametrize(("axes", "n_patterns"), [("rows", 1), ("columns", 2), ("all", 1)])
def test_noise_that_is_shared(axes, n_patterns):
    mutant = mutant_of(dropout, f"'{axes}')")
    noise = mutant(torch.ones(99, 4), 0.5, Generator().manual_seed(0))
    assert noise.shape == (99, 4)
    assert len({tuple(row) for row in noise.tolist()}) == n_patterns


def test_one_coin_for_each_example_is_found():
    def noise(answer) -> Tensor:
        return answer(torch.full((300, 3), 2.0), 0.2, Generator().manual_seed(7))

    def has_two_values(answer) -> bool:
        return {round(x, 4) for x in noise(answer).flatten().tolist()} == {0.0, 2.5}

    def keeps_the_mean(answer) -> bool:
        return abs(noise(answer).mean() - 2) < 0.1

    def has_different_rows(answer) -> bool:
        return len(noise(answer).unique(dim=0)) > 1  # bits: 0 or 2.5

    exercise = task(dropout, noise, has_two_values, keeps_the_mean, has_different_rows)
    (change,) = survivors(exercise)
    assert change.endswith("'columns')")


def test_numbers_that_no_check_fixes_are_found_unless_they_are_predictions():
    def is_linear(answer) -> bool:
        return close(answer(2 * X), 2 * answer(X))

    near_miss = "results × 1.01 for inputs of shapes [((3, 4),)]"
    linear = task(total, lambda answer: answer(X), is_linear)
    assert near_miss in survivors(linear)
    assert near_miss not in survivors(dataclasses.replace(linear, kind="predict"))


def test_a_special_value_hides_nothing():
    def at_half(answer):
        return close(answer(X, 0.5, 0.5), X)

    changes = survivors(task(ratio, lambda answer: answer(X, 0.5, 0.5), at_half))
    assert "p_drop and keep exchanged" in changes
