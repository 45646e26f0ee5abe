"""What is wrong with the form of a result is said in words, and no answer spoils the next."""

import dataclasses
import inspect
import random
import signal
import time

import numpy as np
import pytest
import torch

from bdl_lessons.exercises.form import CheckedAnswer, WrongForm
from bdl_lessons.exercises.grader import (
    Criterion,
    Exercise,
    KnownError,
    agrees,
    close,
    find,
    grade,
    normals,
)

X = normals(0)(4, 3)
OTHER_GENERATOR = torch.Generator()


def row_sums(x, p_drop=0.5):
    return x.sum(1) / (1 - p_drop)


def both(x):
    return x.mean(0), x.var(0)


def draw(generator):
    return torch.rand(3, generator=generator, dtype=torch.float64)


def message_for(answer, reference, *arguments):
    """What the answer is told when it is called with these arguments."""
    with pytest.raises(WrongForm) as error:
        CheckedAnswer(answer, reference)(*arguments)
    return str(error.value)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda x, y: x, "your function raised TypeError: "),
        (lambda x: exit(), "your function raised SystemExit: None"),
        (lambda x: "0.5", "your result is a str, which holds no numbers"),
        (lambda x: (x, x[0]), "your result is a tuple, which holds no numbers"),
        (lambda x: x.sum(), "your result has shape (); it must have shape (4,)"),
        (lambda x: x.sum(1) / torch.tensor([1, 0, 1, 1]), "your result holds inf at [1]"),
        (lambda x: np.asarray(row_sums(x)) + 0j, "your result is complex"),
        (lambda x: [1, 2, 3, 4j], "your result is complex"),
    ],
)
def test_it_says_what_is_wrong(answer, message):
    x = X.abs()
    torch.testing.assert_close(row_sums(x), CheckedAnswer(row_sums, row_sums)(x))
    assert message_for(answer, row_sums, x).startswith(message)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda x: x[:3], "your function must return 2 results, not 3"),
        (lambda x: (x.mean(0), x.var(1)), "result 2 has shape (4,); it must have shape (3,)"),
        (lambda x: (x.mean(0), None), "result 2 is None"),
    ],
)
def test_each_of_several_results_is_looked_at(answer, message):
    assert message_for(answer, both, X).startswith(message)


def test_a_number_must_be_one_and_noise_that_of_the_generator():
    message = message_for(lambda x: x.sum(1, keepdim=True), lambda x: x.sum(), X[:1])
    assert message == "your result has shape (1, 1); it must be a single number"
    message = message_for(lambda generator: torch.rand(3), draw, torch.Generator())
    assert message.startswith("your function draws random numbers without its generator")
    CheckedAnswer(lambda: torch.rand(3), lambda: X[0])()  # there is none to be used
    CheckedAnswer(lambda generator: torch.zeros(3), draw)(torch.Generator())  # nothing is drawn


@pytest.mark.parametrize(
    "draws",
    [
        lambda: np.random.default_rng().random(3),
        lambda: [random.random() for _ in range(3)],
        lambda: torch.rand(3, generator=OTHER_GENERATOR, dtype=torch.float64),
    ],
    ids=["numpy", "random", "a generator of its own"],
)
def test_noise_from_elsewhere_is_told_in_every_call(draws):
    checked = CheckedAnswer(lambda generator: torch.as_tensor(draws()), draw)
    for _ in range(2):
        with pytest.raises(WrongForm, match="gives another result for the same seed"):
            checked(torch.Generator())


def test_noise_that_no_seed_changes_is_noticed_where_the_seed_should_change_it():
    def fixed(generator):
        return torch.as_tensor(np.random.default_rng(0).random(3))

    for answer, ignores_seed in ((fixed, True), (draw, False)):
        checked = CheckedAnswer(answer, draw)
        checked(torch.Generator())
        assert checked.ignores_seed is ignores_seed

    def dropped(p_drop, generator):
        uniform = torch.rand(99, generator=generator, dtype=torch.float64)
        return (uniform < p_drop).double()

    checked = CheckedAnswer(dropped, dropped)
    generator = torch.Generator().manual_seed(1)
    checked(0.0, generator)  # there is nothing to be seen
    assert not checked.ignores_seed
    once = torch.Generator().manual_seed(1)
    dropped(0.0, once)
    same_state = torch.equal(generator.get_state(), once.get_state())  # bits: of a generator
    assert same_state, "it moves on as in one call"


@pytest.mark.parametrize("number", ["01.2", "04.3", "06.3", "06.4", "12.2"])
@pytest.mark.parametrize(
    ("new_seed", "message"),
    [
        (lambda: int(np.random.default_rng().integers(2**31)), "another result for the same seed"),
        (lambda: 4, "the same result for every seed"),
    ],
    ids=["another each time", "one for all"],
)
def test_right_noise_that_ignores_the_seed_is_not_solved(number, new_seed, message):
    exercise = find(number)
    signature = inspect.signature(exercise.solution)

    def answer(*args, **kwargs):
        arguments = signature.bind(*args, **kwargs).arguments
        arguments["generator"] = torch.Generator().manual_seed(new_seed())
        return exercise.solution(**arguments)

    report = grade(exercise, answer)
    assert not report.solved
    assert message in report.form
    assert not any(line.startswith("ok") for line in report.lines), "it would be given points"


def test_nan_is_told_with_the_small_inputs_and_right_where_the_reference_has_it():
    def root(x, shift):
        return (x - shift).sqrt()

    small = message_for(root, lambda x, shift: x, torch.tensor([4.0, 1e-30]), 2.0)
    assert "holds nan at [1] for x = (4, 1e-30), shift = 2: look" in small
    large = message_for(root, lambda x, shift: x, torch.ones(5, 5), 9.0)
    assert "holds nan at [0, 0] for shift = 9: look" in large
    result = CheckedAnswer(root, root)(torch.tensor([-1.0, 1.0]), 0.0)
    assert result.isnan().tolist() == [True, False]


@pytest.mark.parametrize("kind", [list, torch.stack, lambda parts: torch.stack(parts).numpy()])
def test_several_results_may_be_a_list_or_the_rows_of_an_array(kind):
    torch.testing.assert_close(CheckedAnswer(lambda x: kind(both(x)), both)(X), both(X))


def test_answer_and_reference_draw_the_same_noise_and_the_generator_moves_on_once():
    once = torch.Generator().manual_seed(1)
    twice = torch.Generator().manual_seed(1)
    for _ in range(2):
        torch.testing.assert_close(CheckedAnswer(draw, draw)(once), draw(twice))


TASK = Exercise(
    number="00.9",
    title="the logarithms of the row sums",
    solution=lambda x: x.exp().sum(1).log(),
    probe=lambda answer: 1e3 * answer(X),
    criteria=(
        Criterion(
            "it is logsumexp",
            agrees(lambda answer: answer(X), X.logsumexp(1)),
            advice="look at (1)",
        ),
        Criterion(
            "it moves with its inputs",
            agrees(lambda answer: answer(X + 300), X.logsumexp(1) + 300),
            advice="take the largest out first",
        ),
    ),
    known_errors=(KnownError(lambda x: x.sum(1), diagnosis="no logarithm"),),
    hints=("exp, then sum, then log", "logsumexp"),
)


DIGITS = "only the first digits are right"
OVERFLOWS = "moves with its inputs: your result holds inf"


@pytest.mark.parametrize(
    ("answer", "form", "diagnosis", "line"),
    [
        (lambda x: x.logsumexp(1).float(), DIGITS, None, ""),
        (lambda x: x.logsumexp(1) + 1e-5, DIGITS, None, ""),
        (lambda x: x.logsumexp(1).to_sparse(), "your result cannot be used (NotImpl", None, ""),
        (lambda x: x.sum(1), None, "no logarithm", "no   it is logsumexp: look at (1)"),
        (lambda x: (x.exp().sum(1) / (x.max() < 99)).log(), None, None, OVERFLOWS),
        (lambda x: x.exp().sum(1).log() + (x.max() > 99), None, None, "take the largest out"),
    ],
)
def test_form_comes_before_advice_and_known_errors(answer, form, diagnosis, line):
    report = grade(TASK, answer)
    assert not report.solved
    assert report.diagnosis == diagnosis
    assert line in "".join(report.lines)
    if form is None:
        assert report.form is None
    else:
        assert report.form.startswith(form)
        assert report.lines == ("no   it is logsumexp", "no   it moves with its inputs")


def test_the_probe_must_have_the_form_whatever_the_claims_and_has_its_own_tolerance():
    always = Criterion("anything", lambda answer: True, advice="")
    task = dataclasses.replace(TASK, criteria=(always,))
    assert grade(task, task.solution).solved
    assert not grade(task, lambda x: x).solved
    task = dataclasses.replace(TASK, probe=lambda answer: answer(X), probe_atol=0.3)
    assert grade(task, lambda x: x.sum(1) + 0.2).diagnosis == "no logarithm"
    assert grade(task, lambda x: x.sum(1) + 0.4).diagnosis is None


def test_an_answer_is_in_double_precision_whatever_the_notebook_has_set():
    with torch.no_grad():
        report = grade(TASK, lambda x: x.logsumexp(1) + torch.zeros(4).requires_grad_().exp())
    assert not report.solved  # 1 is added; e**0 was made in float64, and has a gradient
    assert grade(TASK, lambda x: (torch.ones(4) / 3).sub(1 / 3) + x.logsumexp(1)).solved


CALLS = []


def endless(x):
    CALLS.append(x)
    while True:
        x = x + 1


def catches_everything(x):
    CALLS.append(x)
    while True:
        try:
            time.sleep(0.01)
        except:  # noqa: E722
            continue


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there is no timer")
class TestTime:
    @pytest.mark.parametrize("answer", [endless, catches_everything])
    def test_an_endless_answer_is_stopped_and_told(self, answer):
        CALLS.clear()
        report = grade(TASK, answer, seconds=0.1)
        assert len(CALLS) == 1, "after the first call no time was left"
        assert "autocheck gives all its calls 0.1 seconds together" in report.form
        assert grade(TASK, lambda x: x.logsumexp(1)).solved

    def test_all_calls_together_are_limited(self):
        calls = []

        def slow(x):
            calls.append(time.sleep(0.3))
            return x.logsumexp(1)

        report = grade(TASK, slow, seconds=0.5)
        assert len(calls) == 1
        assert report.form is None
        assert "Does a loop never end?" in report.lines[1] or "Does" in report.lines[0]
        assert grade(TASK, slow, seconds=30).solved


@pytest.mark.parametrize(
    ("left", "right"),
    [(torch.nan, torch.nan), (X, X.T), (X[:, :1], X[0, 0]), ("a", "a"), (None, 0), (X, X + 0j)],
)
def test_what_is_never_close(left, right):
    assert not close(left, right, atol=1e9)
