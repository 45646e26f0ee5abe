"""The rows of the UCI tables: networks of the registry's layers, and three that train apart."""

from __future__ import annotations

from reproductions import methods
from reproductions.uci.baselines import ExactGP, Slang, Swag
from reproductions.uci.networks import Method, Networks

_RATES = (0.001, 0.002, 0.005, 0.01, 0.05, 0.1)
_DROP_RATES = tuple({"kl_weight": 1e-2, "p_drop": p} for p in _RATES)
_IN_THEIR_TURN = ("MCD", "VD", "VSD", "BBB", "D.E", "VSD, T = 0", "VSD, T = 1", "VMG", "SWAG")
_IN_THEIR_TURN += ("SLANG", "GP", "ELRG", "MAP", "BBB-LRT", "MNF")
"""As they were run; methods that are not named come after these."""

_ALL: dict[str, Method] = {
    name: Networks(
        method.note,
        **({"grid": _DROP_RATES} if name == "MCD" else {}),
        layers=method.layers,
        n_networks=5 if "ensemble" in method.tags else 1,
        sampling="shared" if "shared" in method.tags else "per_example",
    )
    for name, method in methods.tagged("uci").items()
} | {
    "SWAG": Swag("SGD with momentum 0.9; 20 deviations and a diagonal"),
    "SLANG": Slang(
        "rank 5, two draws in a step; the first half of the steps is Adam's, to the MAP weights"
    ),
    "GP": ExactGP(
        "exact, squared exponential with a length scale for each feature, fitted by evidence",
        ({"kl_weight": 1.0},),
    ),
}
METHODS = {name: _ALL[name] for name in dict.fromkeys((*_IN_THEIR_TURN, *_ALL))}
