"""Markdown tables of records of networks for images; every number comes from the records."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence

from bdl_lessons.experiments import markdown
from bdl_lessons.experiments.records import Record

MEASURES = {
    "fpr_at_95_tpr": "FPR at 95 % TPR",
    "detection_error": "detection error",
    "auroc": "AUROC",
    "aupr_in": "AUPR in",
    "aupr_out": "AUPR out",
}
_TRIED = {
    "p_drop": "p",
    "kl_weight": "KL weight",
    "prior_var": "prior variance",
    "rank": "rank",
    "n_pseudo": "pseudo-data",
    "n_flows": "flow steps",
    "swag_epochs": "epochs more",
    "n_networks": "networks",
}


def chosen(records: Sequence[Record], data: str) -> dict[str, str]:
    """Method -> the setting with the smallest ``val_nll`` on ``data`` with the first seed."""
    first = min(record["seed"] for record in records)
    best: dict[str, Record] = {}
    for record in of(records, data=data, seed=first):
        method = record["config"]["method"]
        if method not in best or _val_nll(record) < _val_nll(best[method]):
            best[method] = record
    return {method: setting(record) for method, record in best.items()}


def setting(record: Record) -> str:
    """All of the configuration but the data, as one string."""
    config = {k: v for k, v in record["config"].items() if k not in ("data", "ood")}
    return json.dumps(config, sort_keys=True)


def at(records: Sequence[Record], data: str, picked: dict[str, str]) -> list[Record]:
    """The records of a data set at the chosen settings, methods in one order, seeds together."""
    rows = [r for r in of(records, data=data) if setting(r) == picked.get(r["config"]["method"])]
    return sorted(rows, key=lambda r: list(picked).index(r["config"]["method"]))


def of(records: Iterable[Record], **wanted) -> list[Record]:
    """Those whose seed or configuration has these values."""
    return [
        r
        for r in records
        if all({**r["config"], "seed": r["seed"]}[k] == wanted[k] for k in wanted)
    ]


def grid(records: Sequence[Record], picked: dict[str, str]) -> str:
    """What was tried of each method that has more than one setting."""
    tried = {method: of(records, method=method) for method in picked}
    rows = [
        [method, _what(r), f"{_val_nll(r):.4f}", "chosen" if setting(r) == picked[method] else ""]
        for method, group in tried.items()
        if len(group) > 1
        for r in group
    ]
    return markdown.table(["method", "setting", "validation NLL (nats)", ""], rows)


def quality(records: Sequence[Record]) -> str:
    """NLL, accuracy and ECE of each method; the records of one data set at one setting each."""
    rows = []
    for method, group in by_method(records).items():
        cells = [
            spread([r["metrics"][name] for r in group], digits)
            for name, digits in (("nll", 4), ("accuracy_percent", 2), ("ece", 4))
        ]
        rows.append([method, _what(group[0]), str(len(group)), *cells])
    return markdown.table(["method", "setting", "seeds", "NLL (nats)", "accuracy (%)", "ECE"], rows)


def detections(records: Sequence[Record], other: str, score: str) -> str:
    """The five measures of each method for one set of other images and one score."""
    names = [f"{other}/{score}/{name}" for name in MEASURES]
    rows = [
        [method, *(spread([r["metrics"][name] for r in group], 3) for name in names)]
        for method, group in by_method(records).items()
    ]
    return markdown.table(["method", *MEASURES.values()], rows)


def sureness(records: Sequence[Record]) -> str:
    """How many rows of each set have less than a fifth of the largest possible entropy."""
    names = list(records[0]["arrays"])
    rows = [
        [method, *(spread([_share_below(r["arrays"][name]) for r in group], 1) for name in names)]
        for method, group in by_method(records).items()
    ]
    return markdown.table(["method", *(name.removeprefix("entropy/") for name in names)], rows)


def standing(records: Sequence[Record], method: str, rivals: Sequence[str]) -> list[list[str]]:
    """For each measure a row: which method is best, and whether ``method`` beats each rival."""
    groups = by_method(records)
    measures = {"NLL": ("nll", -1), "accuracy": ("accuracy_percent", 1), "ECE": ("ece", -1)}
    measures |= {
        f"AUROC, {other}": (f"{other}/max softmax/auroc", 1)
        for other in records[0]["config"]["ood"]
    }
    lines = []
    for title, (name, sign) in measures.items():
        score = {
            m: sign * sum(r["metrics"][name] for r in rows) / len(rows)
            for m, rows in groups.items()
        }
        cells = [f"{records[0]['config']['data']}: {title}", max(score, key=score.get)]
        lines.append([*cells, *(_compared(score[method], score[rival]) for rival in rivals)])
    return lines


def by_method(records: Iterable[Record]) -> dict[str, list[Record]]:
    """The records of each method, in the order in which they come."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(record["config"]["method"], []).append(record)
    return groups


def spread(values: Sequence[float], digits: int) -> str:
    """The mean, and with more than one value its standard error."""
    mean = sum(values) / len(values)
    if len(values) == 1:
        return f"{mean:.{digits}f}"
    var = sum((v - mean) ** 2 for v in values) / (len(values) - 1)
    return f"{mean:.{digits}f} ± {math.sqrt(var / len(values)):.{digits}f}"


def _compared(mine: float, other: float) -> str:
    if mine == other:
        return "equal"
    return "better" if mine > other else "worse"


def _share_below(histogram: Sequence[int]) -> float:
    return 100 * sum(histogram[: len(histogram) // 5]) / sum(histogram)


def _val_nll(record: Record) -> float:
    return record["metrics"]["val_nll"]


def _what(record: Record) -> str:
    config = record["config"]
    return ", ".join(f"{text} {config[key]:g}" for key, text in _TRIED.items() if key in config)
