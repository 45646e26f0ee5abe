"""What a notebook shows and asks: panels, exercises, and the tools that build the course.

Imports: experiments.
"""

from bdl_lessons.lessons.exercises import autocheck, exercise, hint, show_solution
from bdl_lessons.lessons.panel import Panel, Slider
