import nbformat
import pytest

from tools.timing import displayed_formulas, fill, minutes, spoken_words

new = nbformat.v4


def cell(kind, source, slide_type="slide", tags=()):
    made = getattr(new, f"new_{kind}_cell")(source)
    made.metadata.update(slideshow={"slide_type": slide_type}, tags=list(tags))
    return made


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("## A question\n\nWho knows?", 4),
        ("the mean-field family isn't rich", 5),
        ("a mean $\\mathbb E[z_i] = 1$ of noise", 5),
        ("one $$a = b$$ two", 2),
        ("see <b>the</b> [next lesson](02_x.ipynb)", 4),
        ("ask <details><summary>Answer</summary>\n\nbecause</details> me", 2),
        ("code\n```python\nx = 1\n```\nhere", 2),
    ],
)
def test_words_are_those_that_a_lecturer_says(text, words):
    assert spoken_words(text) == words


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("none $a$", 0),
        ("$$a = b$$ and $$c$$", 2),
        ("$$\\begin{aligned} a &= b && (1) \\\\ c &= d && (2) \\end{aligned}$$", 2),
    ],
)
def test_lines_of_displayed_formulas(text, lines):
    assert displayed_formulas(text) == lines


def test_minutes_add_up_what_is_shown():
    picture = cell("code", "show(figure)", tags=["hide-input"])
    picture.outputs = [new.new_output("display_data", {"image/png": "x"})]
    cells = [
        cell("markdown", "word " * 130),
        cell("markdown", "$$a$$"),
        cell("code", "x = 1\n" * 15),
        picture,
        cell("markdown", "word " * 1000, slide_type="skip"),
        cell("markdown", "word " * 1000, slide_type="notes"),
    ]
    assert minutes(cells) == pytest.approx(1 + 0.25 + 1 + 0.75)


def test_fill_times_lectures_and_pairs_and_leaves_work_alone():
    title = cell("markdown", "word " * 65)
    lecture, pair, solo = (cell("markdown", "## x " + "word " * 128) for _ in range(3))
    lecture.metadata["bdl"] = {"minutes": [9, 9], "mode": "lecture", "section": "a"}
    pair.metadata["bdl"] = {"minutes": [9, 9], "mode": "pair", "section": "b", "activity": 3}
    solo.metadata["bdl"] = {"minutes": [20, 40], "mode": "solo", "section": "c"}
    notebook = new.new_notebook(cells=[title, lecture, pair, solo])
    fill(notebook)
    assert [c.metadata["bdl"]["minutes"] for c in (lecture, pair, solo)] == [
        [1, 1],
        [4, 4],
        [20, 40],
    ]
