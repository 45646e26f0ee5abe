"""What the records of :mod:`reproductions.uci.shift` say, as differences to independent noise."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from scipy import stats

from bdl_lessons.core import BLUE, RED
from bdl_lessons.core.plot_style import new_figure
from bdl_lessons.datasets import UCI_SETS, display_name
from bdl_lessons.datasets.records import Record
from bdl_lessons.evaluation import paired_difference
from bdl_lessons.evaluation.model_comparison import Difference
from reproductions import markdown
from reproductions.experiment import Claim, Experiment
from reproductions.uci.experiment import LARGE
from reproductions.uci.shift import (
    ALPHA_SPREAD,
    FEW,
    HELP_SETS,
    INDEPENDENT,
    KL_WEIGHTS,
    LEAST_ROWS,
    METHODS,
    N_STEPS,
    OTHER_STARTS,
    run,
    trials,
)

CONFIDENCE = 0.95
N_SPLITS = 20
FULL = "full covariance"


@dataclass(frozen=True)
class Score:
    """A column of the records: what it is, and how many decimal places are shown."""

    name: str
    title: str
    digits: int = 3


AUROC = Score(
    "auroc/permuted",
    "AUROC of the predictive standard deviation, permuted columns against given inputs",
)
LIKELIHOOD = Score("log_likelihood", "log likelihood at the given inputs (nats)")
GP_PERMUTED = Score(
    "gp_kl/permuted",
    "KL from the Gaussian process at inputs with permuted columns (nats; less is nearer)",
    digits=2,
)
MAIN_SCORES = (AUROC, LIKELIHOOD, GP_PERMUTED)
OTHER_SCORES = (
    Score("auroc/swapped", "AUROC of the predictive standard deviation, swapped columns"),
    Score("ratio/permuted", "mean predictive standard deviation, permuted / given", digits=2),
    Score("gp_kl/given", "KL from the Gaussian process at the given inputs (nats)"),
    Score("rmse", "RMSE at the given inputs, original units"),
)


@dataclass(frozen=True)
class Setting:
    """Under what both sides of a difference were measured."""

    protocol: str = "equal"
    kl_weight: float | None = None
    train_share: float = 1.0
    alpha_spread: float = ALPHA_SPREAD
    is_longer: bool = False


class ShiftResults:
    """The scores of records by data set, method and setting.

    Attributes:
        sets: the recorded data sets, the small ones first.
        methods: the recorded methods, in the order of ``METHODS``.
    """

    def __init__(self, records: Iterable[Record]) -> None:
        self._places: dict[tuple[str, str, Setting], tuple[Record, int]] = {}
        for record in records:
            config = record["config"]
            for place, setting in enumerate(settings_of(config)):
                self._places[config["data"], config["method"], setting] = (record, place)
        data_sets = {data for data, _, _ in self._places}
        self.sets = sorted(data_sets, key=lambda data: (UCI_SETS[data].n_rows >= LARGE, data))
        self.methods = [m for m in METHODS if any(m == method for _, method, _ in self._places)]

    def scores(self, data: str, method: str, setting: Setting, name: str) -> np.ndarray | None:
        """Of each split, the mean over starts; None if it is not recorded."""
        (record, place) = self._places.get((data, method, setting), (None, 0))
        if record is None or name not in record["arrays"]:
            return None
        return np.array(record["arrays"][name][place]).mean(0)

    def difference(
        self, data: str, method: str, setting: Setting, name: str, other: str = INDEPENDENT
    ) -> Difference | None:
        """``method`` minus ``other``, split by split; None unless both are recorded."""
        pair = [self.scores(data, one, setting, name) for one in (method, other)]
        if any(scores is None for scores in pair):
            return None
        return paired_difference(*pair)

    def effect_of_correlations(
        self, data: str, method: str, setting: Setting, name: str
    ) -> Difference | None:
        """A method minus itself when its factors keep their variances and are independent."""
        with_correlations = self.scores(data, method, setting, name)
        without = self.scores(data, method, setting, f"cut/{name}")
        if with_correlations is None or without is None:
            return None
        return paired_difference(with_correlations, without)


def settings_of(config: dict) -> Iterator[Setting]:
    """One for each entry of the arrays of a record."""
    is_large = UCI_SETS[config["data"]].n_rows >= LARGE
    points = config["grid"] if config["protocol"] == "equal" else [{}]
    for point in points:
        yield Setting(
            protocol=config["protocol"],
            kl_weight=point.get("kl_weight"),
            train_share=config["train_share"],
            alpha_spread=point.get("alpha_spread", ALPHA_SPREAD),
            is_longer=not is_large and config["n_steps"] > N_STEPS,
        )


def is_clear(difference: Difference) -> bool:
    """Whether zero lies outside of Student's interval with the corrected error."""
    quantile = float(stats.t.ppf((1 + CONFIDENCE) / 2, N_SPLITS - 1))
    return abs(difference.mean) > quantile * difference.corrected_std_error


def table(records: list[Record]) -> str:
    """Differences to independent noise, what was learned, what helps reflections, small print."""
    results = ShiftResults(records)
    parts = [_INTRODUCTION]
    for title, setting in _comparisons():
        scores = MAIN_SCORES
        if setting == Setting(kl_weight=KL_WEIGHTS[0]):
            scores += OTHER_SCORES
        tables = [_differences(results, setting, score) for score in scores]
        if any(tables):
            parts += [f"### {title}", *filter(None, tables)]
    parts += [
        "### What the correlations do in one network",
        "AUROC for permuted columns with the learned noise, minus that of the same network with "
        "independent noise of the same variances.",
        _effects_of_correlations(results),
        "### Learned vectors minus frozen ones, from the same start",
        _learned_minus_frozen(results),
        "### What training learned about the noise",
        _learned_noise(results),
    ]
    if helps := _what_helps(results):
        parts += ["### What helps reflections", helps]
    return "\n\n".join([*parts, _SET_UP])


def _comparisons() -> list[tuple[str, Setting]]:
    """The settings in which all methods are compared, each with the title of its tables."""
    each = []
    for share, rows in ((1.0, ""), (FEW, ", a tenth of the training examples")):
        for weight in KL_WEIGHTS:
            setting = Setting(kl_weight=weight, train_share=share)
            each.append((f"KL weight {weight:g}{rows}", setting))
    return [*each, ("Each method tuned by validation rows", Setting("tuned"))]


def _differences(results: ShiftResults, setting: Setting, score: Score) -> str:
    """The level of independent noise, and below it every method minus that."""
    rows = []
    for method in results.methods:
        cells = []
        for data in results.sets:
            if method == INDEPENDENT:
                level = results.scores(data, method, setting, score.name)
                cells.append("–" if level is None else f"{level.mean():.{score.digits}f}")
            else:
                difference = results.difference(data, method, setting, score.name)
                cells.append(_cell(difference, score.digits))
        if set(cells) != {"–"}:
            rows.append([method if method == INDEPENDENT else f"{method}, minus it", *cells])
    rows.sort(key=lambda row: row[0] != INDEPENDENT)
    if not rows:
        return ""
    return markdown.table([score.title, *map(display_name, results.sets)], rows)


def _cell(difference: Difference | None, digits: int) -> str:
    """A difference and its corrected error, bold where it is clear."""
    if difference is None:
        return "–"
    text = f"{difference.mean:+.{digits}f} ± {difference.corrected_std_error:.{digits}f}"
    return f"**{text}**" if is_clear(difference) else text


def _effects_of_correlations(results: ShiftResults) -> str:
    rows = []
    for weight in KL_WEIGHTS:
        setting = Setting(kl_weight=weight)
        for method in results.methods:
            effects = [
                results.effect_of_correlations(data, method, setting, AUROC.name)
                for data in results.sets
            ]
            if any(effects):
                rows.append([method, f"{weight:g}", *(_cell(effect, 3) for effect in effects)])
    return markdown.table(["noise", "KL weight", *map(display_name, results.sets)], rows)


def _learned_minus_frozen(results: ShiftResults) -> str:
    rows = []
    for weight in KL_WEIGHTS:
        for method in ("VSD, T = 2", "VSD, T = 8"):
            for score in MAIN_SCORES[:2]:
                differences = [
                    results.difference(
                        data, method, Setting(kl_weight=weight), score.name, f"{method}, frozen"
                    )
                    for data in results.sets
                ]
                if any(differences):
                    cells = [_cell(difference, score.digits) for difference in differences]
                    rows.append([method, f"{weight:g}", score.title, *cells])
    return markdown.table(["noise", "KL weight", "score", *map(display_name, results.sets)], rows)


def _learned_noise(results: ShiftResults) -> str:
    """Means over splits and starts: input units / hidden units."""
    names = {"correlation": "rms correlation", "factor_var": "median variance of a factor"}
    rows = []
    for weight in KL_WEIGHTS:
        setting = Setting(kl_weight=weight)
        for method in results.methods:
            for name, title in names.items():
                cells = []
                for data in results.sets:
                    pair = [
                        results.scores(data, method, setting, f"{name}{place}")
                        for place in ("", "_hidden")
                    ]
                    both = [f"{values.mean():.2g}" for values in pair if values is not None]
                    cells.append(" / ".join(both) or "–")
                if set(cells) != {"–"}:
                    rows.append([method, f"{weight:g}", title, *cells])
    head = ["noise", "KL weight", "input units / hidden units", *map(display_name, results.sets)]
    return markdown.table(head, rows)


def _what_helps(results: ShiftResults) -> str:
    """AUROC and likelihood minus those of independent noise that had the same start and steps."""
    standard = Setting(kl_weight=KL_WEIGHTS[0])
    changes = {
        "as above": standard,
        "standard deviation of log alpha 0.5": Setting(kl_weight=KL_WEIGHTS[0], alpha_spread=0.5),
        "standard deviation of log alpha 1": Setting(kl_weight=KL_WEIGHTS[0], alpha_spread=1.0),
        "twice the steps": Setting(kl_weight=KL_WEIGHTS[0], is_longer=True),
    }
    sets = [data for data in HELP_SETS if data in results.sets]
    rows = []
    if not sets:
        return ""
    for change, setting in changes.items():
        for method in ("VSD, T = 2", "VSD, T = 8", *OTHER_STARTS, FULL):
            cells = []
            for data in sets:
                for score in (AUROC, LIKELIHOOD):
                    difference = results.difference(data, method, setting, score.name)
                    cells.append(_cell(difference, score.digits))
            if set(cells) != {"–"}:
                rows.append([method, change, *cells])
    heads = [f"{display_name(data)}: {name}" for data in sets for name in ("AUROC", "log lik.")]
    return markdown.table(["minus T = 0", "what is changed for both", *heads], rows) if rows else ""


def claims(records: list[Record]) -> list[Claim]:
    """What the abstract says about detecting other inputs, against independent noise."""
    results = ShiftResults(records)
    all_claims = []
    for method in ("VSD, T = 2", FULL):
        n_clear = 0
        n_compared = 0
        for weight in KL_WEIGHTS:
            for data in results.sets:
                setting = Setting(kl_weight=weight)
                difference = results.difference(data, method, setting, AUROC.name)
                if difference:
                    n_compared += 1
                    n_clear += difference.mean > 0 and is_clear(difference)
        kind = "learned by two reflections" if method != FULL else "with any covariance"
        all_claims.append(
            Claim(
                f"Structured noise detects shifted inputs better than independent noise ({kind})",
                "in words, for other image sets; not measured on these sets",
                f"clearly better in {n_clear} of {n_compared} cases",
                n_clear,
                n_compared,
                "AUROC of the predictive standard deviation for test inputs with permuted columns; "
                "equal weight of the KL, same starts and draws; clear: Student's 95 % interval "
                "with the error corrected for the rows that splits share",
            )
        )
    return all_claims


def figure(records: list[Record]) -> Figure:
    """Differences to independent noise in AUROC and in likelihood, for each data set."""
    results = ShiftResults(records)
    methods = [m for m in results.methods if m not in (INDEPENDENT, *OTHER_STARTS)]
    scores = {"AUROC, permuted": AUROC, "log likelihood": LIKELIHOOD}
    height = 1.2 + 2 * (0.6 + 0.2 * max(len(methods), 1))
    picture = new_figure(2.6 + 2.0 * len(results.sets), height, layout="constrained")
    axes = picture.subplots(2, len(results.sets), sharey=True, squeeze=False)
    for row, (title, score) in zip(axes, scores.items(), strict=True):
        for ax, data in zip(row, results.sets, strict=True):
            for weight, colour, offset in zip(KL_WEIGHTS, (BLUE, RED), (-0.13, 0.13), strict=True):
                setting = Setting(kl_weight=weight)
                for place, method in enumerate(methods):
                    difference = results.difference(data, method, setting, score.name)
                    if difference:
                        ax.errorbar(
                            difference.mean,
                            place + offset,
                            xerr=2 * difference.corrected_std_error,
                            color=colour,
                            marker="o",
                            ms=3.5,
                            lw=1.2,
                        )
            ax.axvline(0, color="black", lw=0.8)
            ax.set_title(f"{display_name(data)}: {title}", fontsize=9)
            ax.locator_params(axis="x", nbins=4)
            ax.tick_params(labelsize=8)
            ax.grid(axis="y", alpha=0.4, lw=0.6)
    axes[0][0].set_yticks(range(len(methods)), methods)
    axes[0][0].invert_yaxis()
    for weight, colour in zip(KL_WEIGHTS, (BLUE, RED), strict=True):
        axes[0][0].plot([], [], "o", color=colour, label=f"KL weight {weight:g}")
    label = f"minus {INDEPENDENT}; bars: two corrected errors"
    picture.supxlabel(label, fontsize=10)
    picture.legend(*axes[0][0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return picture


_INTRODUCTION = (
    f"Every method minus `{INDEPENDENT}`, which is the same noise without correlations, split by "
    "split; of several starts the mean is taken first. The error of a difference allows for the "
    "training examples that splits share (Nadeau and Bengio 2003). Bold: outside of Student's "
    "interval of 95 %, so of twenty differences that are nothing one is bold. The full covariance "
    "is the positive control: what it does not show, reflections cannot."
)
_SET_UP = (
    "**Set-up.** Networks, data, standardisation, optimizer and steps are those of the UCI tables "
    "above. With an *equal weight of the KL* nothing is chosen but tau; weights multiply the KL "
    "where the data term is half the squared error of standardised targets, and noise starts at a "
    "rate of 0.05. Methods of noise on units start with the same weights and alphas and draw the "
    "same minibatches and standard normal numbers; frozen and learned vectors start alike. In "
    "*tuned* comparisons each method chooses from its own grid. *Permuted*: each column of the "
    "test inputs by itself. *Swapped*: the two columns with the largest correlation among the "
    "training examples change places as standardised columns; where that is near 1 little moves. "
    "Targets are used at the given inputs only. Predictions have 400 draws. A *tenth of the "
    f"training examples*: the first ones, at least {LEAST_ROWS}; the error is corrected by that "
    "of the whole training part, which is too large there if anything. *KL from the Gaussian "
    "process*: the expected log likelihood of a new target that a method loses if the process "
    "(squared exponential, a length scale for each feature, fitted by evidence to the same rows) "
    "is right, on sets of up to 1,100 rows; it compares with that model and not with the truth. "
    "*Near the identity*: every second vector starts beside the one before it; *near the axes*: "
    "each vector beside an axis. The full covariance bounds what a factor adds to those before "
    "it, so its variances may exceed 1. The KL of VD counts a factor once, so equal weights are "
    "not equal noise for it, for methods with noise on weights, or for those without noise."
)
TITLE = "Regression on the UCI sets at shifted inputs (Nguyen et al. 2021, not measured there)"
EXPERIMENT = Experiment("uci_under_shift", TITLE, trials, run, table, figure, claims)
