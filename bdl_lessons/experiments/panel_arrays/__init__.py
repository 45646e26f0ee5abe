"""Training behind the panels and figures of the lessons, one module for each file of arrays.

A module has ``make_arrays() -> dict[str, ndarray]``; ``python -m bdl_lessons panel-data NAME``
writes what it returns to ``data/panels/NAME.npz``.
"""
