"""A lesson is one record: other words in its text and its record break nothing that is built."""

import re
import shutil

from bdl_lessons.core.files import NOTEBOOKS
from bdl_lessons.course.lesson_record import RECORDS, lesson_records
from tools import assignments, guards, instructor, metadata, notebook, render, slides

NAME = "05_monte_carlo_dropout"
REWORDED = {  # in the record
    'title = "Monte Carlo dropout: ': 'title = "Dropout at prediction: ',
    'question = "Two networks are wrong, and show no doubt. ': 'question = "Both err. ',
    '"split uncertainty into epistemic and aleatoric"': '"tell two uncertainties apart"',
    'takes = "masks"': 'takes = "what a mask is"',
    "What becomes about ten times smaller?": "What shrinks, to about a tenth?",
    "The standard error of the mean of the passes": "How far the mean of the passes may be off",
    "How would you choose it: ": "Choose it, and say why: ",
    "The training fit prefers no dropout: ": "Judged by training data no dropout wins: ",
}
SAID_OTHERWISE = {  # in the notebook
    "## Exercises": "## Now you",
    "## Recap": "## In short",
    "## Going deeper: ": "## For later: ",
    "> **": "> In one sentence: **",
    "One network with dropout saw six years": "Six years were shown to a network with dropout",
    "Replace `raise NotImplementedError` and run the cell.": "Fill in the stubs.",
    "**Could they have known?**": "Could they?",
}


def replaced(text, words):
    for old, new in words.items():
        assert old in text, old
        text = text.replace(old, new)
    return text


def test_a_reworded_lesson_is_built_from_its_record(tmp_path):
    shutil.copytree(NOTEBOOKS / "notes", tmp_path / "notes")
    (tmp_path / "lessons").mkdir()
    record = (RECORDS / f"{NAME}.toml").read_text()
    (tmp_path / "lessons" / f"{NAME}.toml").write_text(replaced(record, REWORDED))
    path = tmp_path / f"{NAME}.ipynb"
    path.write_text(replaced((NOTEBOOKS / path.name).read_text(), SAID_OTHERWISE))
    reworded = notebook.read(path)
    assert any("is out of date" in line for line in guards.generated_text(reworded, path))
    render.fill(reworded, path)
    assert list(guards.generated_text(reworded, path)) == []
    notebook.write(path, notebook.text(reworded))

    lesson = metadata.Lesson(path)
    before = metadata.Lesson(NOTEBOOKS / path.name)
    assert lesson.needs == before.needs
    assert [s.roles for s in lesson.sections] == [s.roles for s in before.sections]
    assert reworded.cells[0].source.startswith("# 05 · Dropout at prediction: ")
    plans = instructor.plans_of(lesson)
    assert "Question: **Both err. Could they have known?**" in plans
    assert "Could they? Hardly" in plans
    assert "[Dropout at prediction: " in metadata.lesson_table(tmp_path)
    deck = slides._title(lesson, reworded)
    assert '<p class="question">Both err. Could they have known?</p>' in deck
    source = assignments.source(reworded, lesson.record)
    assert "What shrinks, to about a tenth?" in str(source)
    assert "Choose it, and say why: " in str(source)
    assert "answer-05-4" in [cell.id for cell in source.cells]


def test_every_lesson_has_a_record_and_every_record_a_lesson():
    stems = {lesson.path.stem for lesson in metadata.lessons() if not lesson.is_index}
    assert stems == {record.stem for record in lesson_records().values()}


def test_a_record_says_no_number_of_a_lesson_that_it_needs():
    for record in lesson_records().values():
        names = [need.lesson for need in record.needs]
        names += record.map.arrows_from if record.map else ()
        assert set(names) <= lesson_records().keys()
        assert not any(re.match(r"\d", name) for name in names)


def test_a_rule_separates_the_questions_of_a_self_test():
    """In JupyterLab a question would else stand as near to the answers above as to its own."""
    for record in lesson_records().values():
        rules = re.findall(r"</details>\n\n---\n\n\*\*\d\.\*\*", render.self_test(record))
        assert len(rules) == len(record.self_test) - 1
