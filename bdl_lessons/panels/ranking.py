"""Lesson 12: every method on one data set and one measure, from the recorded experiments.

Nothing is trained here. The rows are what ``python -m reproductions run uci`` and ``… run
image_classification`` left in ``data/results``; a method that was not run has no row.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from scipy import stats

from bdl_lessons.core import BLUE, GREY, INK, RED
from bdl_lessons.datasets import records
from bdl_lessons.datasets.uci_sets import display_name
from bdl_lessons.evaluation import paired_difference
from bdl_lessons.panels.engine import Choice, Panel, Update

IMAGES = ("mnist", "fashion-mnist")
MEASURES = ("error", "negative log likelihood", "calibration error", "FPR95, letters")
_UCI = {"error": "rmse", "negative log likelihood": "log_likelihood"}
_IMAGE = {
    "error": "accuracy_percent",
    "negative log likelihood": "nll",
    "calibration error": "ece",
    "FPR95, letters": "notmnist-small/max softmax/fpr_at_95_tpr",
}
_ONLY_IMAGES = "measured on images only"
_LABELS = {
    "error": ("RMSE, original units", "wrong test images (%)"),
    "negative log likelihood": ("− log likelihood of a test point (nats)",) * 2,
    "calibration error": (_ONLY_IMAGES, "expected calibration error"),
    "FPR95, letters": (_ONLY_IMAGES, "FPR95: letters taken as clothes or digits"),
}
_MOST, _FEW = 18, 7
_recorded = functools.cache(records.load_records)


@dataclass(frozen=True)
class Row:
    """One method: its score (less is better) with standard error, and the time of a training step.

    Attributes:
        printed: the published score, NaN if there is none.
        time: of a training step, relative to the plain network; NaN if not measured.
        runs: the scores of the splits, or of the seeds.
    """

    method: str
    score: float
    error: float
    printed: float
    time: float
    runs: np.ndarray


def panel() -> Panel:
    """The panel of lesson 12: which data, which measure."""
    data = (*records.UCIResults(_recorded("uci")).recorded_sets, *IMAGES)
    return Panel(
        build_figure,
        Choice("data", "data", data, data[0], display_name),
        Choice("measure", "measure", MEASURES, MEASURES[1]),
        size=(9.6, 4.6),
    )


def build_figure(figure: Figure) -> Update:
    """Left: the methods from best to worst, each with its score and error, and the published score
    where there is one. Right: the same scores against the time of a training step; a dashed line
    joins those that no other method beats in both.
    """
    left, right = figure.subplots(1, 2, width_ratios=(1.15, 1))
    figure.subplots_adjust(0.145, 0.14, 0.985, 0.91, wspace=0.27)
    left.set(ylim=(_MOST - 0.3, -0.7), yticks=[])
    left.spines["left"].set_visible(False)
    right.set_title("Score against time")
    right.set(xscale="log", xlim=(0.7, 20), xlabel="time of a training step / plain network")
    right.set_xticks([1, 2, 5, 10], ["1", "2", "5", "10"])
    right.minorticks_off()
    for axis in (left.xaxis, right.yaxis):
        axis.set_animated(True)
        axis.get_major_locator().set_params(nbins=5)

    bars = left.hlines(np.zeros(_MOST), 0, 0, color=BLUE, lw=2, animated=True)
    (dots,) = left.plot([], [], "o", color=BLUE, ls="", animated=True)
    (rings,) = left.plot([], [], "s", mfc="white", color=RED, ls="", animated=True)
    look = {"ha": "right", "va": "center", "transform": left.get_yaxis_transform()}
    names = [left.text(0, i, "", fontsize=12.5, **look) for i in range(_MOST)]
    place = {"loc": "upper right", "bbox_to_anchor": (1.02, 1.12), "ncols": 2, "columnspacing": 1.0}
    left.legend([dots, rings], ["ours ± standard error", "published"], **place)
    (front,) = right.plot([], [], color=GREY, ls="--", lw=1.2, animated=True)
    (points,) = right.plot([], [], "o", color=BLUE, ls="", animated=True)
    numbers = [right.text(1, 0, "", fontsize=12, color=INK, va="bottom") for _ in range(_MOST)]
    for text in (*names, *numbers):
        text.set_animated(True)

    def update(data: str, measure: str) -> str:
        found = sorted(rows(data, measure), key=lambda row: row.score)
        columns = [[row.score, row.error, row.printed] for row in found]
        score, error, printed = np.reshape(columns, (-1, 3)).T
        place = np.arange(len(found)) * (_MOST - 1) / max(len(found) - 1, _FEW)
        ends = zip(score - error, score + error, place, strict=True)
        bars.set_segments([[(low, i), (high, i)] for low, high, i in ends])
        dots.set_data(score, place)
        rings.set_data(printed, place)
        for i, (text, row, y) in enumerate(zip(names, found, place, strict=False)):
            text.set(y=y, text=f"{i + 1}  {row.method}  ")

        left.set_xlim(*_limits(np.concatenate([score - error, score + error, printed])))
        label = _LABELS[measure][data in IMAGES]
        left.set_xlabel(f"← better      {label}")
        right.set_ylabel(label)
        known = [(i, row) for i, row in enumerate(found) if np.isfinite(row.time)]
        times, scores = np.reshape([[row.time, row.score] for _, row in known], (-1, 2)).T
        points.set_data(times, scores)
        right.set_ylim(*_limits(scores))
        for text, (i, row) in zip(numbers, known, strict=False):
            text.set(position=(row.time * 1.04, row.score), text=str(i + 1))
        for text in (*names[len(found) :], *numbers[len(known) :]):
            text.set_text("")
        best = pareto_front(times, scores)
        order = times[best].argsort()
        front.set_data(times[best][order], scores[best][order])
        cheap = [row.method for (_, row), on in zip(known, best, strict=True) if on]
        return _readout(data, measure, found, cheap)

    return update


def rows(data: str, measure: str) -> list[Row]:
    """The recorded methods for one data set and measure, in no order; none if there are none."""
    if data in IMAGES:
        return _image_rows(data, measure)
    return _uci_rows(data, measure) if measure in _UCI else []


def _uci_rows(data: str, measure: str) -> list[Row]:
    found = records.UCIResults(_recorded("uci"))
    score = _UCI[measure]
    sign = -1 if score == "log_likelihood" else 1
    made = []
    for method in found.methods:
        if record := found.record(data, method):
            mean, error = found.ours(data, method, score)
            printed = found.published(data, method, score) or (np.nan,)
            time = _uci_time(record, found.record(data, "MAP"))
            runs = record["arrays"][score]
            made.append(Row(method, sign * mean, error, sign * printed[0], time, np.array(runs)))
    return made


def _uci_time(record: records.Record, plain: records.Record | None) -> float:
    if plain is None or "ms_side_by_side" not in record["metrics"]:
        return np.nan
    config = record["config"]
    metrics = record["metrics"]
    if config["method"] == "D.E":
        return 5.0  # five of the plain network, however many share a batch
    n_networks = metrics["n_side_by_side"] / (config["n_splits"] * len(config["grid"]))
    return n_networks * metrics["ms_side_by_side"] / plain["metrics"]["ms_side_by_side"]


def _image_rows(data: str, measure: str) -> list[Row]:
    every = _recorded("image_classification")
    chosen = records.with_settings(every, data, records.chosen_settings(every)) if every else []
    made = []
    for method, group in records.group_by(chosen, "method").items():
        values = np.array([record["metrics"][_IMAGE[measure]] for record in group])
        if measure == "error":
            values = 100 - values
        error = values.std(ddof=1) / len(values) ** 0.5 if len(values) > 1 else 0.0
        made.append(Row(method, values.mean(), error, np.nan, _image_time(method), values))
    return made


def _image_time(method: str) -> float:
    for record in _recorded("time_per_step"):
        if record["config"]["architecture"] == "lenet5" and record["config"]["device"] == "cpu":
            n_networks, name = (5, "MAP") if method == "D.E" else (1, method)
            return n_networks * record["metrics"].get(f"ratio/{name}", np.nan)
    return np.nan


def pareto_front(time: np.ndarray, loss: np.ndarray) -> np.ndarray:
    """Which of ``(M,)`` methods no other equals in both and beats in one; less is better."""
    points = np.stack([time, loss], axis=-1)
    at_most = (points <= points[:, None]).all(-1)
    less = (points < points[:, None]).any(-1)
    return ~(at_most & less).any(1)


def _limits(values: np.ndarray) -> tuple[float, float]:
    values = values[np.isfinite(values)]
    low = min(values, default=0.0)
    high = max(values, default=1.0)
    margin = 0.08 * (high - low) or 0.1 * abs(high) or 1.0
    return low - margin, high + margin


def _readout(data: str, measure: str, found: Sequence[Row], front: Sequence[str]) -> str:
    if not found:
        return f"No recorded method has a <b>{measure}</b> on {display_name(data)}."
    first, *others = found
    clear = [row.method for row in others if _is_clear(first, row, data, len(found))]
    near = [row.method for row in others if row.method not in clear]
    ahead = f"not clearly ahead of {' · '.join(near)}" if near else "clearly so"
    if len(clear) < len(near):
        ahead = f"clearly ahead of {' · '.join(clear) or 'none'}"
    unbeaten = f" Pareto-optimal in score and time: {' · '.join(front)}." if front else ""
    return f"{display_name(data)}: <b>{first.method}</b> has the best {measure}, {ahead}.{unbeaten}"


def _is_clear(first: Row, other: Row, data: str, n_methods: int) -> bool:
    """Whether a lead that was found among so many methods counts, as one of all their pairs."""
    n = min(len(first.runs), len(other.runs))
    if n < 2:
        return False
    gap = paired_difference(first.runs[:n], other.runs[:n])
    error = gap.std_error if data in IMAGES else gap.corrected_std_error
    return abs(gap.mean) > stats.t.ppf(1 - 0.05 / (n_methods * (n_methods - 1)), n - 1) * error
