"""What is wrong with the form of a result is said in words, whatever the claims."""

import dataclasses

import numpy as np
import pytest
import torch

from bdl_lessons.exercises.form import WrongForm, in_form
from bdl_lessons.exercises.grader import Check, Exercise, KnownError, agrees, close, grade, normals

X = normals(0)(4, 3)


def row_sums(x, p_drop=0.5):
    return x.sum(1) / (1 - p_drop)


def told(answer, reference=row_sums, arguments=(X,)):
    with pytest.raises(WrongForm) as error:
        in_form(answer, reference)(*arguments)
    return str(error.value)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda x: None, "your result is None: is the `return` missing?"),
        (lambda x: x.summe(1), "your function raised AttributeError: 'Tensor' object has no "),
        (lambda x, y: x, "your function raised TypeError: .* missing 1 required positional"),
        (lambda x: "0.5", "your result is a str, which holds no numbers"),
        (lambda x: (x, x), "your result is a tuple, which holds no numbers"),
        (lambda x: x, r"your result has shape \(4, 3\); it must have shape \(4,\)"),
        (lambda x: x.sum(), r"your result has shape \(\); it must have shape \(4,\)"),
        (
            lambda x: x.sum(1) * torch.tensor([1, torch.inf, 1, 1]),
            r"your result holds -?inf at \[1\]",
        ),
    ],
)
def test_it_says_what_is_wrong(answer, message):
    torch.testing.assert_close(row_sums(X), in_form(row_sums, row_sums)(X))
    with pytest.raises(WrongForm, match=message):
        in_form(answer, row_sums)(X)


def test_a_number_must_be_one():
    message = told(lambda x: x.sum(1, keepdim=True), lambda x: x.sum(), (X[:1],))
    assert message == "your result has shape (1, 1); it must be a single number"


def test_nan_is_told_with_the_small_inputs():
    def root(x, shift):
        return (x - shift).sqrt()

    answer = in_form(root, lambda x, shift: (x - shift).abs().sqrt())
    with pytest.raises(
        WrongForm, match=r"holds nan at \[1\] for x = \(4, 1e-30\), shift = 2: look"
    ):
        answer(torch.tensor([4.0, 1e-30]), 2.0)
    with pytest.raises(WrongForm, match=r"holds nan at \[0, 0\] for shift = 9: look"):
        answer(torch.ones(5, 5), shift=9.0)


def test_nan_is_right_where_the_reference_has_it():
    x = torch.tensor([-1.0, 1.0])
    assert in_form(torch.sqrt, lambda x: x.sqrt())(x).isnan().tolist() == [True, False]


def test_each_of_several_results_is_looked_at():
    def both(x):
        return x.mean(0), x.var(0)

    assert "must return 2 results, not 1" in told(lambda x: x.mean(0), both)
    assert "result 2 has shape (4,); it must have shape (3,)" in told(
        lambda x: (x.mean(0), x.var(1)), both
    )
    assert told(lambda x: None, both) == "your result is None: is the `return` missing?"
    assert told(lambda x: (x.mean(0), None), both).startswith("result 2 is None")
    mean, _ = in_form(lambda x: [x.mean(0), x.var(0)], both)(X)
    torch.testing.assert_close(mean, X.mean(0))


@pytest.mark.parametrize("kind", [torch.Tensor.tolist, np.asarray, torch.as_tensor])
def test_a_list_or_an_array_becomes_the_tensor_that_is_asked_for(kind):
    found = in_form(lambda x: kind(row_sums(x)), row_sums)(X)
    assert isinstance(found, torch.Tensor)
    torch.testing.assert_close(found, row_sums(X))


def test_what_holds_no_numbers_passes():
    layer = torch.nn.Linear(2, 3)
    assert in_form(lambda: layer, lambda: torch.nn.Linear(2, 3))() is layer
    assert in_form(lambda: ["b", "a"], lambda: ["a", "b"])() == ["b", "a"]


def test_a_change_in_place_does_not_reach_the_argument():
    x = X.clone()
    answer = in_form(lambda x: x.mul_(2).sum(1), row_sums)
    torch.testing.assert_close(answer(x), row_sums(x))
    torch.testing.assert_close(x, X)


def test_gradients_pass():
    x = X.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(in_form(row_sums, row_sums)(x).sum(), x)
    torch.testing.assert_close(gradient, torch.full_like(X, 2.0))


def test_answer_and_reference_draw_the_same_noise_and_the_generator_moves_on_once():
    def draw(generator):
        return torch.rand(3, generator=generator)

    once, twice = torch.Generator().manual_seed(1), torch.Generator().manual_seed(1)
    for _ in range(2):
        torch.testing.assert_close(in_form(draw, draw)(once), draw(twice))


def test_an_input_that_must_be_refused():
    def refuses(p_drop):
        if p_drop > 1:
            raise ValueError("p_drop")
        return p_drop

    with pytest.raises(ValueError, match="p_drop"):
        in_form(refuses, refuses)(2.0)
    assert in_form(lambda p_drop: p_drop, refuses)(2.0) == 2.0


TASK = Exercise(
    number="00.9",
    title="the logarithms of the row sums",
    solution=lambda x: x.exp().sum(1).log(),
    probe=lambda answer: 1e3 * answer(X),
    checks={
        "it is logsumexp": agrees(lambda answer: answer(X), X.logsumexp(1), "look at (1)"),
        "it moves with its inputs": agrees(
            lambda answer: answer(X + 300), X.logsumexp(1) + 300, "take the largest out first"
        ),
    },
    known_errors=(KnownError(lambda x: x.sum(1), "no logarithm"),),
    hints=("exp, then sum, then log", "logsumexp"),
)


class TestGrading:
    def test_form_comes_before_claims_and_known_errors(self):
        report = grade(TASK, lambda x: None)
        assert not report.solved
        assert report.form == "your result is None: is the `return` missing?"
        assert report.lines == ("no   it is logsumexp", "no   it moves with its inputs")
        assert report.diagnosis is None

    def test_a_wrong_form_in_one_check_stands_in_place_of_its_advice(self):
        report = grade(TASK, lambda x: (x.exp().sum(1) / (x.max() < 99)).log())
        assert report.form is None
        assert report.lines[0] == "ok   it is logsumexp"
        assert report.lines[1].startswith("no   it moves with its inputs: your result holds inf")
        assert not report.solved

    def test_a_wrong_form_of_the_probe_is_not_solved_whatever_the_claims(self):
        holds = {"anything": Check(lambda answer: True, "")}
        task = dataclasses.replace(TASK, checks=holds)
        assert grade(task, task.solution).solved
        assert not grade(task, lambda x: x).solved

    def test_a_known_error_of_the_right_form(self):
        report = grade(TASK, lambda x: x.sum(1))
        assert (report.form, report.diagnosis) == (None, "no logarithm")
        assert report.lines[0] == "no   it is logsumexp: look at (1)"

    def test_float32_is_told(self):
        report = grade(TASK, lambda x: x.logsumexp(1).float())
        assert report.form is None
        assert "float32" in report.diagnosis
        overflows = grade(TASK, lambda x: x.exp().sum(1).log() + (x.max() > 99))
        assert (overflows.solved, overflows.diagnosis) == (False, None)

    def test_a_result_that_the_check_cannot_use(self):
        layer = dataclasses.replace(
            TASK,
            solution=lambda: torch.nn.Linear(2, 2),
            probe=lambda answer: answer().weight.shape,
            checks={"it has biases": Check(lambda answer: answer().bias.shape == (2,), "")},
        )
        assert grade(layer, layer.solution).solved
        report = grade(layer, lambda: torch.nn.ReLU())
        assert "your result cannot be used (AttributeError: 'ReLU' object has no" in report.form

    def test_a_prediction_is_an_answer_without_arguments(self):
        task = dataclasses.replace(
            TASK,
            solution=lambda: 0.2,
            probe=lambda answer: answer(),
            checks={"within a tenth": Check(lambda answer: abs(answer() - 0.21) < 0.021, "")},
            known_errors=(KnownError(lambda: 0.8, "keep, not p_drop"),),
            kind="predict",
        )
        assert grade(task, lambda: 0.22).solved
        assert grade(task, lambda: 0.8).diagnosis == "keep, not p_drop"
        assert "is None" in grade(task, lambda: None).form


@pytest.mark.parametrize(
    ("left", "right"),
    [(torch.nan, torch.nan), (X, X.T), (X[:, :1], X[0, 0]), ("a", "a"), (None, 0)],
)
def test_what_is_never_close(left, right):
    assert not close(left, right, atol=1e9)
