"""The clock of a lesson: what counts, and that a question to the class does."""

from nbformat.v4 import new_markdown_cell, new_notebook

from tools import timing

ASKED = "Say it. Ask: “Why?” Most guess."


def lesson(activity: int = 0):
    """One section of two slides, with 130 words and with none."""
    opening = new_markdown_cell("word " * timing.WORDS_PER_MINUTE)
    opening.id = "01-01"
    opening.metadata["bdl"] = {"mode": "lecture", "minutes": [0, 0], "alone": 0}
    if activity:
        opening.metadata["bdl"]["activity"] = activity
    second = new_markdown_cell("")
    second.id = "01-02"
    for cell in (opening, second):
        cell.metadata["slideshow"] = {"slide_type": "slide"}
    return new_notebook(cells=[opening, second])


def stored(notebook, notes):
    timing.fill(notebook, notes)
    return timing.opening_of(notebook.cells)


def test_words_are_spoken_at_the_printed_rate():
    assert stored(lesson(), {})["minutes"] == [1, 1]
    assert stored(lesson(activity=4), {})["minutes"] == [5, 5]


def test_questions_of_notes_take_half_a_minute_each_on_the_stage():
    notes = {"01-01": ASKED, "01-02": ASKED}
    timed = stored(lesson(), notes)
    assert timed["minutes"] == [2, 2]
    assert timed["alone"] == 1
    assert stored(lesson(), {"01-01": "If asked why: so."})["minutes"] == [1, 1]


def test_an_activity_contains_its_questions():
    assert stored(lesson(activity=4), {"01-01": ASKED, "01-02": ASKED})["minutes"] == [5, 5]
