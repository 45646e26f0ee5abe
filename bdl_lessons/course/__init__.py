"""What the course says about itself: its symbols, its map, and what a machine needs for it.

Imports: datasets, panels.
"""

from bdl_lessons.course.symbols import all_symbols, new_symbols
