from tools import metadata, notebook


def test_a_lesson_is_read_from_its_metadata(tmp_path):
    from nbformat import v4

    title = v4.new_markdown_cell(
        "# 03 · A claim\n\n| **Needs** | [01](01_a.ipynb), [02 B](02_b.ipynb); "
        "[07](07_c.ipynb) is useful, not required |"
    )
    section = v4.new_markdown_cell("## One")
    section.metadata["bdl"] = {"minutes": [2, 3], "mode": "solo"}
    other = v4.new_markdown_cell("## Two")
    other.metadata["bdl"] = {"minutes": [4, 8], "mode": "pair"}
    other.metadata["bdl"] |= {"role": ["panel"], "alone": 9}
    deeper = v4.new_markdown_cell("## Going deeper: three")
    deeper.metadata["bdl"] = {"minutes": [7, 7], "mode": "lecture"}
    panel = v4.new_code_cell("panel", metadata={"tags": ["panel"]})
    made = v4.new_notebook(cells=[title, section, other, panel, deeper])
    (tmp_path / "03_a_claim.ipynb").write_text(notebook.text(made))
    (lesson,) = metadata.lessons(tmp_path)
    assert (lesson.number, lesson.title) == ("03", "A claim")
    assert lesson.needs == ["01", "02"]
    assert metadata.summary(lesson.sections) == (
        "4–8 min lecture · 9 min alone · 2–3 min exercises · 7 min going deeper"
    )
    assert (len(lesson.cells("panel")), len(lesson.cells("exercise"))) == (1, 0)
    assert lesson.sections[1] == metadata.Section("Two", (4, 8), "pair", frozenset({"panel"}))
    table = metadata.lesson_table(tmp_path, "notebooks/")
    assert "| 03 [A claim](notebooks/03_a_claim.ipynb) | 01, 02, (07) | 4–8 | 9 | 2–3 | 7" in table
    assert table.endswith("5 % for questions.")
    metadata.fill_title(made)
    assert made.cells[0].source.startswith("# 03 · A claim"), "a title without a row stays"
