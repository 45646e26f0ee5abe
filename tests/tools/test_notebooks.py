"""The committed lessons pass every guard, and the exercises in them are those of the package."""

import re

import pytest

from bdl_lessons.exercises.grader import lessons, of_lesson
from tools import notebook
from tools.guards import problems

PATHS = notebook.paths()


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)
class TestEveryLesson:
    def test_no_guard_finds_a_fault(self, path):
        assert problems(notebook.read(path), path) == []

    def test_it_is_stored_clean(self, path):
        stored = notebook.read(path)
        assert path.read_text(encoding="utf-8") == notebook.text(notebook.clean(stored))

    def test_its_exercises_are_those_of_the_package(self, path):
        cells = [c for c in notebook.read(path).cells if "exercise" in c.metadata.get("tags", [])]
        handed_out = [re.search(r'@exercise\("(\d\d\.\d)"\)', cell.source)[1] for cell in cells]
        number = path.name[:2]
        known = of_lesson(number) if number in lessons() else ()
        assert handed_out == [exercise.number for exercise in known]
        for number, cell in zip(handed_out, cells, strict=True):
            assert f'autocheck("{number}")' in cell.source
            assert "raise NotImplementedError" in cell.source
            assert "not attempted yet" in "".join(o.get("text", "") for o in cell.outputs)
