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
        stubs = []
        for cell in notebook.read(path).cells:
            if "exercise" in notebook.tags_of(cell):
                stubs.append(cell)
        numbers = [re.search(r'@exercise\("(\d\d\.\d)"\)', stub.source)[1] for stub in stubs]
        lesson = path.name[:2]
        of_the_package = of_lesson(lesson) if lesson in lessons() else ()
        assert numbers == [exercise.number for exercise in of_the_package]
        for number, stub in zip(numbers, stubs, strict=True):
            assert f'autocheck("{number}")' in stub.source
            assert "raise NotImplementedError" in stub.source
            printed = "".join(output.get("text", "") for output in stub.outputs)
            assert "not attempted yet" in printed
