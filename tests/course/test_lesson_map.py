import matplotlib.pyplot as plt

from bdl_lessons.course.lesson_map import ARROWS, ROWS, course_map
from tools.figure_rules import problems
from tools.metadata import lessons


def test_every_lesson_has_one_box():
    boxes = [number for _, _, row in ROWS for number in row]
    assert sorted(boxes) == [x.number for x in lessons() if x.number not in {"00", "90"}]


def before(number: str) -> set[str]:
    """Every lesson from which arrows lead to one."""
    direct = {start for start, end in ARROWS if end == number}
    return direct.union(*(before(one) for one in direct))


def test_the_arrows_lead_to_a_lesson_from_all_that_its_first_page_asks_for():
    missing = {x.number: set(x.needs) - before(x.number) - {"00"} for x in lessons()}
    # An arrow from 05 to 12 would cross two rows of boxes.
    assert {number: few for number, few in missing.items() if few} == {"12": {"05"}}
    assert before("04") == {"01", "02"}


def test_no_arrow_starts_at_a_lesson_that_the_first_page_does_not_name():
    for start, end in ARROWS:
        page = next(x.path for x in lessons() if x.number == end).read_text(encoding="utf-8")
        needs = next(line for line in page.splitlines() if "**Needs**" in line)
        assert f"({start}_" in needs, f"{start} → {end}"


def test_the_map_can_be_read_when_it_is_projected():
    figure = course_map()
    assert problems(figure) == []
    plt.close(figure)
