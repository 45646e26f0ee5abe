"""Puts the small files of ``data/`` into a wheel, as ``bdl_lessons/data``.

pyproject.toml says which; it cannot both find the packages and add one that lies elsewhere.
"""

from setuptools import find_packages, setup

setup(
    packages=[*find_packages(include=["bdl_lessons*"]), "bdl_lessons.data"],
    package_dir={"bdl_lessons.data": "data"},
)
