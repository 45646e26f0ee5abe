"""UCI regression where inputs are not what training had: does structure of the noise show there?

A trial is a data set, a method, a protocol and a start, on all standard splits at once. Networks
are trained and tau is chosen as in :mod:`reproductions.uci.experiment`. Then they predict the test
inputs three times: as given, with every column permuted by itself, and with the two most correlated
columns swapped. Targets are used for the given inputs alone.

Whatever the structure of a posterior, its mean predictive variance over the training inputs is
nearly fixed by the objective; what correlated noise can change is *where* the variance is. So it
can show where inputs break the correlations that the data have. Nguyen et al. (2021) measured none
of this: the experiment asks what their tables could not answer.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bdl_lessons import models
from bdl_lessons.core import device
from bdl_lessons.datasets import UCI_SETS
from bdl_lessons.inference import BatchedNetworks
from bdl_lessons.models import Network, initialise, mlp
from reproductions import datasets
from reproductions.experiment import Trial, TrialResult
from reproductions.methods import METHODS as REGISTRY
from reproductions.uci.experiment import (
    _LARGE,
    _PAPER,
    _QUICK,
    LARGE,
    MOST_ROWS_FOR_ALL,
    choose_and_predict,
    log_likelihood,
)
from reproductions.uci.shift_measures import (
    draws_without_correlations,
    gp_predictions,
    loss_against_gp,
    noise_of,
    shifted_inputs,
    spread_under_shift,
)
from reproductions.uci.training import Point, Task

_ROWS = {method.name: method for method in REGISTRY}
METHODS = {
    "MAP": _ROWS["MAP"],
    "MCD": _ROWS["MCD, wide prior"],
    "VD": _ROWS["VD, Kingma's cubic"],
    "BBB-LRT": _ROWS["BBB-LRT"],
    "D.E": _ROWS["D.E"],
    "SWAG": _ROWS["SWAG"],
    "SLANG": _ROWS["SLANG"],
    "ELRG": _ROWS["ELRG"],
    "VMG": _ROWS["VMG"],
    "MNF": _ROWS["MNF, narrow flows"],
    "GP": _ROWS["GP"],
    "VSD, T = 0": _ROWS["VSD, T = 0"],
    "VSD, T = 1": _ROWS["VSD, T = 1"],
    "VSD, T = 2": _ROWS["VSD, T = 2"],
    "VSD, T = 8": _ROWS["VSD, T = 8"],
    "VSD, T = 50": _ROWS["VSD, T = 50"],
    "VSD, T = 2, fc": _ROWS["VSD, T = 2, fc"],
    "VSD, T = 2, frozen": _ROWS["VSD, T = 2, frozen"],
    "VSD, T = 8, frozen": _ROWS["VSD, T = 8, frozen"],
    "VSD, T = 2, near the identity": _ROWS["VSD, T = 2, near the identity"],
    "VSD, T = 8, near the identity": _ROWS["VSD, T = 8, near the identity"],
    "VSD, T = 8, near the axes": _ROWS["VSD, T = 8, near the axes"],
    "full covariance": _ROWS["full covariance"],
}
INDEPENDENT = "VSD, T = 0"
"""What every other method is compared with, and whose start the noise of the others shares."""
CORE = (INDEPENDENT, "full covariance", "VSD, T = 8", "VSD, T = 2", "VSD, T = 2, frozen")
FAMILY = ("VSD, T = 1", "VSD, T = 2, fc", "VSD, T = 8, frozen")
RIVALS = ("MAP", "MCD", "D.E", "VD", "BBB-LRT", "SWAG", "SLANG", "ELRG", "VMG", "MNF")
OTHER_STARTS = (
    "VSD, T = 2, near the identity",
    "VSD, T = 8, near the identity",
    "VSD, T = 8, near the axes",
    "VSD, T = 50",
)
ON_LARGE_SETS = (INDEPENDENT, "VSD, T = 2", "VSD, T = 8", "full covariance", "VSD, T = 1")
ON_LARGE_SETS += ("MAP", "MCD", "D.E")

SMALL_SETS = ("bostonHousing", "concrete", "energy", "yacht", "wine-quality-red")
LARGE_SETS = ("kin8nm", "power-plant", "naval-propulsion-plant")
HELP_SETS = ("bostonHousing", "concrete", "wine-quality-red")
KL_WEIGHTS = (0.001, 0.01)
"""Of half the squared error of standardised targets."""
P_DROP = 0.05
"""Where noise starts, or the fixed rate of MC dropout."""
MIN_ALPHA = 1e-9
ALPHA_SPREAD = 0.1
"""Of log alpha at the start: the default of structured dropout."""
FEW = 0.1
LEAST_ROWS = 30
"""Where only the first tenth of a training part is used, at least so many."""

N_STARTS = 3
N_STEPS = _PAPER["n_steps"]
N_SAMPLES = 400
"""Draws of the function at each input."""


def trials(scale: str) -> list[Trial]:
    """The methods that isolate structure first, with equal weights of the KL."""
    if scale == "quick":
        return [*_quick_trials()]
    return [*_small_sets(), *_large_sets()]


def _quick_trials() -> Iterator[Trial]:
    for method in (INDEPENDENT, "VSD, T = 2", "full covariance", "MAP", "D.E", "SWAG", "SLANG"):
        yield equal_trial("yacht", method, n_starts=2, sizes=_QUICK)
    yield equal_trial("yacht", "VSD, T = 2", n_starts=1, sizes=_QUICK, train_share=0.1)
    yield tuned_trial("yacht", "GP", sizes=_QUICK)


def _small_sets() -> Iterator[Trial]:
    for data in SMALL_SETS:
        for method in CORE:
            yield equal_trial(data, method)
    for data in SMALL_SETS:
        for method in CORE:
            yield equal_trial(data, method, train_share=FEW)
    yield from _what_helps()
    for data in SMALL_SETS:
        for method in RIVALS[:3]:
            yield equal_trial(data, method, n_starts=1)
            yield equal_trial(data, method, n_starts=1, train_share=FEW)
        if UCI_SETS[data].n_rows <= MOST_ROWS_FOR_ALL:
            yield tuned_trial(data, "GP")
    for data in SMALL_SETS:
        for method in (*CORE, *RIVALS[:3]):
            yield tuned_trial(data, method)
    for data in SMALL_SETS:
        for method in FAMILY:
            yield equal_trial(data, method)
    for data in SMALL_SETS:
        for method in RIVALS[3:]:
            yield equal_trial(data, method, n_starts=1)
    for data in SMALL_SETS:
        for method in (*FAMILY, *RIVALS[3:]):
            yield tuned_trial(data, method)


def _what_helps() -> Iterator[Trial]:
    """What might help reflections to collect what full covariance does."""
    (kl_weight, *_) = KL_WEIGHTS
    longer = _PAPER | {"n_steps": 2 * _PAPER["n_steps"]}
    for data in HELP_SETS:
        for method in OTHER_STARTS:
            yield equal_trial(data, method, kl_weights=(kl_weight,))
        for method in (INDEPENDENT, "VSD, T = 2", "VSD, T = 8", "full covariance"):
            yield equal_trial(data, method, kl_weights=(kl_weight,), alpha_spread=1.0)
            yield equal_trial(data, method, kl_weights=(kl_weight,), sizes=longer)
    for data in HELP_SETS:
        for method in (INDEPENDENT, "VSD, T = 2", "VSD, T = 8", "full covariance"):
            yield equal_trial(data, method, kl_weights=(kl_weight,), alpha_spread=0.5)


def _large_sets() -> Iterator[Trial]:
    for data in LARGE_SETS:
        for method in ON_LARGE_SETS:
            yield equal_trial(data, method, n_starts=1, sizes=_LARGE)
    for data in LARGE_SETS:
        for method in ON_LARGE_SETS:
            yield tuned_trial(data, method, sizes=_LARGE)


def equal_trial(
    data: str,
    method: str,
    *,
    kl_weights: Sequence[float] = KL_WEIGHTS,
    n_starts: int = N_STARTS,
    sizes: Mapping[str, float] = _PAPER,
    train_share: float = 1.0,
    alpha_spread: float = ALPHA_SPREAD,
) -> Trial:
    """A method at weights of the KL that others have too. Nothing but tau is chosen."""
    grid = [
        {"kl_weight": weight, "p_drop": P_DROP, "min_alpha": MIN_ALPHA} for weight in kl_weights
    ]
    if alpha_spread != ALPHA_SPREAD:
        for point in grid:
            point["alpha_spread"] = alpha_spread
    return _trial(data, method, "equal", n_starts, sizes, train_share, grid)


def tuned_trial(data: str, method: str, sizes: Mapping[str, float] = _PAPER) -> Trial:
    """A method that chooses from its own grid by validation rows, as in the UCI tables."""
    greatest = 1.0 if UCI_SETS[data].n_rows >= LARGE else math.inf
    grid = [dict(point) for point in METHODS[method].uci_grid if point["kl_weight"] <= greatest]
    return _trial(data, method, "tuned", 1, sizes, 1.0, grid)


def _trial(
    data: str,
    method: str,
    protocol: str,
    n_starts: int,
    sizes: Mapping[str, float],
    train_share: float,
    grid: list[dict[str, float]],
) -> Trial:
    config = {
        "data": data,
        "method": method,
        "protocol": protocol,
        "n_starts": n_starts,
        "train_share": train_share,
        **sizes,
        "n_samples": min(N_SAMPLES, sizes["n_samples"]),
        "grid": grid,
    }
    return Trial(config, seed=0)


def run(trial: Trial) -> TrialResult:
    """One method from all starts, all splits side by side.

    Arrays are ``(W, R, S)``: the points of the grid (one where the method chose), the starts, the
    splits. Likelihoods are in nats, the rest in original units of y.

    - ``log_likelihood`` and ``rmse`` at the given test inputs, with ``tau`` chosen by validation
      rows (``log_likelihood_grid_tau``: from the published grid). Of the tuned protocol also
      ``point``, the place in the grid.
    - ``std/given``, ``std/permuted``, ``std/swapped``: mean standard deviation of the draws of the
      function; ``ratio/permuted``, ``ratio/swapped``: over that at the given inputs;
      ``auroc/permuted``, ``auroc/swapped``: probability that the standard deviation is larger at a
      shifted input than at a given one. Not for a method that draws nothing.
    - ``gp_kl/given`` and so on: mean KL from the predictive Gaussian of a Gaussian process fitted
      to the same rows to a Gaussian with the moments of this method. It is the expected log
      likelihood that is lost if the process is right, and says nothing beyond that.
      ``gp_kl_spread/given``: the part of the variance, as if the means agreed.
    - for noise on units ``alpha``, ``alpha_hidden``, ``factor_var`` and ``factor_var_hidden``,
      medians over the input and the hidden units; ``correlation`` and ``correlation_hidden``, root
      mean squares of the correlations of their noise. ``cut/…``: of the same networks, when they
      draw independent noise of the same variances.

    Metrics are means of the arrays at each weight of the KL.
    """
    config = trial.config
    parts = _parts(config, device(float64=True))
    draws, chosen, networks = _predictions(trial, parts)
    draws_at = _at_each_input(draws, parts)
    y_test = parts.y_test.repeat(draws.shape[1] // len(parts.y_test), 1)
    tau = chosen["tau"]
    values = {
        "log_likelihood": log_likelihood(draws_at["given"], y_test, tau),
        "log_likelihood_grid_tau": log_likelihood(draws_at["given"], y_test, chosen["grid_tau"]),
        "rmse": (draws_at["given"].mean(0) - y_test).square().mean(1).sqrt(),
        "tau": tau,
    }
    if config["protocol"] == "tuned":
        values["point"] = chosen["point"]
    if len(draws) > 1:
        values |= spread_under_shift(draws_at)
    if UCI_SETS[config["data"]].n_rows <= MOST_ROWS_FOR_ALL:
        mean, var = gp_predictions(parts.x_train, parts.y_train, parts.all_inputs)
        values |= loss_against_gp(draws_at, tau, mean, var)
    if networks:
        values |= noise_of(networks)
    if networks and hasattr(networks[0][0], "noise_cov") and config["method"] != INDEPENDENT:
        draws = draws_without_correlations(
            networks, parts.x_train, parts.y_train, parts.all_inputs, config["n_samples"]
        )
        draws_at = _at_each_input(draws, parts)
        for name, value in spread_under_shift(draws_at).items():
            values[f"cut/{name}"] = value
        values["cut/log_likelihood"] = log_likelihood(draws_at["given"], y_test, tau)
    return _result(config, values)


@dataclass(frozen=True)
class Parts:
    """A data set by its S splits, in original units."""

    x_train: Tensor
    """``(S, N, K)``."""
    y_train: Tensor
    """``(S, N)``."""
    inputs: Mapping[str, Tensor]
    """Test inputs as given and shifted, ``(S, B, K)`` each."""
    y_test: Tensor
    """``(S, B)``, at the given inputs."""

    @property
    def all_inputs(self) -> Tensor:
        """One kind of inputs after the other, ``(S, 3 B, K)``."""
        return torch.cat([*self.inputs.values()], dim=1)


def _parts(config: Mapping[str, Any], on: torch.device) -> Parts:
    data = datasets.uci(config["data"])
    rows = datasets.splits(len(data.x), config["n_splits"])
    train, test = (torch.stack([torch.from_numpy(pair[i]) for pair in rows]) for i in (0, 1))
    if config["train_share"] < 1:
        n_used = max(LEAST_ROWS, int(config["train_share"] * train.shape[1]))
        train = train[:, :n_used]
    x = data.x.to(on)
    y = data.y.to(on)
    return Parts(x[train], y[train], shifted_inputs(x[train], x[test]), y[test])


def _predictions(trial: Trial, parts: Parts) -> tuple[Tensor, dict[str, Tensor], Sequence[Network]]:
    """Draws ``(n, M, 3 B)`` in original units, what was chosen, ``(M,)`` each, and the networks.

    M counts the points of the grid (one where the method chooses), then starts, then splits.
    """
    config = trial.config
    grid = config["grid"]
    is_tuned = config["protocol"] == "tuned"
    n_copies = config["n_starts"] * (1 if is_tuned else len(grid))
    n_of_a_point = config["n_starts"] * len(parts.y_test)
    side_by_side = [point for point in grid for _ in range(n_of_a_point)]
    started: list[BatchedNetworks] = []

    def new_task(points: Sequence[Point], *data_and_config: Any) -> PairedTask:
        """Where nothing is chosen, the networks have the points of the grid side by side."""
        points = points if is_tuned else side_by_side
        return PairedTask(points, *data_and_config, trial.seed, started)

    draws, chosen, _ = choose_and_predict(
        METHODS[config["method"]],
        parts.x_train.repeat(n_copies, 1, 1),
        parts.y_train.repeat(n_copies, 1),
        parts.all_inputs.repeat(n_copies, 1, 1),
        UCI_SETS[config["data"]].tau_grid,
        config if is_tuned else {**config, "grid": grid[:1]},
        torch.Generator(parts.x_train.device).manual_seed(3 * trial.seed),
        new_task,
    )
    if not started:
        return draws, chosen, []
    last = started[-1]
    return draws, chosen, [last.network(number) for number in range(len(last))]


def _at_each_input(draws: Tensor, parts: Parts) -> dict[str, Tensor]:
    """Draws ``(n, M, 3 B)`` by the kind of inputs, ``(n, M, B)`` each."""
    n_rows = parts.y_test.shape[1]
    return dict(zip(parts.inputs, draws.split(n_rows, dim=-1), strict=True))


def _result(config: Mapping[str, Any], values: Mapping[str, Tensor]) -> TrialResult:
    """Arrays ``(W, R, S)`` of values ``(M,)``, and their means for each point."""
    names = [f"{point['kl_weight']:g}" for point in config["grid"]]
    if config["protocol"] == "tuned":
        names = ["tuned"]
    shape = (len(names), config["n_starts"], config["n_splits"])
    arrays = {}
    metrics = {}
    for name, value in values.items():
        array = value.double().view(shape)
        arrays[name] = _significant(array)
        for point, of_point in zip(names, array, strict=True):
            metrics[f"{point}/{name}"] = of_point.mean().item()
    return TrialResult(metrics, arrays)


def _significant(values: Tensor) -> list:
    """A nested list of numbers with five significant digits."""
    if values.dim():
        return [_significant(part) for part in values]
    return float(f"{values.item():.5g}")


@dataclass(frozen=True)
class PairedTask(Task):
    """A task whose networks start alike under every method.

    First weights come from ``seed`` alone; noise that is structured dropout's, or is compared with
    it, starts at the alphas of ``VSD, T = 0``. Vectors have a generator of their own. Training then
    draws the same minibatches and the same standard normal numbers for all of these, so that what
    is left of a difference is the method's. The networks are added to ``kept``.
    """

    seed: int
    kept: list[BatchedNetworks]

    def started(self, layer_at: Callable[[Point], models.Method]) -> BatchedNetworks:
        on = self.generator.device
        of_all = torch.Generator(on).manual_seed(3 * self.seed + 1)
        of_method = torch.Generator(on).manual_seed(3 * self.seed + 2)
        widths = (self.x.shape[-1], self.config["n_hidden"], 1)
        networks = []
        for point in self.points:
            setting = {"p_drop": P_DROP, "min_alpha": MIN_ALPHA} | point
            common = mlp(widths, METHODS[INDEPENDENT].configured(setting)).to(on)
            network = mlp(widths, layer_at(point)).to(on)
            start_from(initialise(common, of_all), initialise(network, of_method))
            networks.append(network)
        self.kept.append(BatchedNetworks(networks))
        return self.kept[-1]


@torch.no_grad()
def start_from(common: Network, network: Network) -> None:
    """Give ``network`` the weights and the biases of ``common``, and the alphas where they start
    apart, as in structured dropout."""
    for source, layer in zip(common, network, strict=True):
        if isinstance(layer, models.StochasticLayer):
            layer.weight.copy_(source.weight)
            layer.bias.copy_(source.bias)
            if hasattr(layer, "alpha_spread"):
                layer.raw_log_alpha.copy_(source.raw_log_alpha)
