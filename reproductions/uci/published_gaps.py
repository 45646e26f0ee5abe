"""Which published differences between methods the recorded protocol could have seen."""

from scipy import stats

from bdl_lessons.datasets import UCI_SETS, display_name
from bdl_lessons.datasets.records import UCIResults
from bdl_lessons.evaluation import paired_difference
from reproductions import markdown

RIVALS = ("VD", "MCD", "BBB", "D.E")
"""What the published tables compare VSD with, of the methods that are recorded."""

TEXT = (
    "Published VSD minus a rival, and in brackets the smallest difference of the two that our "
    "splits could have told from none: Student's quantile (95 %, two-sided) times the corrected "
    "error of our differences. Bold: the published difference is larger, so that this protocol "
    "would have seen it."
)


def smallest_visible_gap(first: list[float], second: list[float]) -> float:
    """The least mean of ``first - second`` over splits that counts as different from zero.

    The scatter of the differences is that of these ``(n,)`` scores, entry i from split i.

    >>> round(smallest_visible_gap([3.0, 5.0, 4.0], [1.0, 1.0, 1.0]), 2)
    2.87
    """
    quantile = stats.t.ppf(0.975, len(first) - 1)
    return float(quantile * paired_difference(first, second).corrected_std_error)


def published_gaps(results: UCIResults, score: str) -> str:
    """A row for each rival, a column for each published set; ``score`` as in the records."""
    rows = []
    for rival in RIVALS:
        cells = [_cell(results, data, rival, score) for data in results.sets]
        rows.append([f"VSD − {rival}", *cells])
    return markdown.table(["published", *map(display_name, results.sets)], rows)


def _cell(results: UCIResults, data: str, rival: str, score: str) -> str:
    printed = [results.published(data, method, score) for method in ("VSD", rival)]
    records = [results.record(data, method) for method in ("VSD", rival)]
    if not all(printed) or not all(records):
        return "–"
    digits = UCI_SETS[data].digits if score == "rmse" else 2
    gap = printed[0][0] - printed[1][0]
    least = smallest_visible_gap(*(record["arrays"][score] for record in records))
    text = f"{gap:+.{digits}f} ({least:.{digits}f})"
    return f"**{text}**" if abs(gap) > least else text
