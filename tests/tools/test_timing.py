import nbformat
import pytest

from tools.timing import displayed_formulas, fill, minutes, spoken_words

new = nbformat.v4


def cell(kind, source, slide_type="slide", tags=()):
    made = getattr(new, f"new_{kind}_cell")(source)
    made.metadata.update(slideshow={"slide_type": slide_type}, tags=list(tags))
    return made


@pytest.mark.parametrize(
    ("text", "words", "lines"),
    [
        ("## A question\n\nWho knows?", 4, 0),
        ("the mean-field family isn't rich", 5, 0),
        ("a mean $\\mathbb E[z_i] = 1$ of noise", 5, 0),
        ("one $$a = b$$ two $$c$$", 2, 2),
        ("$$\\begin{aligned} a &= b && (1) \\\\ c &= d && (2) \\end{aligned}$$", 0, 2),
        ("see <b>the</b> [next lesson](02_x.ipynb)", 4, 0),
        ("ask <details><summary>Answer</summary>\n\nbecause</details> me", 4, 0),
        ("code\n```python\nx = 1\n```\nhere", 2, 0),
    ],
)
def test_words_that_a_lecturer_says_and_lines_of_displayed_formulas(text, words, lines):
    assert (spoken_words(text), displayed_formulas(text)) == (words, lines)


def test_minutes_add_up_what_is_shown():
    picture = cell("code", "show(figure)", tags=["hide-input"])
    picture.outputs = [new.new_output("display_data", {"image/png": "x"})]
    table = cell("code", "x = 1\n" * 10)
    table.outputs = [new.new_output("stream", text="ok   (1) the mean: 1 (expected 1 ± 0)")]
    cells = [
        cell("markdown", "# 01 · A title\n\n" + "word " * 130),
        cell("markdown", "word " * 130),
        cell("markdown", "$$a$$"),
        cell("code", "panel", tags=["panel"]),
        picture,
        table,
    ]
    assert minutes(cells) == pytest.approx(1.05 * (1 + 40 / 60 + 1 + 1 + 25 / 60))


def test_fill_times_stage_and_page_and_leaves_work_alone():
    def section(words, mode, slide_type="slide", name="x", **more):
        made = cell("markdown", f"## {name} " + "word " * (words - 1), slide_type)
        made.metadata["bdl"] = {"minutes": [20, 40], "mode": mode, **more}
        return made

    lecture, pair = section(260, "lecture"), section(260, "pair", activity=3)
    page = cell("markdown", "word " * 390, slide_type="skip")
    deeper = section(390, "lecture", "skip", name="Going deeper")
    solo = section(130, "solo")
    fill(new.new_notebook(cells=[lecture, page, pair, solo, deeper]))
    found = [
        (c.metadata["bdl"]["minutes"][0], c.metadata["bdl"].get("alone"))
        for c in (lecture, pair, solo, deeper)
    ]
    assert found == [(2, 5), (5, 5), (20, None), (3, 3)]
