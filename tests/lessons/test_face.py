import subprocess
import sys

import pytest

from bdl_lessons import lessons
from bdl_lessons.lessons.panels import arrays, rotated_digit


def test_a_panel_is_imported_from_the_face():
    from bdl_lessons.lessons import arrays as from_face

    assert from_face is arrays
    assert lessons.rotated_digit is rotated_digit
    assert "rotated_digit" in dir(lessons)


def test_an_unknown_name_is_an_import_error():
    with pytest.raises(ImportError, match="no_such_panel"):
        from bdl_lessons.lessons import no_such_panel  # noqa: F401


def test_a_lesson_imports_only_the_panels_that_it_names():
    code = (
        "import sys; from bdl_lessons.lessons import dropout_rate; "
        "print([m for m in sys.modules if m in ('bdl_lessons.lessons.panels.wide_network', "
        "'gpytorch')])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
