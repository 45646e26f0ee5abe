import matplotlib.pyplot as plt

from bdl_lessons.core.figure_rules import problems
from bdl_lessons.lessons.course.course_map import ARROWS, ROWS, course_map
from bdl_lessons.lessons.course.metadata import lessons


def test_every_lesson_has_one_box():
    boxes = [number for _, _, row in ROWS for number in row]
    assert sorted(boxes) == [x.number for x in lessons() if x.number not in {"00", "90"}]


def test_what_has_to_be_read_before_has_a_smaller_number():
    assert all(start < end for start, end in ARROWS)


def test_the_map_can_be_read_when_it_is_projected():
    figure = course_map()
    assert problems(figure) == []
    plt.close(figure)
