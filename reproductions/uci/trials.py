"""The trials of the UCI experiment and what they fix; a new set enters by its record alone."""

import math

from bdl_lessons.datasets import UCI_SETS
from reproductions.experiment import Trial
from reproductions.uci.methods import METHODS

CORE = ("MAP", "VSD, T = 0", "VD", "MCD", "BBB", "VSD", "VSD, T = 1", "D.E")
"""What the published tables compare, VSD without structure and a network without noise."""
MOST_ROWS_FOR_ALL, LARGE = 1_100, 5_000
"""Rows of a set up to which every method is run, and from which on training takes more steps."""

_PAPER = {"n_splits": 20, "n_hidden": 50, "batch_size": 32, "n_steps": 2000}
_PAPER |= {"learning_rate": 0.03, "n_samples_val": 100, "n_samples": 1000}
_LARGE = {**_PAPER, "batch_size": 64, "n_steps": 8_000}
_QUICK = {**_PAPER, "n_splits": 2, "n_steps": 10, "n_samples_val": 5, "n_samples": 10}


def trials(scale: str) -> list[Trial]:
    """Every method on the small sets, the core of the comparison on the others."""
    if scale == "quick":
        few = ("MCD", "VSD", "D.E", "SWAG", "SLANG", "GP")
        return [_trial("yacht", method, _QUICK) for method in few]
    return [
        _trial(data, method, _LARGE if one.n_rows >= LARGE else _PAPER)
        for method in METHODS
        for data, one in sorted(UCI_SETS.items(), key=lambda item: item[1].n_rows)
        if method in CORE or one.n_rows <= MOST_ROWS_FOR_ALL
    ]


def _trial(data: str, method: str, config: dict) -> Trial:
    """Weights above 1 are left out for the large sets, where not even 1 was chosen."""
    greatest = 1.0 if UCI_SETS[data].n_rows >= LARGE else math.inf
    grid = [dict(point) for point in METHODS[method].grid if point["kl_weight"] <= greatest]
    return Trial({"data": data, "method": method, **config, "grid": grid}, seed=0)
