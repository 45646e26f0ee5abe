"""The committed lessons pass every guard, and the exercises in them are those of the package."""

import base64
import re
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from bdl_lessons.exercises.grader import lessons, of_lesson
from bdl_lessons.panels import many_networks
from tools import notebook
from tools.guards import problems

PATHS = notebook.paths()


def test_a_picture_in_a_palette_looks_the_same_and_is_smaller():
    png = base64.b64encode(many_networks.panel().render().png).decode()
    light = notebook.lighten(png)
    before, after = (
        np.array(Image.open(BytesIO(base64.b64decode(text))).convert("RGB"), int)
        for text in (png, light)
    )
    assert abs(before - after).mean() < 0.5
    assert len(light) < len(png) / 2
    assert notebook.lighten(light) == light


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
