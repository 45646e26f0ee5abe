"""The trials of the UCI experiment and what they fix."""

from reproductions.experiment import Trial
from reproductions.uci.methods import METHODS

SMALL = ("yacht", "bostonHousing", "energy", "concrete")
LARGE = ("kin8nm", "power-plant", "naval-propulsion-plant")
CORE = ("MAP", "VSD, T = 0", "VD", "MCD", "BBB", "VSD", "VSD, T = 1", "D.E")
"""What the published tables compare, VSD without structure and a network without noise."""

_PAPER = {"n_splits": 20, "n_hidden": 50, "batch_size": 32, "n_steps": 2000}
_PAPER |= {"learning_rate": 0.03, "n_samples_val": 100, "n_samples": 1000}
_LARGE = {**_PAPER, "batch_size": 64, "n_steps": 8_000}
_QUICK = {**_PAPER, "n_splits": 2, "n_steps": 10, "n_samples_val": 5, "n_samples": 10}
_LEAST = {"kl_weight": 1e-4, "p_drop": 0.005}
"""The ends of the grid of the sets that are not large; there an end was chosen too often."""


def trials(scale: str) -> list[Trial]:
    """Every method on the small sets, then the core of the comparison on the others."""
    if scale == "quick":
        few = ("MCD", "VSD", "D.E", "SWAG", "SLANG", "GP")
        return [_trial("yacht", method, _QUICK) for method in few]
    return [
        *[_trial(data, method, _PAPER) for method in METHODS for data in SMALL],
        *[_trial("wine-quality-red", method, _PAPER) for method in CORE],
        *[_trial(data, method, _LARGE) for data in LARGE for method in CORE],
    ]


def _trial(data: str, method: str, config: dict) -> Trial:
    least = {} if data in LARGE else _LEAST
    grid = [
        dict(point)
        for point in METHODS[method].grid
        if all(point.get(name, low) >= low for name, low in least.items())
    ]
    return Trial({"data": data, "method": method, **config, "grid": grid}, seed=0)
