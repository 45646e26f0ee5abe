"""The trials of the UCI experiment and what they fix."""

from __future__ import annotations

from reproductions.experiment import Trial
from reproductions.uci.methods import METHODS
from reproductions.uci.networks import KL_WEIGHTS

SMALL = ("yacht", "bostonHousing", "energy", "concrete")
MIDDLE = ("wine-quality-red",)
LARGE = ("kin8nm", "power-plant", "naval-propulsion-plant")

FIRST = ("MCD", "VD", "VSD")
SECOND = ("BBB", "D.E")
BASELINES = ("VSD, T = 0", "MAP")
"""VSD without structure and a network without noise: on every set, to compare with."""
_PAPER = {
    "n_splits": 20,
    "n_hidden": 50,
    "batch_size": 32,
    "n_steps": 2000,
    "learning_rate": 0.03,
    "n_samples_val": 100,
    "n_samples": 1000,
}
_LARGE = {**_PAPER, "batch_size": 64, "n_samples_val": 50}
_QUICK = {**_PAPER, "n_splits": 2, "n_steps": 10, "n_samples_val": 5, "n_samples": 10}
_LARGE_KL_WEIGHTS = (0.1, 0.01, 1e-3)


def trials(scale: str) -> list[Trial]:
    """Most important first: the dropout family on the small sets, then wider in both directions."""
    if scale == "quick":
        few = ("MCD", "VSD", "D.E", "SWAG", "SLANG", "GP")
        return [_trial("yacht", method, _QUICK) for method in few]
    others = [method for method in METHODS if method not in FIRST + SECOND + BASELINES]
    return [
        *[_trial(data, method, _PAPER) for method in FIRST for data in SMALL],
        *[_trial(data, method, _PAPER) for method in SECOND for data in SMALL],
        *[_trial(data, method, _PAPER) for data in MIDDLE for method in FIRST + SECOND],
        *[_trial(data, method, _LARGE) for data in LARGE for method in FIRST + SECOND],
        *[_trial(data, method, _PAPER) for method in BASELINES for data in SMALL + MIDDLE],
        *[_trial(data, method, _LARGE) for method in BASELINES for data in LARGE],
        *[_trial(data, method, _PAPER) for method in others for data in SMALL],
    ]


def _trial(data: str, method: str, config: dict) -> Trial:
    weights = _LARGE_KL_WEIGHTS if data in LARGE else KL_WEIGHTS
    grid = [dict(point) for point in METHODS[method].grid if point["kl_weight"] in weights]
    return Trial({"data": data, "method": method, **config, "grid": grid}, seed=0)
