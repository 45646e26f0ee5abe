"""What an answer prints is bounded, and what was left out is said."""

import sys

from bdl_lessons.exercises import api, autocheck, exercise
from bdl_lessons.exercises.grader import find, grade
from bdl_lessons.exercises.output import CHARACTERS, LINES, bounded_output


def test_little_is_printed_as_it_is(capsys):
    with bounded_output():
        print("mean", 0.5)
        print("careful", file=sys.stderr)
    assert capsys.readouterr() == ("mean 0.5\n", "careful\n")


def test_of_many_lines_the_first_100_are_kept(capsys):
    with bounded_output():
        for index in range(1000):
            print(index)
    begin, left_out = capsys.readouterr().out.split("\n…")
    assert begin.splitlines() == [str(index) for index in range(LINES)]
    assert left_out.endswith("left out: 900 lines, 3,600 characters.\n")


def test_of_one_long_line_the_beginning_is_kept(capsys):
    with bounded_output():
        print("x" * 10_000_000)
    out = capsys.readouterr().out
    assert out.startswith("x" * CHARACTERS + "\n…")
    assert out.endswith("left out: 1 lines, 9,990,001 characters.\n")
    assert len(out) < CHARACTERS + 200


def test_errors_are_bounded_too_and_what_was_left_out_is_said_after_an_exception(capsys):
    try:
        with bounded_output():
            print("x\n" * 300, file=sys.stderr)
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        print("stopped")
    out, err = capsys.readouterr()
    assert out == "stopped\n"
    assert err.startswith("x\n" * LINES + "\n…")
    assert "201 lines" in err


def test_an_endless_loop_that_prints_leaves_a_page(capsys):
    def endless(p_drop):
        while True:
            print("still searching", p_drop)

    report = grade(find("00.1"), endless, seconds=0.3)
    assert "Does a loop never end?" in report.form
    out = capsys.readouterr().out
    assert out.count("still searching 0.2\n") == LINES
    assert "is left out: " in out
    assert len(out) < CHARACTERS


def test_the_verdict_comes_after_it_whole(monkeypatch, capsys):
    monkeypatch.setattr(api, "_answers", {})

    @exercise("00.1")
    def mask_variance(p_drop):
        print("trying\n" * 500)
        return p_drop * (1 - p_drop)

    autocheck("00.1")
    out = capsys.readouterr().out
    assert out.count("✓ ok   ") == 4
    assert out.index("is left out: ") < out.index("✓ ok   ")
    assert out.endswith("solved.\n")
