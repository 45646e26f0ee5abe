"""UCI regression on the standard splits (VSD, Tables 10 and 11): error and log likelihood.

A trial is a data set and a method: all splits and all points of the method's grid in it, trained
in one batch. One protocol for all: choose inside the training part, train again, predict the test.

Up to the noise precision tau of standardised targets, the loss of a network is ``1/(2B) sum_b
(y_b - f_b)**2 + kappa/N KL`` with kappa the weight of the KL over tau. Adam does not see a factor
on the loss. So only kappa matters for training, and every tau is tried afterwards on the same
predictions. Lessons 10 and 12.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from statistics import median
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from bdl_lessons.core import clock, device
from bdl_lessons.datasets import UCI_SETS, Standardiser, display_name
from bdl_lessons.datasets.records import Record, UCIResults, Value
from bdl_lessons.evaluation import log_predictive_likelihood, paired_difference
from reproductions import datasets, markdown
from reproductions.experiment import Claim, Experiment, Trial, TrialResult
from reproductions.figures import ours_and_published
from reproductions.methods import Method, in_table
from reproductions.uci import published_gaps, training
from reproductions.uci.training import Task

TAUS = tuple(2 ** (k / 2) for k in range(-2, 33))
"""Noise precisions of standardised targets: 0.5 to 65,536, a factor of 1.41 apart."""

METHODS = in_table("uci")
VALIDATION = 0.2
"""The last rows of the training part choose."""

SCORES = {"rmse": "RMSE", "log_likelihood": "log likelihood (nats)"}
CORE = ("MAP", "VSD, T = 0", "VD", "MCD", "BBB", "VSD", "VSD, T = 1", "D.E")
"""What the published tables compare, VSD without structure and a network without noise."""
MOST_ROWS_FOR_ALL, LARGE = 1_100, 5_000
"""Rows of a set up to which every method is run, and from which on training takes more steps."""

_PAPER = {"n_splits": 20, "n_hidden": 50, "batch_size": 32, "n_steps": 2000}
_PAPER |= {"learning_rate": 0.03, "n_samples_val": 100, "n_samples": 1000}
_LARGE = {**_PAPER, "batch_size": 64, "n_steps": 8_000}
_QUICK = {**_PAPER, "n_splits": 2, "n_steps": 10, "n_samples_val": 5, "n_samples": 10}

_PUBLISHED_RIVALS = ("BBB", "MCD", "VD", "D.E")
_COMPARED = ("MAP", "VSD, T = 0", "VSD, T = 1", "VD", "MCD", "BBB", "D.E")


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
    grid = [dict(point) for point in METHODS[method].uci_grid if point["kl_weight"] <= greatest]
    return Trial({"data": data, "method": method, **config, "grid": grid}, seed=0)


def run(trial: Trial) -> TrialResult:
    """One method on one data set, all splits side by side.

    Arrays, one entry for each split: ``rmse`` of the averaged draws and ``log_likelihood`` of a
    test point in nats, original units, with ``tau`` chosen freely (``log_likelihood_grid_tau``:
    from the published grid), and what was chosen. Metrics: means, ``*_error`` standard errors; CPU
    milliseconds of a step of one network among ``n_side_by_side`` in a batch.
    """
    config = trial.config
    on = device(float64=True)
    method = METHODS[config["method"]]
    data = datasets.uci(config["data"])
    rows = datasets.splits(len(data.x), config["n_splits"])
    train, test = (torch.stack([torch.from_numpy(pair[i]) for pair in rows]) for i in (0, 1))
    x = data.x.to(on)
    y = data.y.to(on)
    generator = torch.Generator(on).manual_seed(trial.seed)
    tau_grid = UCI_SETS[config["data"]].tau_grid
    parts = x[train], y[train], x[test]
    draws, chosen, seconds = choose_and_predict(method, *parts, tau_grid, config, generator)
    grid_tau = chosen.pop("grid_tau")
    scores = {}
    scores["rmse"] = (draws.mean(0) - y[test]).square().mean(1).sqrt()
    scores["log_likelihood"] = log_likelihood(draws, y[test], chosen["tau"])
    scores["log_likelihood_grid_tau"] = log_likelihood(draws, y[test], grid_tau)
    metrics = {}
    for name, values in scores.items():
        metrics[name] = values.mean().item()
        metrics[f"{name}_error"] = (values.std() / len(values) ** 0.5).item()
    if method.uci_training is training.networks:
        n_networks = len(rows) * len(config["grid"]) * method.n_networks
        metrics["n_side_by_side"] = n_networks
        metrics["ms_side_by_side"] = 1e3 * seconds / config["n_steps"] / n_networks
    points = chosen.pop("point").tolist()
    arrays = {
        name: [float(f"{value:.6g}") for value in values.tolist()]
        for name, values in (scores | chosen).items()
    }
    return TrialResult(metrics, arrays | {"point": points})


def choose_and_predict(
    method: Method,
    x_train: Tensor,
    y_train: Tensor,
    x_test: Tensor,
    tau_grid: Sequence[float],
    config: Mapping[str, Any],
    generator: torch.Generator,
    new_task: Callable[..., Task] = Task,
) -> tuple[Tensor, dict[str, Tensor], float]:
    """Choose a point of the grid and a tau for each split, train again, predict.

    Chosen is what gives the last 20 % of the training part the highest log predictive likelihood
    after training on the first 80 %. All is in original units: x ``(S, N, K)`` and ``(S, B, K)``, y
    ``(S, N)``. Returns predictions for the test parts, ``(n_draws, S, B)``; what was chosen,
    ``(S,)`` each: ``point`` of the grid, ``tau`` from ``TAUS``, ``grid_tau`` from ``tau_grid`` for
    the same networks, and with ``tau`` the ``kl_weight`` beside a log likelihood; CPU seconds of
    training all splits and points in one batch. ``new_task`` is called as ``Task`` is.
    """
    grid = config["grid"]
    (n_splits, n_train) = y_train.shape
    n_points = len(grid)
    part = n_train - int(VALIDATION * n_train)
    x, _ = _standardised(x_train, part)
    y, y_scale = _standardised(y_train, part)
    x = x.repeat(n_points, 1, 1)
    y = y.repeat(n_points, 1)
    every = [point for point in grid for _ in range(n_splits)]
    began = clock(x.device)
    predict = method.train_uci(new_task(every, x[:, :part], y[:, :part], config, generator))
    seconds = clock(x.device) - began
    draws = predict(x[:, part:], config["n_samples_val"], generator)
    held_out = y[:, part:]
    likelihood, at = torch.stack([log_likelihood(draws, held_out, tau) for tau in TAUS]).max(0)
    chosen = likelihood.unflatten(0, (n_points, n_splits)).argmax(0)
    index = chosen * n_splits + torch.arange(n_splits, device=chosen.device)
    y_var = y_scale.std[:, 0].square()
    taus = y_var.new_tensor(TAUS)[at[index]]
    draws = draws[:, index]
    held_out = held_out[index]
    on_grid = torch.stack([log_likelihood(draws, held_out, tau * y_var) for tau in tau_grid])

    points = [grid[i] for i in chosen.tolist()]
    weights = y_var.new_tensor([point["kl_weight"] for point in points])
    x, x_scale = _standardised(x_train, n_train)
    y, y_scale = _standardised(y_train, n_train)
    predict = method.train_uci(new_task(points, x, y, config, generator))
    draws = predict(x_scale.transform(x_test).float(), config["n_samples"], generator)
    found = {"tau": taus / y_var, "kl_weight": weights * taus, "point": chosen}
    found["grid_tau"] = y_var.new_tensor(tau_grid)[on_grid.argmax(0)]
    return y_scale.inverse_transform(draws), found, seconds


def log_likelihood(draws: Tensor, y: Tensor, tau: float | Tensor) -> Tensor:
    """Mean over the rows, ``(M,)`` in nats, of draws ``(n, M, B)`` and y ``(M, B)``; one tau for
    all, or ``(M,)``."""
    taus = torch.as_tensor(tau, device=y.device).expand(len(y))
    each = zip(draws[..., None].unbind(1), y[..., None], taus, strict=True)
    return torch.stack([log_predictive_likelihood(*one).mean() for one in each])


def _standardised(values: Tensor, n: int) -> tuple[Tensor, Standardiser]:
    """``(S, N, ...)``, each split by its first ``n`` rows, in float32; and the scales."""
    each = [Standardiser.fit(rows[:n]) for rows in values]
    mean, std = (torch.stack([getattr(one, name) for one in each]) for name in ("mean", "std"))
    scale = Standardiser(mean[:, None], std[:, None])
    return scale.transform(values).float(), scale


def table(records: list[Record]) -> str:
    """Both tables, the differences of VSD to the others, and the small print."""
    results = UCIResults(records)
    parts = [
        "Mean over the splits ± standard error. Published: tables 10 and 11, as printed. Below, "
        "VSD minus the others, split by split: the error of a difference allows for the training "
        "examples that splits share (Nadeau and Bengio 2003). Bold: more than two of these errors."
    ]
    for score, name in SCORES.items():
        parts += [f"### Mean {name}, original units", _scores(results, score)]
        parts += [_differences_of_vsd(results, score)]
        parts += [published_gaps.TEXT, published_gaps.published_gaps(results, score)]
    grids = [map("{:g}".format, UCI_SETS[data].tau_grid) for data in results.recorded_sets]
    grid = ["grid of tau", "published", *map(", ".join, grids)]
    parts += [
        "### The same networks, tau held to the published grid: log likelihood",
        _scores(results, "log_likelihood_grid_tau", grid),
        "### What was chosen, over all splits",
        _choices(records),
        _set_up(records),
    ]
    return "\n\n".join(parts)


def claims(records: list[Record]) -> list[Claim]:
    """Where the published tables have VSD ahead of a rival: is it clearly ahead here?"""
    results = UCIResults(records)
    found = []
    held = {"log_likelihood_grid_tau": "log likelihood (nats, tau from the published grid)"}
    for score, name in (SCORES | held).items():
        sign = -1 if score == "rmse" else 1
        n_pairs = 0
        ahead = []
        for rival, data in product(_PUBLISHED_RIVALS, results.sets):
            if gap := _gap(results, data, rival, score):
                printed = score.removesuffix("_grid_tau")
                vsd, other = (results.published(data, m, printed)[0] for m in ("VSD", rival))
                n_pairs += 1
                if sign * vsd > sign * other:
                    ahead.append((sign * gap[0] / gap[1], abs(vsd - other) / gap[1]))
        better, worse = (sum(way * ours > 2 for ours, _ in ahead) for way in (1, -1))
        visible = sum(theirs > 2 for _, theirs in ahead)
        found.append(
            Claim(
                f"VSD has a better {name} than BBB, MC dropout, VD and deep ensembles",
                f"better in {len(ahead)} of {n_pairs} pairs of rival and data set",
                f"of these clearly better {better} times, clearly worse {worse} times",
                better,
                len(ahead),
                "20 splits, every method tuned on the same validation rows; clear: two standard "
                "errors, corrected for the rows that splits share; a gap of the published size "
                f"would have been clear in {visible} of the pairs",
            )
        )
    return found


def figure(records: list[Record]) -> Figure:
    """For each data set RMSE and log likelihood of every method, ours and published."""
    results = UCIResults(records)
    panels = {}
    for data, (score, name) in product(results.recorded_sets, SCORES.items()):
        both = []
        for value_of in (results.ours, results.published):
            values = {method: value_of(data, method, score) for method in results.rows}
            both.append([(method, *value) for method, value in values.items() if value])
        panels[f"{display_name(data)}: {name.replace('log likelihood', 'log lik.')}"] = tuple(both)
    return ours_and_published(results.rows, panels)


def _cell(value: Value, data: str = "", score: str = "") -> str:
    """Mean and error; RMSE with more digits where the targets are small."""
    digits = UCI_SETS[data].digits if score == "rmse" else 2
    return "–" if value is None else f"{value[0]:.{digits}f} ± {value[1]:.{digits}f}"


def _scores(results: UCIResults, score: str, *rows: list[str]) -> str:
    sets = results.recorded_sets
    rows = [*rows]
    for method in results.rows:
        ours = [_cell(results.ours(data, method, score), data, score) for data in sets]
        theirs = [_cell(results.published(data, method, score)) for data in sets]
        rows.append([method, "ours", *ours])
        if set(theirs) != {"–"}:
            rows.append(["", "published", *theirs])
    return markdown.table(["method", "", *map(display_name, sets)], rows)


def _differences_of_vsd(results: UCIResults, score: str) -> str:
    """VSD minus another method, split by split; bold where it is clear."""
    sets = results.recorded_sets
    rows = []
    for other in (method for method in _COMPARED if method in results.methods):
        row = [f"VSD − {other}"]
        for data in sets:
            gap = _gap(results, data, other, score)
            bold = "**" if gap and abs(gap[0]) > 2 * gap[1] else ""
            row.append(f"{bold}{_cell(gap, data, score)}{bold}")
        rows.append(row)
    return markdown.table(["difference", *map(display_name, sets)], rows)


def _gap(results: UCIResults, data: str, rival: str, score: str) -> Value:
    """VSD minus a rival, split by split, and its error; nothing if one is not recorded."""
    pair = [results.record(data, method) for method in ("VSD", rival)]
    if not all(pair):
        return None
    gap = paired_difference(*[record["arrays"][score] for record in pair])
    return gap.mean, gap.corrected_std_error


def _choices(records: Sequence[Record]) -> str:
    """How often each point of the grid was chosen, how often an end of it, and tau."""
    rows = []
    for record in records:
        config = record["config"]
        chosen = Counter(record["arrays"]["point"])
        grid = config["grid"]
        told = []
        n_ends = 0
        tried = {key: sorted({point[key] for point in grid}) for key in grid[0]}
        varied = {key: values for key, values in tried.items() if len(values) > 1}
        for i, n in sorted(chosen.items()):
            settings = ", ".join(f"{key} {grid[i][key]:g}" for key in varied)
            told.append(f"{settings or 'the only one'}: {n}")
            n_ends += n * any(grid[i][key] in (v[0], v[-1]) for key, v in varied.items())
        cells = [config["method"], display_name(config["data"]), ", ".join(told)]
        ends = f"{n_ends} of {chosen.total()}"
        tau = f"{median(record['arrays']['tau']):.3g}"
        rows.append([*cells, ends, tau])
    head = ["method", "data set", "point of the grid: number of splits", "an end of the grid"]
    return markdown.table([*head, "median tau"], rows)


def _set_up(records: Sequence[Record]) -> str:
    """The protocol, and how it differs from the published ones."""
    sizes = {}
    for config in (record["config"] for record in records):
        n_steps = config["n_steps"]
        batch_size = config["batch_size"]
        n_epochs = n_steps * batch_size / (0.9 * UCI_SETS[config["data"]].n_rows)
        size = f"{n_steps:,} steps of batch {batch_size} ({n_epochs:,.0f} epochs)"
        sizes[f"{display_name(config['data'])} {size}"] = True
    taus = f"{len(TAUS)} values between {TAUS[0]:g} and {TAUS[-1]:,.0f}"
    return _SET_UP.format(**config, sizes="; ".join(sizes), validation=VALIDATION, taus=taus)


_SET_UP = (
    "**Set-up.** {n_splits} splits. One hidden layer of {n_hidden} ReLU units. Inputs and targets "
    "are standardised with the rows that a network trains on. Adam from a rate of "
    "{learning_rate:g} down a cosine to 0: {sizes}. Predictions average {n_samples:,} draws. The "
    "last {validation:.0%} of a training part choose the point of the grid and tau by log "
    "likelihood; then networks are trained on all of it. The test part is only scored. The loss "
    "is half the squared error of standardised targets plus `kl_weight` KL / N: the negative ELBO "
    "over tau, its KL weighted by `kl_weight` times tau. tau is chosen after training, from "
    "{taus} over the variance of the targets. SWAG and SLANG go on from the MAP weights, for as "
    "many steps again and for half as many. The rate, the batch and the number of steps were set "
    "by hand, the same for every method, on validation examples of the first splits of Yacht, "
    "Energy and Boston, some of them test examples of other splits; later, when test scores had "
    "been seen, the steps of the large sets, MC dropout's smallest rates and VSD's bound on alpha "
    "(1e-9). Of the 1,599 wines 240 are duplicates, and splits part some of them from their "
    "twins.\n\nPublished: 4000 epochs of "
    "batch 128 for MC dropout, by the values (the runs named 10x in the code of Gal and "
    "Ghahramani 2016), tau from a grid of three; how the rows VD and VSD were trained is not "
    "said; the other rows come from papers with protocols of their own (BBB and SLANG: the joint "
    "log likelihood of all test points, tau by Bayesian optimisation; D.E: networks that predict "
    "their variance)."
)
TITLE = "Regression on the UCI sets (Nguyen et al. 2021, Tables 10 and 11)"
EXPERIMENT = Experiment("uci", TITLE, trials, run, table, figure, claims)
