import matplotlib.pyplot as plt

from bdl_lessons.course.lesson_map import course_map, map_rows
from bdl_lessons.course.lesson_record import lesson_records
from tools.figure_rules import problems
from tools.metadata import lessons

RECORDS = lesson_records()
ARROWS = [
    (RECORDS[start].number, record.number)
    for record in RECORDS.values()
    if record.map
    for start in record.map.arrows_from
]


def test_every_lesson_has_one_box():
    boxes = [record.number for row in map_rows(RECORDS.values()) for record in row.lessons]
    assert sorted(boxes) == [x.number for x in lessons() if x.number not in {"00", "90"}]


def before(number: str) -> set[str]:
    """Every lesson from which arrows lead to one."""
    direct = {start for start, end in ARROWS if end == number}
    return direct.union(*(before(one) for one in direct))


def test_the_arrows_lead_to_a_lesson_from_all_that_its_first_page_asks_for():
    missing = {x.number: set(x.needs) - before(x.number) - {"00"} for x in lessons()}
    # An arrow from 05 to 13 or to 15 would cross two rows of boxes.
    assert {number: few for number, few in missing.items() if few} == {"13": {"05"}, "15": {"05"}}
    assert before("04") == {"01", "02"}


def test_no_arrow_starts_at_a_lesson_that_is_neither_required_nor_useful():
    asked_for = {lesson.number: dict(lesson.asked_for) for lesson in lessons()}
    for start, end in ARROWS:
        assert start in asked_for[end], f"{start} → {end}"


def test_the_map_can_be_read_when_it_is_projected():
    figure = course_map()
    assert problems(figure) == []
    plt.close(figure)
