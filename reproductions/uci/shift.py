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
from functools import partial
from hashlib import sha256
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from bdl_lessons import models
from bdl_lessons.core import device
from bdl_lessons.datasets import UCI_SETS, Standardiser
from bdl_lessons.datasets.records import Record
from bdl_lessons.inference import BatchedNetworks, predict_batched
from bdl_lessons.models import Network, initialise, mlp
from reproductions import datasets
from reproductions.experiment import Claim, Experiment, Trial, TrialResult
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
from reproductions.uci.training import Point, Task, fitted_process

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

SHIFTS = ("permuted", "swapped")
INPUTS = ("given", *SHIFTS)
N_STARTS = 3
ROWS_AT_ONCE = 50_000
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
    on = device(float64=True)
    data = datasets.uci(config["data"])
    rows = datasets.splits(len(data.x), config["n_splits"])
    train, test = (torch.stack([torch.from_numpy(pair[i]) for pair in rows]) for i in (0, 1))
    if config["train_share"] < 1:
        n_used = max(LEAST_ROWS, int(config["train_share"] * train.shape[1]))
        train = train[:, :n_used]
    x = data.x.to(on)
    y = data.y.to(on)
    inputs = shifted_inputs(x[train], x[test])
    all_inputs = torch.cat([*inputs.values()], dim=1)
    is_tuned = config["protocol"] == "tuned"
    grid = config["grid"]
    n_points = 1 if is_tuned else len(grid)
    n_copies = n_points * config["n_starts"]
    points = (
        None
        if is_tuned
        else [point for point in grid for _ in range(len(y[test]) * config["n_starts"])]
    )
    kept: list[BatchedNetworks] = []

    def new_task(points_to_choose: Sequence[Point], *data_and_config: Any) -> PairedTask:
        """Where nothing is chosen, the networks have the points of the trial side by side."""
        return PairedTask(points or points_to_choose, *data_and_config, trial.seed, kept)

    draws, chosen, _ = choose_and_predict(
        METHODS[config["method"]],
        x[train].repeat(n_copies, 1, 1),
        y[train].repeat(n_copies, 1),
        all_inputs.repeat(n_copies, 1, 1),
        UCI_SETS[config["data"]].tau_grid,
        config if is_tuned else {**config, "grid": grid[:1]},
        torch.Generator(on).manual_seed(3 * trial.seed),
        new_task,
    )
    y_test = y[test].repeat(n_copies, 1)
    draws_at = dict(zip(inputs, draws.split(test.shape[1], dim=-1), strict=True))
    values = {
        "log_likelihood": log_likelihood(draws_at["given"], y_test, chosen["tau"]),
        "log_likelihood_grid_tau": log_likelihood(draws_at["given"], y_test, chosen["grid_tau"]),
        "rmse": (draws_at["given"].mean(0) - y_test).square().mean(1).sqrt(),
        "tau": chosen["tau"],
    }
    if len(draws) > 1:
        values |= spread_under_shift(draws_at)
    if len(data.x) <= MOST_ROWS_FOR_ALL:
        each = zip(x[train], y[train], all_inputs, strict=True)
        mean, var = zip(*(gp_predictions(*of_split) for of_split in each), strict=True)
        values |= loss_against_gp(draws_at, chosen["tau"], torch.stack(mean), torch.stack(var))
    if kept:
        networks = [kept[-1].network(member) for member in range(len(kept[-1]))]
        values |= noise_of(networks)
        if hasattr(networks[0][0], "noise_cov") and config["method"] != INDEPENDENT:
            draws = draws_without_correlations(
                networks, x[train], y[train], all_inputs, config["n_samples"]
            )
            cut = dict(zip(inputs, draws.split(test.shape[1], dim=-1), strict=True))
            spread = spread_under_shift(cut)
            values |= {f"cut/{name}": value for name, value in spread.items()}
            values["cut/log_likelihood"] = log_likelihood(cut["given"], y_test, chosen["tau"])
    if is_tuned:
        values["point"] = chosen["point"]
    shape = (n_copies // config["n_starts"], config["n_starts"], len(rows))
    arrays = {name: value.view(shape) for name, value in values.items()}
    names = ["tuned"] if is_tuned else [f"{point['kl_weight']:g}" for point in config["grid"]]
    metrics = {}
    for name, array in arrays.items():
        for weight, of_weight in zip(names, array, strict=True):
            metrics[f"{weight}/{name}"] = of_weight.double().mean().item()
    return TrialResult(metrics, {name: _significant(array) for name, array in arrays.items()})


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
    """Give ``network`` the weights and the biases of ``common``, and the alphas where it has some
    with a spread, as structured dropout has."""
    for source, layer in zip(common, network, strict=True):
        if isinstance(layer, models.StochasticLayer):
            layer.weight.copy_(source.weight)
            layer.bias.copy_(source.bias)
            if hasattr(layer, "alpha_spread"):
                layer.raw_log_alpha.copy_(source.raw_log_alpha)


def shifted_inputs(x_train: Tensor, x_test: Tensor) -> dict[str, Tensor]:
    """Test inputs as given, permuted and swapped, ``(S, B, K)`` each, original units.

    ``"permuted"``: each column is permuted by itself, by permutations that depend on the number of
    the split alone. ``"swapped"``: the two columns with the largest correlation of either sign
    among the training rows, ``(S, N, K)``, change places as standardised columns.
    """
    permuted = []
    swapped = []
    for split, (of_training, given) in enumerate(zip(x_train, x_test, strict=True)):
        generator = torch.Generator().manual_seed(split)
        (n_rows, n_columns) = given.shape
        orders = [torch.randperm(n_rows, generator=generator) for _ in range(n_columns)]
        order = torch.stack(orders, dim=1).to(given.device)
        permuted.append(given.gather(0, order))
        scale = Standardiser.fit(of_training)
        columns = torch.arange(n_columns)
        (i, j) = most_correlated(scale.transform(of_training))
        columns[[i, j]] = torch.tensor([j, i])
        swapped.append(scale.inverse_transform(scale.transform(given)[:, columns]))
    shifted = (x_test, torch.stack(permuted), torch.stack(swapped))
    return dict(zip(INPUTS, shifted, strict=True))


def most_correlated(z: Tensor) -> tuple[int, int]:
    """The two columns of standardised rows ``(N, K)`` with the largest absolute correlation."""
    correlation = (z.T @ z / len(z)).abs().triu(1)
    (i, j) = divmod(int(correlation.argmax()), z.shape[1])
    return i, j


def spread_under_shift(draws_at: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """How the standard deviation of draws ``(n, S, B)`` tells shifted inputs from given ones."""
    std = {name: draws.std(0, correction=0) for name, draws in draws_at.items()}
    arrays = {f"std/{name}": values.mean(1) for name, values in std.items()}
    for name in SHIFTS:
        arrays[f"ratio/{name}"] = arrays[f"std/{name}"] / arrays["std/given"]
        arrays[f"auroc/{name}"] = auroc(std[name], std["given"])
    return arrays


def auroc(larger: Tensor, smaller: Tensor) -> Tensor:
    """The share of all pairs ``(S, B)`` and ``(S, B')`` in their order, ``(S,)``; ties are half.

    >>> auroc(torch.tensor([[2.0, 3.0]]), torch.tensor([[1.0, 2.0]]))
    tensor([0.8750])
    """
    difference = larger[:, :, None] - smaller[:, None, :]
    return (difference.sign().mean((1, 2)) + 1) / 2


_OF_GP: dict[str, tuple[Tensor, Tensor]] = {}
"""By what it was asked for: all trials of a set in one process have the same reference."""


def gp_predictions(x_train: Tensor, y_train: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of a new target, ``(B,)`` each, by a Gaussian process fitted to one split.

    All is in original units: x ``(N, K)`` and ``(B, K)``, y ``(N,)``.
    """
    asked = [part.cpu().numpy().tobytes() for part in (x_train, y_train, x)]
    key = sha256(b"".join(asked)).hexdigest()
    if key not in _OF_GP:
        x_scale = Standardiser.fit(x_train)
        y_scale = Standardiser.fit(y_train)
        process = fitted_process(x_scale.transform(x_train).float(), y_scale.transform(y_train))
        mean, var = process.predict(x_scale.transform(x).float())
        new_var = y_scale.std.square() * (var + process.noise_var)
        _OF_GP[key] = (y_scale.inverse_transform(mean), new_var)
    return _OF_GP[key]


def loss_against_gp(
    draws_at: Mapping[str, Tensor], tau: Tensor, mean: Tensor, var: Tensor
) -> dict[str, Tensor]:
    """Expected log likelihood that is lost if a Gaussian process is right, ``(M,)`` each.

    The process says ``mean`` and ``var`` of a new target, ``(S, B)`` for all kinds of inputs one
    after the other. It is compared with a Gaussian that has the moments of the draws
    ``(n, M, B')`` and noise of precision ``tau``; member m belongs to split m modulo S.
    """
    n_copies = len(tau) // len(mean)
    arrays = {}
    for name, gp_mean, gp_var in zip(INPUTS, mean.chunk(3, 1), var.chunk(3, 1), strict=True):
        gp_mean = gp_mean.repeat(n_copies, 1)
        gp_var = gp_var.repeat(n_copies, 1)
        draws = draws_at[name]
        own_mean = draws.mean(0)
        own_var = draws.var(0, correction=0) + 1 / tau[:, None]
        arrays[f"gp_kl/{name}"] = gaussian_kl(gp_mean, gp_var, own_mean, own_var).mean(1)
        arrays[f"gp_kl_spread/{name}"] = gaussian_kl(gp_mean, gp_var, gp_mean, own_var).mean(1)
    return arrays


def gaussian_kl(mean_p: Tensor, var_p: Tensor, mean_q: Tensor, var_q: Tensor) -> Tensor:
    """``KL(N(mean_p, var_p) || N(mean_q, var_q))`` in nats, for each entry.

    >>> gaussian_kl(*torch.tensor([0.0, 1.0, 1.0, 1.0]))
    tensor(0.5000)
    """
    ratio = var_p / var_q
    return (ratio - 1 - ratio.log() + (mean_p - mean_q).square() / var_q) / 2


@torch.no_grad()
def noise_of(networks: Sequence[Network]) -> dict[str, Tensor]:
    """What was learned about noise on units, one entry for each network; nothing for others."""
    arrays: dict[str, list[Tensor]] = {}
    for network in networks:
        for layer, place in zip((network[0], network[2]), ("", "_hidden"), strict=True):
            if isinstance(layer, models.UnitNoise) and hasattr(layer, "log_alpha"):
                arrays.setdefault(f"alpha{place}", []).append(layer.alpha.median())
            if hasattr(layer, "noise_cov"):
                cov = layer.noise_cov().double()
                arrays.setdefault(f"factor_var{place}", []).append(cov.diagonal().median())
                arrays.setdefault(f"correlation{place}", []).append(rms_correlation(cov))
    return {name: torch.stack(values) for name, values in arrays.items()}


@torch.no_grad()
def draws_without_correlations(
    networks: Sequence[Network],
    x_train: Tensor,
    y_train: Tensor,
    x: Tensor,
    n_samples: int,
) -> Tensor:
    """Draws ``(n, M, B)`` in original units by networks whose factors keep their variances alone.

    Member m belongs to split m modulo S; x is ``(S, N, K)`` and ``(S, B, K)``, y ``(S, N)``.
    """
    independent = partial(
        models.StructuredDropout, n_reflections=0, min_alpha=MIN_ALPHA, max_alpha=math.inf
    )
    widths = (networks[0][0].n_units, networks[0][2].n_units, 1)
    members = []
    for network in networks:
        member = mlp(widths, independent).to(x.device)
        for layer, source in ((member[0], network[0]), (member[2], network[2])):
            layer.weight.copy_(source.weight)
            layer.bias.copy_(source.bias)
            layer.raw_log_alpha.copy_(source.noise_cov().diagonal().log())
        members.append(member)
    z = [
        Standardiser.fit(of_split).transform(rows)
        for of_split, rows in zip(x_train, x, strict=True)
    ]
    n_copies = len(networks) // len(x)
    draws = predict_batched(
        BatchedNetworks(members),
        torch.stack(z).float().repeat(n_copies, 1, 1),
        n_samples,
        generator=torch.Generator(x.device).manual_seed(0),
        chunk_rows=max(1, ROWS_AT_ONCE // len(networks)),
    )
    y_mean = y_train.mean(1).repeat(n_copies)[:, None]
    y_std = y_train.std(1, correction=0).repeat(n_copies)[:, None]
    return y_mean + y_std * draws[..., 0]


def rms_correlation(cov: Tensor) -> Tensor:
    """Root mean square of the correlations off the diagonal of ``(K, K)``, K >= 2, 0-dim.

    >>> rms_correlation(torch.tensor([[4.0, 1.0], [1.0, 1.0]]))
    tensor(0.5000)
    """
    std = cov.diagonal().sqrt()
    correlation = cov / std[:, None] / std
    n_pairs = len(cov) * (len(cov) - 1)
    off_diagonal = correlation - torch.diag(correlation.diagonal())
    return (off_diagonal.square().sum() / n_pairs).sqrt()


def table(records: list[Record]) -> str:
    return ""


def claims(records: list[Record]) -> list[Claim]:
    return []


def figure(records: list[Record]) -> Figure:
    return Figure()


TITLE = "Regression on the UCI sets where inputs are shifted (not in a paper)"
EXPERIMENT = Experiment("uci_under_shift", TITLE, trials, run, table, figure, claims)
