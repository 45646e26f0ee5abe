from bdl_lessons.course import all_symbols, new_symbols
from bdl_lessons.course.symbols import SYMBOLS


def test_a_symbol_has_one_meaning():
    letters = [symbol.latex for symbol in SYMBOLS]
    assert len({*letters}) == len(letters)
    assert not [s.meaning for s in SYMBOLS if "; in lesson" in s.meaning]
    assert [symbol.lesson for symbol in SYMBOLS] == sorted(symbol.lesson for symbol in SYMBOLS)


def test_each_lesson_shows_its_own_rows_and_lesson_00_shows_all():
    lessons = sorted({symbol.lesson for symbol in SYMBOLS})
    rows = [row for lesson in lessons for row in new_symbols(lesson).data.splitlines()[2:]]
    assert rows == all_symbols().data.splitlines()[4:-2]
    assert "| $\\tau$ | `tau` |" in new_symbols("02").data
