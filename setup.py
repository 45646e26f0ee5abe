"""Puts the small files of ``data/`` and the records of the lessons into a wheel.

pyproject.toml says which; it cannot both find the packages and add one that lies elsewhere.
"""

from setuptools import find_packages, setup

setup(
    packages=[*find_packages(include=["bdl_lessons*"]), "bdl_lessons.data", "bdl_lessons.lessons"],
    package_dir={"bdl_lessons.data": "data", "bdl_lessons.lessons": "notebooks/lessons"},
)
