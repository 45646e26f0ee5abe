"""UCI regression on the standard splits (VSD, Tables 10 and 11): error and log likelihood.

A trial is a data set and a method: all splits and all points of the method's grid in it, trained
in one batch, by the protocol of :mod:`reproductions.uci.protocol`. Lessons 10 and 12.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import product
from statistics import median

from matplotlib.figure import Figure

from bdl_lessons.datasets import UCI_SETS, display_name
from bdl_lessons.datasets.records import Record, UCIResults, Value
from bdl_lessons.evaluation import paired_difference
from reproductions import markdown
from reproductions.experiment import Claim, Experiment
from reproductions.figures import ours_and_published
from reproductions.uci.methods import METHODS
from reproductions.uci.protocol import TAUS, VALIDATION, run
from reproductions.uci.trials import trials

SCORES = {"rmse": "RMSE", "log_likelihood": "log likelihood (nats)"}
_PUBLISHED_RIVALS = ("BBB", "MCD", "VD", "D.E")
_COMPARED = ("MAP", "VSD, T = 0", "VSD, T = 1", "VD", "MCD", "BBB", "D.E")


def table(records: list[Record]) -> str:
    """Both tables, the differences of VSD to the others, and the small print."""
    results = UCIResults(_by_method(records))
    parts = ["Mean over the splits ± standard error. Published: tables 10 and 11, as printed."]
    for score, name in SCORES.items():
        parts += [f"### Mean {name}, original units", _scores(results, score)]
    for score, name in SCORES.items():
        parts += [f"### VSD against the others: {name}, split by split"]
        parts += _differences_of_vsd(results, score)
    parts += [
        "The error of a difference allows for the training examples that splits share (Nadeau and "
        "Bengio 2003).",
        "### The same networks, tau held to the published grid: log likelihood",
        _grid_tau(results),
        "### What was chosen, over all splits",
        _choices(records),
        _set_up(records),
    ]
    return "\n\n".join(parts)


def claims(records: list[Record]) -> list[Claim]:
    """Where the published tables have VSD ahead of a rival: is it clearly ahead here?"""
    results, found = UCIResults(_by_method(records)), []
    for score, name in SCORES.items():
        sign, pairs, ahead = -1 if score == "rmse" else 1, [], []
        for rival, data in product(_PUBLISHED_RIVALS, results.sets):
            if gap := _gap(results, data, rival, score):
                pairs.append(data)
                vsd, other = (results.published(data, m, score)[0] for m in ("VSD", rival))
                ahead += [gap] if sign * vsd > sign * other else []
        better, worse = (
            sum(way * sign * mean > 2 * error for mean, error in ahead) for way in (1, -1)
        )
        found.append(
            Claim(
                f"VSD has a better {name} than BBB, MC dropout, VD and deep ensembles",
                f"better in {len(ahead)} of {len(pairs)} pairs of rival and data set",
                f"of these clearly better {better} times, clearly worse {worse} times",
                better,
                len(ahead),
                f"{len(set(pairs))} data sets, 20 splits, every method tuned on the same "
                "validation rows; clear: two standard errors, corrected for the rows that splits "
                "share; Tables 10 and 11",
            )
        )
    return found


def figure(records: list[Record]) -> Figure:
    """For each data set RMSE and log likelihood of every method, ours and published."""
    results, panels = UCIResults(_by_method(records)), {}
    for data, (score, name) in product(results.recorded_sets, SCORES.items()):
        both = []
        for value_of in (results.ours, results.published):
            values = {method: value_of(data, method, score) for method in results.rows}
            both.append([(method, *value) for method, value in values.items() if value])
        panels[f"{display_name(data)}: {name.replace('log likelihood', 'log lik.')}"] = tuple(both)
    return ours_and_published(results.rows, panels)


def _by_method(records: Sequence[Record]) -> list[Record]:
    """Their order of a scale, the methods in the order of ``METHODS``."""
    places = list(METHODS)
    return sorted(records, key=lambda record: places.index(record["config"]["method"]))


def _cell(value: Value, data: str = "", score: str = "") -> str:
    """Mean and error; RMSE with more digits where the targets are small."""
    digits = UCI_SETS[data].digits if score == "rmse" else 2
    return "–" if value is None else f"{value[0]:.{digits}f} ± {value[1]:.{digits}f}"


def _scores(results: UCIResults, score: str) -> str:
    sets, rows = results.recorded_sets, []
    for method in results.rows:
        ours = [_cell(results.ours(data, method, score), data, score) for data in sets]
        theirs = [_cell(results.published(data, method, score)) for data in sets]
        rows.append([method, "ours", *ours])
        if set(theirs) != {"–"}:
            rows.append(["", "published", *theirs])
    return markdown.table(["method", "", *map(display_name, sets)], rows)


def _differences_of_vsd(results: UCIResults, score: str) -> list[str]:
    """VSD minus another method, split by split, and where they are clear."""
    sets, rows, better, worse = results.recorded_sets, [], [], []
    for other in (method for method in _COMPARED if method in results.methods):
        gaps = {data: _gap(results, data, other, score) for data in sets}
        rows.append([f"VSD − {other}", *(_cell(gap, data, score) for data, gap in gaps.items())])
        for data, gap in gaps.items():
            if gap and abs(gap[0]) > 2 * gap[1]:
                gains = (gap[0] < 0) == (score == "rmse")
                (better if gains else worse).append(f"{other} on {display_name(data)}")
    return [
        markdown.table(["difference", *map(display_name, sets)], rows),
        f"By more than two of these errors VSD is better than {markdown.listed(better)}; it is "
        f"worse than {markdown.listed(worse)}.",
    ]


def _gap(results: UCIResults, data: str, rival: str, score: str) -> Value:
    """VSD minus a rival, split by split, and its error; nothing if one is not recorded."""
    pair = [results.record(data, method) for method in ("VSD", rival)]
    if not all(pair):
        return None
    gap = paired_difference(*[record["arrays"][score] for record in pair])
    return gap.mean, gap.corrected_std_error


def _grid_tau(results: UCIResults) -> str:
    """Log likelihoods with tau from the published grids."""
    sets, score = results.recorded_sets, "log_likelihood_grid_tau"
    rows = [["*tau*", *(", ".join(f"{t:g}" for t in UCI_SETS[data].tau_grid) for data in sets)]]
    rows += [[m, *(_cell(results.ours(data, m, score)) for data in sets)] for m in results.methods]
    return markdown.table(["method", *map(display_name, sets)], rows)


def _choices(records: Sequence[Record]) -> str:
    """How often each point of the grid was chosen, how often an end of it, and tau."""
    rows = []
    for record in _by_method(records):
        config, chosen = record["config"], Counter(record["arrays"]["point"])
        grid, told, n_ends = config["grid"], [], 0
        tried = {key: sorted({point[key] for point in grid}) for key in grid[0]}
        varied = {key: values for key, values in tried.items() if len(values) > 1}
        for i, n in sorted(chosen.items()):
            settings = ", ".join(f"{key} {grid[i][key]:g}" for key in varied)
            told.append(f"{settings or 'the only one'}: {n}")
            n_ends += n * any(grid[i][key] in (v[0], v[-1]) for key, v in varied.items())
        cells = [config["method"], display_name(config["data"]), ", ".join(told)]
        ends, tau = f"{n_ends} of {chosen.total()}", f"{median(record['arrays']['tau']):.3g}"
        rows.append([*cells, ends, tau])
    head = ["method", "data set", "point of the grid: number of splits", "an end of the grid"]
    return markdown.table([*head, "median tau"], rows)


def _set_up(records: Sequence[Record]) -> str:
    """The protocol, and how it differs from the published ones."""
    sizes = {}
    for config in (record["config"] for record in records):
        n_steps, batch_size = config["n_steps"], config["batch_size"]
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
    "likelihood; then networks are trained on all of it. The test part is only scored. The loss is "
    "half the squared error of standardised targets plus `kl_weight` KL / N: the negative ELBO "
    "over tau, its KL weighted by `kl_weight` times tau. tau is chosen after training, from {taus} "
    "over the variance of the targets. Deep ensembles and MAP draw nothing. The rate, the batch "
    "and the number of steps were set by hand, the same for every method, on validation examples "
    "of the first splits of Yacht, Energy and Boston; in other splits some of these are test "
    "examples, for all methods alike. Of the 1,599 wines 240 are duplicates, and splits part some "
    "of them from their twins.\n\nPublished: 4000 epochs of batch 128 for MC dropout, by the "
    "values (the runs named 10x in the code of Gal and Ghahramani 2016), tau from a grid of three; "
    "how the rows VD and VSD were trained is not said; the other rows come from papers with "
    "protocols of their own (BBB and SLANG: the joint log likelihood of all test points, tau by "
    "Bayesian optimisation; D.E: networks that predict their variance)."
)
TITLE = "Regression on the UCI sets (Variational structured dropout, Tables 10 and 11)"
EXPERIMENT = Experiment("uci", TITLE, trials, run, table, figure, claims)
