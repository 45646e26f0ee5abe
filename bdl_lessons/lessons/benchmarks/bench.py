"""Benchmarks: modules ``bench_*.py`` beside this one, each with ``run() -> list[dict]``."""

from __future__ import annotations

import importlib
import pkgutil

from bdl_lessons.experiments import markdown

PREFIX = "bench_"


def names() -> list[str]:
    """Every benchmark there is."""
    package = importlib.import_module(__package__)
    found = (module.name for module in pkgutil.iter_modules(package.__path__))
    return sorted(name.removeprefix(PREFIX) for name in found if name.startswith(PREFIX))


def run(name: str) -> list[dict]:
    """The rows that benchmark ``name`` measures.

    Raises:
        ValueError: if there is no such benchmark.
    """
    if name not in names():
        raise ValueError(f"no benchmark {name!r}; there are {', '.join(names())}")
    return importlib.import_module(f"{__package__}.{PREFIX}{name}").run()


def table(rows: list[dict]) -> str:
    """Rows as a Markdown table; numbers to three significant digits."""
    columns = list(rows[0])
    return markdown.table(columns, [[_cell(row[column]) for column in columns] for row in rows])


def _cell(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
