"""UCI regression on the standard splits (VSD, Tables 10 and 11): error and log likelihood.

A trial is a data set and a method: all splits and all points of the method's grid in it, trained
in one batch, by the protocol of :mod:`reproductions.uci.protocol`. Lessons 10 and 12.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import product
from statistics import median

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bdl_lessons.core import BLUE, INK, RED
from bdl_lessons.core.plot_style import new_figure
from bdl_lessons.datasets import UCI_SETS, display_name
from bdl_lessons.datasets.records import Record, UCIResults, Value, published_table
from bdl_lessons.evaluation import paired_difference
from reproductions import markdown
from reproductions.experiment import Claim, Experiment
from reproductions.uci.methods import METHODS
from reproductions.uci.protocol import TAUS, VALIDATION, run
from reproductions.uci.trials import trials

SCORES = {"rmse": "RMSE", "log_likelihood": "log likelihood (nats)"}
_PUBLISHED_RIVALS = ("BBB", "MCD", "VD", "D.E")
_COMPARED = ("MAP", "VSD, T = 0", "VSD, T = 1", "VD", "MCD", "BBB", "D.E")


def table(records: list[Record]) -> str:
    """Both tables, the differences of VSD to the others, and the small print."""
    results = _results(records)
    return "\n\n".join(
        [
            "Mean over the splits ± standard error. Published: tables 10 and 11, as printed.",
            "### RMSE, original units",
            _scores(results, "rmse"),
            "### Log likelihood of a test point in nats, original units",
            _scores(results, "log_likelihood"),
            *_differences_of_vsd(results),
            "### The same networks, tau held to the published grid: log likelihood",
            _grid_tau(results),
            "### What was chosen, over all splits",
            _choices(results),
            _set_up(records),
        ]
    )


def claims(records: list[Record]) -> list[Claim]:
    """Where the published tables have VSD ahead of a rival: is it clearly ahead here?"""
    results, found = _results(records), []
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
    results = _results(records)
    n_rows = (len(results.recorded_sets) + 1) // 2
    height = 0.6 + n_rows * (0.7 + 0.19 * len(results.rows))
    picture = new_figure(10.4, height, layout="constrained")
    picture.get_layout_engine().set(w_pad=0.1)
    axes = picture.subplots(n_rows, 4, sharey=True, squeeze=False)
    for place, data in enumerate(results.recorded_sets):
        pair = axes[place // 2][2 * (place % 2) :]
        for ax, score in zip(pair, SCORES, strict=False):
            _dots(ax, results, data, score)
            title = SCORES[score].replace("log likelihood", "log lik.")
            ax.set_title(f"{display_name(data)}: {title}", fontsize=9)
    for ax in axes.flat[2 * len(results.recorded_sets) :]:
        ax.remove()
    axes[0][0].set_yticks(range(len(results.rows)), results.rows)
    axes[0][0].invert_yaxis()
    handles, labels = axes[0][0].get_legend_handles_labels()
    picture.legend(handles, labels, loc="outside upper center", ncols=2)
    return picture


def _results(records: Sequence[Record]) -> UCIResults:
    """The records of one scale by data set and method, the methods in the order of ``METHODS``."""
    places = list(METHODS)
    return UCIResults(sorted(records, key=lambda r: places.index(r["config"]["method"])))


def _cell(value: Value, data: str = "", score: str = "") -> str:
    """Mean and error; RMSE with more digits where the targets are small."""
    digits = UCI_SETS[data].digits if score == "rmse" else 2
    return "–" if value is None else f"{value[0]:.{digits}f} ± {value[1]:.{digits}f}"


def _dots(ax: Axes, results: UCIResults, data: str, score: str) -> None:
    for label, value_of, shift, look in (
        ("ours", results.ours, -0.13, {"color": BLUE, "marker": "o"}),
        ("published", results.published, 0.13, {"color": RED, "marker": "s", "mfc": "white"}),
    ):
        values = {i + shift: value_of(data, method, score) for i, method in enumerate(results.rows)}
        known = {place: value for place, value in values.items() if value}
        if known:  # a set may stand in no published table
            mean, error = zip(*known.values(), strict=True)
            ax.errorbar(mean, [*known], xerr=error, ls="", ms=4, lw=1.2, label=label, **look)
    ax.grid(axis="y", color=INK, alpha=0.12, lw=0.6)
    ax.tick_params(labelsize=8)
    ax.locator_params(axis="x", nbins=4)


def _scores(results: UCIResults, score: str) -> str:
    sets, rows = results.recorded_sets, []
    printed = {row["method"] for row in published_table(f"uci_{score}")}
    for method in results.rows:
        ours = (_cell(results.ours(data, method, score), data, score) for data in sets)
        rows.append([method, "ours", *ours])
        if method in printed:
            theirs = (_cell(results.published(data, method, score)) for data in sets)
            rows.append(["", "published", *theirs])
    return markdown.table(["method", "", *map(display_name, sets)], rows)


def _differences_of_vsd(results: UCIResults) -> list[str]:
    """VSD minus another method, split by split."""
    sets, parts = results.recorded_sets, []
    for score, name in SCORES.items():
        rows, better, worse = [], [], []
        for other in (method for method in _COMPARED if method in results.methods):
            gaps = {data: _gap(results, data, other, score) for data in sets}
            cells = (_cell(gap, data, score) for data, gap in gaps.items())
            rows.append([f"VSD − {other}", *cells])
            for data, gap in gaps.items():
                if gap and abs(gap[0]) > 2 * gap[1]:
                    gains = (gap[0] < 0) == (score == "rmse")
                    (better if gains else worse).append(f"{other} on {display_name(data)}")
        parts += [
            f"### VSD against the others: {name}, split by split",
            markdown.table(["difference", *map(display_name, sets)], rows),
            "By more than two of these errors VSD is better than "
            f"{markdown.listed(better)}; it is worse than {markdown.listed(worse)}.",
        ]
    return [
        *parts,
        "The error of a difference allows for the training examples that splits share (Nadeau and "
        "Bengio 2003): it is larger than a standard error over independent splits would be.",
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


def _choices(results: UCIResults) -> str:
    """How often each point of the grid was chosen, how often an end of it, and tau."""
    rows = []
    for name in results.methods:
        for record in results.of(name):
            grid, chosen = record["config"]["grid"], Counter(record["arrays"]["point"])
            tried = {key: {point[key] for point in grid} for key in grid[0]}
            varied = {key: values for key, values in tried.items() if len(values) > 1}
            told, n_ends = [], 0
            for i, n in sorted(chosen.items()):
                settings = ", ".join(f"{key} {grid[i][key]:g}" for key in varied)
                told.append(f"{settings or 'the only one'}: {n}")
                n_ends += n * any(grid[i][k] in (min(v), max(v)) for k, v in varied.items())
            data, ends = display_name(record["config"]["data"]), f"{n_ends} of {chosen.total()}"
            cells = [data, ", ".join(told), ends]
            rows.append([name, *cells, f"{median(record['arrays']['tau']):.3g}"])
    head = ["method", "data set", "point of the grid: number of splits", "an end of the grid"]
    return markdown.table([*head, "median tau"], rows)


def _set_up(records: Sequence[Record]) -> str:
    """The protocol, and how it differs from the published ones."""
    sizes = {}
    for record in records:
        config = record["config"]
        n_steps, batch_size = config["n_steps"], config["batch_size"]
        n_epochs = n_steps * batch_size / (0.9 * UCI_SETS[config["data"]].n_rows)
        size = f"{n_steps:,} steps of batch {batch_size} ({n_epochs:,.0f} epochs)"
        sizes[f"{display_name(config['data'])} {size}"] = True
    return (
        f"**Set-up.** {config['n_splits']} splits. One hidden layer of {config['n_hidden']} ReLU "
        "units. Inputs and targets are standardised with the rows that a network trains on. "
        f"Training by Adam from a rate of {config['learning_rate']:g} down a cosine to 0: "
        f"{'; '.join(sizes)}. Predictions average {config['n_samples']:,} draws. The last "
        f"{VALIDATION:.0%} of a training part choose the point of the grid and tau by log "
        "likelihood; then networks are trained on all of it. The test part is only scored. The "
        "loss is half the squared error of standardised targets plus `kl_weight` KL / N. That is "
        "the negative ELBO over tau, its KL weighted by `kl_weight` times tau: tau is chosen after "
        f"training, from {len(TAUS)} values between {TAUS[0]:g} and {TAUS[-1]:,.0f} over the "
        "variance of the targets. Deep ensembles and MAP draw nothing. The rate, the batch and the "
        "number of steps were set by hand, the same for every method, on validation examples of "
        "the first splits of Yacht, Energy and Boston; in other splits some of these are test "
        "examples, for all methods alike. Of the 1,599 wines 240 are duplicates, and splits part "
        "some of them from their twins. \n\nPublished: 4000 epochs of batch 128 for MC dropout, by "
        "the values (the runs named 10x in the code of Gal and Ghahramani 2016), tau from a grid "
        "of three; how the rows VD and VSD were trained is not said; the other rows come from "
        "papers with protocols of their own (BBB and SLANG: the joint log likelihood of all test "
        "points, tau by Bayesian optimisation; D.E: networks that predict their variance)."
    )


TITLE = "Regression on the UCI sets (Variational structured dropout, Tables 10 and 11)"
EXPERIMENT = Experiment("uci", TITLE, trials, run, table, figure, claims)
