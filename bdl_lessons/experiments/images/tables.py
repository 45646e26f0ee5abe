"""Markdown tables of records of networks for images; every number comes from the records."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from statistics import mean

from bdl_lessons.experiments import markdown
from bdl_lessons.experiments.markdown import mean_and_error
from bdl_lessons.experiments.records import Record, group_by

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
    tried = group_by(where(records, data=data, seed=first), "method")
    return {method: setting(min(group, key=_val_nll)) for method, group in tried.items()}


def setting(record: Record) -> str:
    """All of the configuration but the data, as one string."""
    config = {k: v for k, v in record["config"].items() if k not in ("data", "ood")}
    return json.dumps(config, sort_keys=True)


def select(records: Sequence[Record], data: str, picked: dict[str, str]) -> list[Record]:
    """The records of a data set at the chosen settings, methods in one order, seeds together."""
    rows = [r for r in where(records, data=data) if setting(r) == picked.get(r["config"]["method"])]
    return sorted(rows, key=lambda r: list(picked).index(r["config"]["method"]))


def where(records: Iterable[Record], **wanted) -> list[Record]:
    """Records whose seed and configuration have these values."""
    return [
        r
        for r in records
        if all({**r["config"], "seed": r["seed"]}[k] == wanted[k] for k in wanted)
    ]


def grid(records: Sequence[Record], picked: dict[str, str]) -> str:
    """What was tried of each method that has more than one setting."""
    tried = {method: where(records, method=method) for method in picked}
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
    for method, group in group_by(records, "method").items():
        cells = [
            mean_and_error([r["metrics"][name] for r in group], digits)
            for name, digits in (("nll", 4), ("accuracy_percent", 2), ("ece", 4))
        ]
        rows.append([method, _what(group[0]), str(len(group)), *cells])
    return markdown.table(["method", "setting", "seeds", "NLL (nats)", "accuracy (%)", "ECE"], rows)


def detections(records: Sequence[Record], other: str, score: str) -> str:
    """The five measures of each method for one set of other images and one score."""
    return by_method(records, {f"{other}/{score}/{k}": title for k, title in MEASURES.items()})


def by_method(records: Sequence[Record], metrics: dict[str, str]) -> str:
    """Mean and error of metrics, ``{name: title}``, for each method."""
    rows = [
        [method, *(mean_and_error([r["metrics"][name] for r in group], 3) for name in metrics)]
        for method, group in group_by(records, "method").items()
    ]
    return markdown.table(["method", *metrics.values()], rows)


def low_entropy_share(records: Sequence[Record]) -> str:
    """Percentage of images of each set with less than a fifth of the largest possible entropy."""
    names, rows = list(records[0]["arrays"]), []
    for method, group in group_by(records, "method").items():
        shares = [[_share_below(r["arrays"][name]) for r in group] for name in names]
        rows.append([method, *(mean_and_error(values, 1) for values in shares)])
    return markdown.table(["method", *(name.removeprefix("entropy/") for name in names)], rows)


def compare(records: Sequence[Record], method: str, rivals: Sequence[str]) -> list[list[str]]:
    """For each measure a row: which method is best, and whether ``method`` beats each rival."""
    groups = group_by(records, "method")
    measures = {"NLL": ("nll", -1), "accuracy": ("accuracy_percent", 1), "ECE": ("ece", -1)}
    measures |= {
        f"AUROC, {other}": (f"{other}/max softmax/auroc", 1)
        for other in records[0]["config"]["ood"]
    }
    lines = []
    for title, (name, sign) in measures.items():
        score = {m: sign * mean(r["metrics"][name] for r in rows) for m, rows in groups.items()}
        cells = [f"{records[0]['config']['data']}: {title}", max(score, key=score.get)]
        lines.append([*cells, *(_compared(score[method], score[rival]) for rival in rivals)])
    return lines


def _compared(mine: float, other: float) -> str:
    return "equal" if mine == other else "better" if mine > other else "worse"


def _share_below(histogram: Sequence[int]) -> float:
    return 100 * sum(histogram[: len(histogram) // 5]) / sum(histogram)


def _val_nll(record: Record) -> float:
    return record["metrics"]["val_nll"]


def _what(record: Record) -> str:
    config = record["config"]
    return ", ".join(f"{text} {config[key]:g}" for key, text in _TRIED.items() if key in config)
