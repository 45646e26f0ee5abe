import pytest
import torch

from bdl_lessons.exercises import api, autocheck, exercise, hint
from bdl_lessons.exercises.grader import find
from tests.tables import refused


@pytest.fixture(autouse=True)
def _clean_desk(monkeypatch):
    monkeypatch.setattr(api, "_answers", {})


def test_a_stub_leaves_the_notebook_running(capsys):
    @exercise("00.1")
    def stub(p_drop):
        raise NotImplementedError

    autocheck("00.1")
    assert "not attempted yet" in capsys.readouterr().out
    assert stub(0.2) == pytest.approx(0.16)
    assert stub(0.5) == pytest.approx(0.25)
    assert capsys.readouterr().out.count("the reference solution stands in") == 1


def test_a_right_answer_is_solved_and_used(capsys):
    @exercise("00.1")
    def mine(p_drop):
        """My own."""
        return p_drop - p_drop**2

    autocheck("00.1")
    out = capsys.readouterr().out
    assert out.count("✓ ok   ") == 4
    assert out.endswith("solved.\n")
    assert mine.__doc__ == "My own."


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda p_drop: p_drop / (1 - p_drop), "Looks familiar: this is the variance of z / keep"),
        (lambda p_drop: 7.0, "✗ no   at p_drop = ½ the variance is ¼: for z in"),
        (lambda p_drop: 1 / 0, "Before anything else: your function raised ZeroDivisionError"),
    ],
    ids=["a known error", "advice", "the wrong form"],
)
def test_a_wrong_answer_is_told_what_is_wrong_and_not_the_solution(answer, message, capsys):
    exercise("00.1")(answer)
    autocheck("00.1")
    out = capsys.readouterr().out
    assert message in out
    assert ("familiar" in out) == ("familiar" in message)
    assert out.endswith("not there yet.\n")
    assert "keep * p_drop" not in out


def test_an_operation_that_pytorch_lacks_is_no_stub(capsys):
    for lacks in (torch.tensor([1, 2]).softmax, torch.distributions.Beta(1.0, 1.0).cdf):
        mine = exercise("00.1")(lambda p_drop, lacks=lacks: lacks(0))
        with pytest.raises(RuntimeError) as raised:  # older versions: not its subclass
            mine(0.2)
        autocheck("00.1")
        assert f"your function raised {raised.type.__name__}" in capsys.readouterr().out


def test_hints_are_graded(capsys):
    hint("00.1")
    for level in (1, 2, 3):
        hint("00.1", level=level)
    hints = find("00.1").hints
    expected = [f"Hint {level} of 3: {hints[level - 1]}" for level in (1, 1, 2, 3)]
    assert capsys.readouterr().out.splitlines() == expected


test_what_is_not_there_is_named = refused(
    (lambda: hint("00.1", level=0), "hint level must be 1 to 3"),
    (lambda: hint("00.1", level=4), "hint level must be 1 to 3"),
    (lambda: autocheck("00.9"), "no exercise '00.9'; it has 00.1"),
    (lambda: autocheck("77.1"), "numbers look like '00.1'"),
    (lambda: autocheck("00.1"), r"nothing was handed in for 00\.1"),
)
