"""Render the records: one Markdown page for all experiments, one figure for each."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from filelock import FileLock

import reproductions
from bdl_lessons.core.plot_style import style
from bdl_lessons.datasets.records import RESULTS_FOLDER, Record
from reproductions import markdown
from reproductions.experiment import Claim, Experiment
from reproductions.files import replacing
from reproductions.records import read_records, records_path, trial_key

_HEAD = """# Recorded experiments

What papers on dropout and Bayesian networks say, measured again. {summary}

## How to read this

A statement is taken apart into cases, such as a width or a data set; it is *reproduced* where it
holds in all of them, *in part* where it holds in half or more. It leads to its experiment, where
what is published stands beside ours, with the condition, the figure, the tables and the set-up. MAP
has no noise, MCD is MC dropout, D.E a deep ensemble, VD (A: on units) and VSD variational dropout
without and with structure, by T reflections, BBB Bayes by backprop, LRT local reparameterization.

Written by `python -m reproductions report` from the records in this folder. Do not edit: a test
compares this page with the records. Each line of a `.jsonl` file is one trial with its
configuration, seed, metrics, wall time, device and versions.
"""
FOLD_BEGINS = "<details>\n<summary>Tables and set-up</summary>\n\n"
FOLD_ENDS = "\n\n</details>"
_VERDICTS = ("reproduced", "in part", "not reproduced", "not run")


def text(scale: str = "paper", folder: Path = RESULTS_FOLDER) -> str:
    """The page as the records give it; ValueError as of ``read_records`` or for no such scale."""
    claims = []
    sections = []
    for experiment in map(reproductions.load, reproductions.PLACES):
        records = recorded(experiment, scale, folder)
        its_claims = list(experiment.claims(records)) if records else []
        claims += [(experiment, claim) for claim in its_claims]
        sections.append(_section(experiment, scale, records, its_claims))
    head = _HEAD.format(summary=_summary(claims))
    return "\n".join([head, *sections])


def pages(text: str) -> dict[str, str]:
    """The page in parts, for a site: ``"index"``, and one page for each experiment by its name.

    There nothing is folded, and the statements of the index lead to the other pages.
    """
    index, *rest = re.split(r'<a id="(\w+)"></a>\n\n#(?=# )', text)
    parts = {"index": re.sub(r"\(#(\w+)\)", r"(\1.md)", index)}
    for name, section in zip(rest[::2], rest[1::2], strict=True):
        unfolded = section.replace(FOLD_BEGINS, "").replace(FOLD_ENDS, "")
        parts[name] = unfolded.replace("\n###", "\n##")
    return parts


def write(scale: str = "paper", folder: Path = RESULTS_FOLDER) -> list[Path]:
    """Write the page and the figures beside the records; returns their paths.

    The lines of each file are put into the order of the trials, in which lessons show them. Raises
    ValueError if there is no such folder, OSError if nothing can be written to it.
    """
    page = records_path("README", scale, folder).with_suffix(".md")
    if not page.parent.is_dir():
        raise ValueError(f"there is no folder {page.parent}: nothing was recorded there")
    page.write_text(text(scale, folder), encoding="utf-8")
    written = [page]
    for experiment in map(reproductions.load, reproductions.PLACES):
        records = recorded(experiment, scale, folder)
        if not records:
            continue
        _sort_lines(experiment, scale, folder)
        picture = page.with_name(f"{experiment.name}.png")
        with style():
            experiment.figure(records).savefig(picture, metadata={"Software": None})
        written.append(picture)
    return written


def recorded(experiment: Experiment, scale: str, folder: Path) -> list[Record]:
    """Records of the trials as they are defined now, in order; older settings are left out."""
    path = records_path(experiment.name, scale, folder)
    by_key = {record["key"]: record for record in read_records(path)}
    keys = [trial_key(trial.config, trial.seed) for trial in experiment.trials(scale)]
    return [by_key[key] for key in keys if key in by_key]


def _summary(claims: Sequence[tuple[Experiment, Claim]]) -> str:
    """How many statements have each verdict, and each statement in a line, led by its verdict."""
    counts = Counter(claim.verdict for _, claim in claims)
    numbers = ", ".join(f"{counts[verdict]} {verdict}" for verdict in _VERDICTS)
    by_verdict = sorted(claims, key=lambda pair: _VERDICTS.index(pair[1].verdict))
    rows = []
    for experiment, claim in by_verdict:
        rows.append([_verdict(claim), f"[{claim.statement}](#{experiment.name})"])
    summary = f"Of {len(claims)} statements: {numbers}."
    return f"{summary}\n\n{markdown.table(['verdict', 'published statement'], rows)}"


def _verdict(claim: Claim) -> str:
    """The verdict, and in how many cases the statement holds; without cases the verdict alone."""
    cases = f" ({claim.holds} of {claim.of})" if claim.of else ""
    return f"**{claim.verdict}**{cases}"


def _claims_table(claims: Sequence[Claim]) -> str:
    """What is published beside ours."""
    rows = []
    for claim in claims:
        rows.append(
            [claim.statement, claim.published, claim.ours, _verdict(claim), claim.condition]
        )
    head = ["published statement", "published", "ours", "verdict", "condition"]
    return markdown.table(head, rows)


def _sort_lines(experiment: Experiment, scale: str, folder: Path) -> None:
    """Put a file of records into the order of its trials; records of older settings go last."""
    path = records_path(experiment.name, scale, folder)
    with FileLock(path.with_suffix(".lock")):
        current = recorded(experiment, scale, folder)
        current_keys = {record["key"] for record in current}
        older = [record for record in read_records(path) if record["key"] not in current_keys]
        with replacing(path) as file:
            for record in current + older:
                file.write(json.dumps(record).encode() + b"\n")


def _section(
    experiment: Experiment, scale: str, records: list[Record], claims: Sequence[Claim]
) -> str:
    """The title of an experiment, how to run it, its statements, and what its records show."""
    n_trials = len(experiment.trials(scale))
    option = "" if scale == "paper" else f" --scale {scale}"
    command = f"`python -m reproductions run {experiment.name}{option}`"
    missing = " The same command runs the others." if len(records) < n_trials else ""
    parts = [
        f'<a id="{experiment.name}"></a>',
        f"## {experiment.title}",
        f"{len(records)} of {n_trials} trials are recorded, by {command}.{missing}",
    ]
    if claims:
        parts.append(_claims_table(claims))
    if records:
        devices = {f"{record['device']}, {record['threads']} thread(s)" for record in records}
        torches = {record["versions"]["torch"] for record in records}
        minutes = [record["seconds"] / 60 for record in records]
        set_up = (
            f"Run on {'; '.join(sorted(devices))}; torch {', '.join(sorted(torches))}; "
            f"{min(minutes):.1f} to {max(minutes):.1f} minutes a trial, other work on the machine "
            "included."
        )
        parts += [
            f"![{experiment.title}]({experiment.name}.png)",
            f"{FOLD_BEGINS}{experiment.table(records)}\n\n{set_up}{FOLD_ENDS}",
        ]
    return "\n\n".join(parts) + "\n"
