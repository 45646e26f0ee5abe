"""Markdown tables of records of networks for images; every number comes from the records."""

from collections.abc import Iterable, Sequence
from statistics import mean, stdev
from typing import NamedTuple

from scipy import stats

from bdl_lessons.datasets.records import Record, group_by, published_table, setting, where
from reproductions import markdown
from reproductions.markdown import mean_and_error
from reproductions.records import metric

MEASURES = {
    "fpr_at_95_tpr": "FPR at 95 % TPR",
    "detection_error": "detection error",
    "auroc": "AUROC",
    "aupr_in": "AUPR in",
    "aupr_out": "AUPR out",
}
QUALITY = {"nll": "NLL (nats)", "accuracy_percent": "accuracy (%)", "ece": "ECE"}
_PRINTED = {"method": "method", "out_of_distribution": "other images", **QUALITY, **MEASURES}
_TRIED = {
    "prior_precision": "prior precision",
    "p_drop": "p",
    "kl_weight": "KL weight",
    "prior_var": "prior variance",
    "rank": "rank",
    "n_pseudo": "pseudo-data",
    "n_flows": "flow steps",
    "swag_lr": "SWAG rate",
    "slang_lr": "SLANG rate",
    "swag_epochs": "epochs more",
    "n_networks": "networks",
}


def grid(records: Sequence[Record], picked: dict[str, str]) -> str:
    """What was tried of each method that has more than one setting."""
    groups = [where(records, method=method) for method in picked]
    columns = {
        "method": "{config[method]}",
        "setting": _what,
        "validation NLL (nats)": "{metrics[val_nll]:.4f}",
        "": lambda r: "chosen" if setting(r) == picked[r["config"]["method"]] else "",
    }
    return markdown.table_of([r for group in groups if len(group) > 1 for r in group], columns)


def quality(records: Sequence[Record]) -> str:
    """NLL, accuracy and ECE of each method; the records of one data set at one setting each."""
    rows, digits = [], {"nll": 4, "accuracy_percent": 2, "ece": 4}
    for method, group in group_by(records, "method").items():
        cells = (mean_and_error(metric(group, name), digits[name]) for name in QUALITY)
        rows.append([method, _what(group[0]), str(len(group)), *cells])
    return markdown.table(["method", "setting", "seeds", *QUALITY.values()], rows)


def detections(records: Sequence[Record], other: str, score: str) -> str:
    """The five measures of each method for one set of other images and one score."""
    names, rows = [f"{other}/{score}/{measure}" for measure in MEASURES], []
    for method, group in group_by(records, "method").items():
        rows.append([method, *(mean_and_error(metric(group, name), 3) for name in names)])
    return markdown.table(["method", *MEASURES.values()], rows)


def published(name: str, wanted: dict[str, str]) -> str:
    """The rows of a published table that have all that is ``wanted``, without these columns."""
    rows = [row for row in published_table(name) if wanted.items() <= row.items()]
    if not rows:
        return "no such row"
    formats = dict.fromkeys(MEASURES, ":.2f")
    formats |= {"nll": ":.3f", "accuracy_percent": ":.2f", "ece": ":.3f"}
    shown = [key for key in _PRINTED if key in rows[0] and key not in wanted]
    return markdown.table_of(rows, {_PRINTED[k]: f"{{{k}{formats.get(k, '')}}}" for k in shown})


def endings(records: Sequence[Record]) -> str:
    """For each method: the epochs of its training, the best of them, how often it had stopped."""
    rows = []
    for method, group in group_by(records, "method").items():
        cells = [mean_and_error(metric(group, name), 1) for name in ("epochs", "best_epoch")]
        stopped = 100 * mean(metric(group, "no_better"))
        curves = [curve for r in group for curve in r["arrays"]["val_nll"]]
        late = max(1 - min(c) / min(c[: len(c) - len(c) // 5]) for c in curves)
        rows.append([method, *cells, f"{stopped:.0f}", f"{100 * late:.2f}"])
    head = ["method", "epochs", "best epoch", "no longer improving (% of networks)"]
    return markdown.table([*head, "largest gain in the last fifth of the epochs (%)"], rows)


class Gap(NamedTuple):
    """Mean of a difference over ``n`` seeds, and its standard error."""

    mean: float
    error: float
    n: int

    @property
    def is_clear(self) -> bool:
        """Whether 0 lies outside the 95 % interval of Student's t."""
        return abs(self.mean) > self.least_clear

    @property
    def least_clear(self) -> float:
        """The smallest difference that would be clear with this scatter of the seeds."""
        return stats.t.ppf(0.975, self.n - 1) * self.error


def differences(
    records: Sequence[Record], method: str, rivals: Sequence[str], metrics: Iterable[str]
) -> dict[tuple[str, str], Gap]:
    """``method`` minus each rival, seed by seed: ``{(metric, rival): gap}``.

    A rival that shares fewer than two seeds with ``method`` is left out.
    """
    groups = group_by(records, "method")
    runs = {name: {r["seed"]: r["metrics"] for r in group} for name, group in groups.items()}
    found = {}
    for rival in rivals:
        seeds = sorted(set(runs.get(method, ())) & set(runs.get(rival, ())))
        for name in metrics if len(seeds) > 1 else ():
            gaps = [runs[method][s][name] - runs[rival][s][name] for s in seeds]
            found[name, rival] = Gap(mean(gaps), stdev(gaps) / len(gaps) ** 0.5, len(gaps))
    return found


def _what(record: Record) -> str:
    config = record["config"]
    shown = _TRIED | ({"learning_rate": "rate"} if "patience" in config else {})
    return ", ".join(f"{text} {config[key]:g}" for key, text in shown.items() if key in config)
