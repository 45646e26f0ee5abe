"""Render the records: one Markdown page for all experiments, one figure for each."""

import json
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

What papers on dropout and Bayesian networks say, measured again. A statement is taken apart into
cases, such as a width or a data set; it is *reproduced* where it holds in all of them, *in part*
where it holds in half or more. Below, each table and figure stands with its set-up. MAP has no
noise, MCD is MC dropout, D.E a deep ensemble, VD (A: on units) and VSD variational dropout without
and with structure, by T reflections, BBB Bayes by backprop, LRT local reparameterization.

{summary}

Written by `python -m reproductions report` from the records in this folder. Do not edit: a test
compares this page with the records. Each line of a `.jsonl` file is one trial with its
configuration, seed, metrics, wall time, device and versions.
"""
_VERDICTS = ("reproduced", "in part", "not reproduced", "not run")


def text(scale: str = "paper", folder: Path = RESULTS_FOLDER) -> str:
    """The page as the records give it; ValueError as of ``read_records`` or for no such scale."""
    experiments = map(reproductions.load, reproductions.PLACES)
    found = [(experiment, recorded(experiment, scale, folder)) for experiment in experiments]
    claims = [(e.title, claim) for e, records in found if records for claim in e.claims(records)]
    sections = [_section(experiment, scale, records) for experiment, records in found]
    return "\n".join([_HEAD.format(summary=_summary(claims)), *sections])


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
        if records := recorded(experiment, scale, folder):
            _sort_lines(experiment, scale, folder)
            written.append(page.with_name(f"{experiment.name}.png"))
            with style():
                experiment.figure(records).savefig(written[-1], metadata={"Software": None})
    return written


def recorded(experiment: Experiment, scale: str, folder: Path) -> list[Record]:
    """Records of the trials as they are defined now, in order; older settings are left out."""
    found = {r["key"]: r for r in read_records(records_path(experiment.name, scale, folder))}
    keys = [trial_key(trial.config, trial.seed) for trial in experiment.trials(scale)]
    return [found[key] for key in keys if key in found]


def _summary(claims: Sequence[tuple[str, Claim]]) -> str:
    """Every published statement with its place and our verdict; how many there are of each."""
    counts = Counter(claim.verdict for _, claim in claims)
    said = ", ".join(f"{counts[verdict]} {verdict}" for verdict in _VERDICTS)
    rows = [
        {**vars(claim), "verdict": claim.verdict, "place": title.rpartition("(")[2].rstrip(")")}
        for title, claim in sorted(claims, key=lambda one: _VERDICTS.index(one[1].verdict))
    ]
    columns = {"published statement": "{statement} ({place})", "published": "{published}"}
    columns |= {"ours": "{ours}", "verdict": "**{verdict}** ({holds} of {of})"}
    columns["condition"] = "{condition}"
    return f"Of {len(claims)} statements: {said}.\n\n{markdown.table_of(rows, columns)}"


def _sort_lines(experiment: Experiment, scale: str, folder: Path) -> None:
    """Put a file of records into the order of its trials; records of older settings go last."""
    path = records_path(experiment.name, scale, folder)
    with FileLock(path.with_suffix(".lock")):
        now = recorded(experiment, scale, folder)
        keys = {record["key"] for record in now}
        older = [record for record in read_records(path) if record["key"] not in keys]
        with replacing(path) as file:
            file.writelines(json.dumps(record).encode() + b"\n" for record in now + older)


def _section(experiment: Experiment, scale: str, records: list[Record]) -> str:
    n_trials = len(experiment.trials(scale))
    option = "" if scale == "paper" else f" --scale {scale}"
    command = f"`python -m reproductions run {experiment.name}{option}`"
    missing = " The same command runs the others." if len(records) < n_trials else ""
    parts = [
        f"## {experiment.title}",
        f"{len(records)} of {n_trials} trials are recorded, by {command}.{missing}",
    ]
    if records:
        devices = sorted({f"{r['device']}, {r['threads']} thread(s)" for r in records})
        torches = sorted({r["versions"]["torch"] for r in records})
        minutes = [r["seconds"] / 60 for r in records]
        parts += [
            f"![{experiment.title}]({experiment.name}.png)",
            experiment.table(records),
            f"Run on {'; '.join(devices)}; torch {', '.join(torches)}; {min(minutes):.1f} to "
            f"{max(minutes):.1f} minutes a trial, other work on the machine included.",
        ]
    return "\n\n".join(parts) + "\n"
