"""Lesson 14: every method on one data set and one measure, from the recorded experiments.

Nothing is trained here. The rows are what ``python -m reproductions run uci`` and ``… run
image_classification`` left in ``data/results``; a method that was not run has no row.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox
from scipy import stats

from bdl_lessons.core import BLUE, GREY, INK, RED
from bdl_lessons.datasets import records
from bdl_lessons.datasets.uci_sets import display_name
from bdl_lessons.evaluation import paired_difference
from bdl_lessons.panels.engine import Choice, Panel, Update

IMAGES = ("mnist", "fashion-mnist")
MEASURES = ("error", "negative log likelihood", "calibration error", "FPR95, letters")
_UCI_SCORES = {"error": "rmse", "negative log likelihood": "log_likelihood"}
_IMAGE_SCORES = {
    "error": "accuracy_percent",
    "negative log likelihood": "nll",
    "calibration error": "ece",
    "FPR95, letters": "notmnist-small/max softmax/fpr_at_95_tpr",
}
_UCI_LABELS = {
    "error": "RMSE, original units",
    "negative log likelihood": "− log likelihood of a test point (nats)",
    "calibration error": "measured on images only",
    "FPR95, letters": "measured on images only",
}
_IMAGE_LABELS = {
    "error": "wrong test images (%)",
    "negative log likelihood": "− log likelihood of a test point (nats)",
    "calibration error": "expected calibration error",
    "FPR95, letters": "FPR95: letters taken as clothes or digits",
}
_MOST = 18  # methods that the picture has room for
_DIGIT_WIDTH = 10  # pixels, of the numbers beside points
_DIGIT_HEIGHT = 15
_GAP = 5  # pixels from a point to its number
_FEW = 7  # so many gaps between methods, at least, are spread over the axis
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
    """The panel of lesson 14: which data, which measure."""
    uci_sets = records.UCIResults(_recorded("uci")).recorded_sets
    return Panel(
        build_figure,
        Choice(
            name="data",
            label="data",
            values=(*uci_sets, *IMAGES),
            value=uci_sets[0],
            show=display_name,
        ),
        Choice(
            name="measure",
            label="measure",
            values=MEASURES,
            value="negative log likelihood",
        ),
        size=(9.6, 4.6),
    )


def build_figure(figure: Figure) -> Update:
    """Left: the methods from best to worst, each with its score and error, and the published score
    where there is one. Right: the same scores against the time of a training step; a dashed line
    joins those that no other method beats in both.
    """
    left, right = figure.subplots(1, 2, width_ratios=(1.15, 1))
    figure.subplots_adjust(left=0.145, bottom=0.14, right=0.985, top=0.91, wspace=0.27)

    left.set(ylim=(_MOST - 0.3, -0.7), yticks=[])
    left.spines["left"].set_visible(False)
    left.xaxis.set_animated(True)
    left.xaxis.get_major_locator().set_params(nbins=5)
    bars = left.hlines(np.zeros(_MOST), 0, 0, color=BLUE, lw=2, animated=True)
    (ours,) = left.plot([], [], "o", color=BLUE, ls="", animated=True)
    (published,) = left.plot([], [], "s", mfc="white", color=RED, ls="", animated=True)
    names = [
        left.text(
            0,
            place,
            "",
            fontsize=12.5,
            ha="right",
            va="center",
            transform=left.get_yaxis_transform(),
            animated=True,
        )
        for place in range(_MOST)
    ]
    left.legend(
        [ours, published],
        ["ours ± standard error", "published"],
        loc="upper right",
        bbox_to_anchor=(1.02, 1.12),
        ncols=2,
        columnspacing=1.0,
    )

    right.set_title("Score against time")
    right.set(xscale="log", xlim=(0.7, 20), xlabel="time of a training step / plain network")
    right.set_xticks([1, 2, 5, 10], ["1", "2", "5", "10"])
    right.minorticks_off()
    right.yaxis.set_animated(True)
    right.yaxis.get_major_locator().set_params(nbins=5)
    (front_line,) = right.plot([], [], color=GREY, ls="--", lw=1.2, animated=True)
    (points,) = right.plot([], [], "o", color=BLUE, ls="", animated=True)
    numbers = [
        right.text(1, 0, "", fontsize=12, color=INK, va="bottom", animated=True)
        for _ in range(_MOST)
    ]

    def update(data: str, measure: str) -> str:
        ranked = sorted(rows(data, measure), key=lambda row: row.score)
        label = _IMAGE_LABELS[measure] if data in IMAGES else _UCI_LABELS[measure]

        score = np.array([row.score for row in ranked])
        error = np.array([row.error for row in ranked])
        printed = np.array([row.printed for row in ranked])
        low = score - error
        high = score + error
        n_gaps = max(len(ranked) - 1, _FEW)
        places = np.arange(len(ranked)) * (_MOST - 1) / n_gaps
        bars.set_segments(
            [
                [(start, place), (end, place)]
                for start, end, place in zip(low, high, places, strict=True)
            ]
        )
        ours.set_data(score, places)
        published.set_data(printed, places)
        left.set_xlim(*_limits(np.concatenate([low, high, printed])))
        left.set_xlabel(f"← better      {label}")
        _clear(names)
        for rank, (row, place) in enumerate(zip(ranked, places, strict=True)):
            names[rank].set(y=place, text=f"{rank + 1}  {row.method}  ")

        timed = [rank for rank, row in enumerate(ranked) if np.isfinite(row.time)]
        times = np.array([ranked[rank].time for rank in timed])
        timed_scores = score[timed]
        points.set_data(times, timed_scores)
        right.set_ylim(*_limits(timed_scores))
        right.set_ylabel(label)
        _clear(numbers)
        for text, rank in zip(numbers, timed, strict=False):
            text.set_text(str(rank + 1))
        _place_numbers(right, numbers[: len(timed)], times, timed_scores)

        is_on_front = pareto_front(times, timed_scores)
        front_times = times[is_on_front]
        by_time = front_times.argsort()
        front_line.set_data(front_times[by_time], timed_scores[is_on_front][by_time])
        front = [
            ranked[rank].method for rank, is_on in zip(timed, is_on_front, strict=True) if is_on
        ]
        return _readout(data, measure, ranked, front)

    return update


def rows(data: str, measure: str) -> list[Row]:
    """The recorded methods for one data set and measure, in no order; none if there are none."""
    if data in IMAGES:
        return _image_rows(data, measure)
    if measure in _UCI_SCORES:
        return _uci_rows(data, measure)
    return []


def _uci_rows(data: str, measure: str) -> list[Row]:
    results = records.UCIResults(_recorded("uci"))
    score = _UCI_SCORES[measure]
    sign = -1 if score == "log_likelihood" else 1
    plain = results.record(data, "MAP")
    uci_rows = []
    for method in results.methods:
        record = results.record(data, method)
        if record is None:
            continue
        mean, error = results.ours(data, method, score)
        published = results.published(data, method, score)
        uci_rows.append(
            Row(
                method=method,
                score=sign * mean,
                error=error,
                printed=sign * published[0] if published else np.nan,
                time=_uci_time(record, plain),
                runs=np.array(record["arrays"][score]),
            )
        )
    return uci_rows


def _uci_time(record: records.Record, plain: records.Record | None) -> float:
    """Time of a step over that of the plain network, both for one network."""
    if plain is None or "ms_side_by_side" not in record["metrics"]:
        return np.nan
    config = record["config"]
    metrics = record["metrics"]
    if config["method"] == "D.E":
        return 5.0  # five of the plain network, however many share a batch
    n_trained = config["n_splits"] * len(config["grid"])
    n_networks = metrics["n_side_by_side"] / n_trained
    return n_networks * metrics["ms_side_by_side"] / plain["metrics"]["ms_side_by_side"]


def _image_rows(data: str, measure: str) -> list[Row]:
    every = _recorded("image_classification")
    if not every:
        return []
    chosen = records.with_settings(every, data, records.chosen_settings(every))
    image_rows = []
    for method, seeds in records.group_by(chosen, "method").items():
        values = np.array([record["metrics"][_IMAGE_SCORES[measure]] for record in seeds])
        if measure == "error":
            values = 100 - values
        n_seeds = len(values)
        image_rows.append(
            Row(
                method=method,
                score=values.mean(),
                error=values.std(ddof=1) / n_seeds**0.5 if n_seeds > 1 else 0.0,
                printed=np.nan,
                time=_image_time(method),
                runs=values,
            )
        )
    return image_rows


def _image_time(method: str) -> float:
    """Time of a step of LeNet-5 on a CPU over that of the plain network."""
    for record in _recorded("time_per_step"):
        config = record["config"]
        if config["architecture"] == "lenet5" and config["device"] == "cpu":
            if method == "D.E":
                return 5 * record["metrics"].get("ratio/MAP", np.nan)
            return record["metrics"].get(f"ratio/{method}", np.nan)
    return np.nan


def pareto_front(time: np.ndarray, loss: np.ndarray) -> np.ndarray:
    """Which of ``(M,)`` methods no other equals in both and beats in one; less is better."""
    points = np.stack([time, loss], axis=-1)
    at_most = (points <= points[:, None]).all(-1)
    less = (points < points[:, None]).any(-1)
    return ~(at_most & less).any(1)


def _clear(texts: Sequence[Text]) -> None:
    for text in texts:
        text.set_text("")


def _place_numbers(
    axes: Axes, numbers: Sequence[Text], times: np.ndarray, scores: np.ndarray
) -> None:
    """Put each number beside its point, where no point is and no number that came before."""
    points = axes.transData.transform(np.column_stack([times, scores]))
    taken = [Bbox.from_extents(x - 4, y - 4, x + 4, y + 4) for x, y in points]
    for text, (x, y), time, score in zip(numbers, points, times, scores, strict=True):
        width = _DIGIT_WIDTH * len(text.get_text())
        boxes = {}
        for ha, left in (("left", x + _GAP), ("right", x - _GAP - width)):
            for va, bottom in (("bottom", y), ("top", y - _DIGIT_HEIGHT)):
                boxes[ha, va] = Bbox.from_bounds(left, bottom, width, _DIGIT_HEIGHT)
        n_overlaps = {corner: box.count_overlaps(taken) for corner, box in boxes.items()}
        ha, va = min(boxes, key=n_overlaps.get)
        taken.append(boxes[ha, va])
        beside = time * 1.04 if ha == "left" else time / 1.04
        text.set(position=(beside, score), ha=ha, va=va)


def _limits(values: np.ndarray) -> tuple[float, float]:
    """The ends of an axis that holds all finite values, with a margin."""
    finite = values[np.isfinite(values)]
    low = min(finite, default=0.0)
    high = max(finite, default=1.0)
    margin = 0.08 * (high - low) or 0.1 * abs(high) or 1.0
    return low - margin, high + margin


def _readout(data: str, measure: str, ranked: Sequence[Row], front: Sequence[str]) -> str:
    """Which method is best, whether clearly, and which are Pareto-optimal."""
    name = display_name(data)
    if not ranked:
        return f"No recorded method has a <b>{measure}</b> on {name}."
    best, *others = ranked
    beaten = []
    rivals = []
    for row in others:
        is_clear = _is_clear(best, row, data, n_methods=len(ranked))
        (beaten if is_clear else rivals).append(row.method)
    if len(beaten) < len(rivals):
        lead = f"clearly ahead of {' · '.join(beaten) or 'none'}"
    elif rivals:
        lead = f"not clearly ahead of {' · '.join(rivals)}"
    else:
        lead = "clearly so"
    sentence = f"{name}: <b>{best.method}</b> has the best {measure}, {lead}."
    if front:
        sentence += f" Pareto-optimal in score and time: {' · '.join(front)}."
    return sentence


def _is_clear(first: Row, other: Row, data: str, n_methods: int) -> bool:
    """Whether a lead that was found among so many methods counts, as one of all their pairs."""
    n_runs = min(len(first.runs), len(other.runs))
    if n_runs < 2:
        return False
    gap = paired_difference(first.runs[:n_runs], other.runs[:n_runs])
    error = gap.std_error if data in IMAGES else gap.corrected_std_error
    n_ordered_pairs = n_methods * (n_methods - 1)
    n_errors = stats.t.ppf(1 - 0.05 / n_ordered_pairs, n_runs - 1)
    return abs(gap.mean) > n_errors * error
