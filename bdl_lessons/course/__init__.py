"""What the course says about itself: its symbols, its map, and what a machine needs for it.

Imports: datasets, panels.
"""

from bdl_lessons.course.lesson_map import course_map
from bdl_lessons.course.routes import route_picture, route_table
from bdl_lessons.course.symbols import all_symbols, new_symbols

__all__ = ["all_symbols", "course_map", "new_symbols", "route_picture", "route_table"]
