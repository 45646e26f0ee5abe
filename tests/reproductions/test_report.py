import re

import pytest
import torch

import reproductions
from bdl_lessons.datasets.records import RESULTS_FOLDER
from reproductions import report, runner
from reproductions.experiment import Claim, Trial, TrialResult
from reproductions.records import append_record, make_record, read_records, trial_key

from . import toy


@pytest.fixture
def toys(monkeypatch):
    monkeypatch.setattr(reproductions, "PLACES", {"toy": "toy:EXPERIMENT"})
    monkeypatch.setattr(reproductions, "load", lambda name: toy.make())


def test_the_committed_page_is_what_the_records_give():
    page = RESULTS_FOLDER / "README.md"
    assert page.read_text(encoding="utf-8") == report.text(), (
        "data/results/README.md is out of date: run `python -m reproductions report`"
    )


@pytest.mark.parametrize("name", reproductions.PLACES)
def test_every_committed_record_is_of_a_trial_of_today_and_has_its_figure(name):
    """Names inside a configuration ("cut_at", "warm_up_epochs", "MAP") are part of its key."""
    keys = [trial_key(t.config, t.seed) for t in reproductions.load(name).trials("paper")]
    recorded = [record["key"] for record in read_records(RESULTS_FOLDER / f"{name}.jsonl")]
    assert not recorded or (RESULTS_FOLDER / f"{name}.png").stat().st_size > 1000
    assert recorded == [key for key in keys if key in recorded], (
        "not the trials of today in their order: run `python -m reproductions report`"
    )


@pytest.mark.parametrize("name", reproductions.PLACES)
def test_a_run_that_has_only_begun_can_be_reported(name):
    experiment = reproductions.load(name)
    records = report.recorded(experiment, "paper", RESULTS_FOLDER)
    for n in (1, 2):
        assert experiment.table(records[:n])
        experiment.claims(records[:n])


def test_the_page_tells_what_is_recorded_and_how_to_run_the_rest(toys, tmp_path):
    empty = report.text(folder=tmp_path)
    assert "0 of 4 trials are recorded" in empty
    assert "`python -m reproductions run toy`. The same command runs the others." in empty
    runner.reproduce(toy.make(), "quick", folder=tmp_path)
    text = report.text("quick", tmp_path)
    assert "2 of 2 trials are recorded" in text
    assert "runs the others" not in text
    assert "| 1 | 1.0 |" in text
    assert "run toy --scale quick" in text
    assert "Of 1 statements: 0 reproduced, 1 in part, 0 not reproduced, 0 not run." in text
    assert "| **in part** (2 of 4) | [Squares grow](#toy) |" in text
    assert text.index("[Squares grow](#toy)") < text.index("## ")
    assert "| Squares grow | always | 2 of them | **in part** (2 of 4) | toys |" in text


def test_tables_are_folded_on_the_page_and_open_on_pages_of_their_own(toys, tmp_path):
    runner.reproduce(toy.make(), "quick", folder=tmp_path)
    text = report.text("quick", tmp_path)
    (folded,) = re.findall(r"<details>.*?</details>", text, re.S)
    assert "| 1 | 1.0 |" in folded
    assert "minutes a trial" in folded
    parts = report.pages(text)
    assert list(parts) == ["index", "toy"]
    assert "[Squares grow](toy.md)" in parts["index"]
    assert parts["toy"].startswith("# A toy") or parts["toy"].startswith("# ")
    assert "| 1 | 1.0 |" in parts["toy"]
    assert "<details>" not in parts["toy"]
    assert "toy.png" in parts["toy"]


def test_the_verdicts_come_before_everything_else_and_each_leads_to_its_experiment():
    head, *_ = report.text().split("\n## ")
    names = re.findall(r"^\| \*\*.*?\]\(#(\w+)\) \|$", head, re.M)
    assert len(names) >= 20
    assert set(names) <= set(reproductions.PLACES)
    parts = report.pages((RESULTS_FOLDER / "README.md").read_text(encoding="utf-8"))
    assert list(parts) == ["index", *reproductions.PLACES]


def test_the_order_of_the_file_does_not_matter(toys, tmp_path):
    runner.reproduce(toy.make(), folder=tmp_path)
    text = report.text(folder=tmp_path)
    path = tmp_path / "toy.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(reversed(lines)))
    assert report.text(folder=tmp_path) == text
    report.write(folder=tmp_path)
    assert path.read_bytes() == b"".join(lines)


def test_records_of_other_settings_are_left_out(toys, tmp_path):
    trial = Trial({"n": 77}, seed=0)
    result = TrialResult({"square": 1.0})
    old = make_record("toy", "paper", trial, result, seconds=0, on=torch.device("cpu"))
    append_record(tmp_path / "toy.jsonl", old)
    assert "0 of 4 trials" in report.text(folder=tmp_path)
    runner.reproduce(toy.make(), folder=tmp_path)
    report.write(folder=tmp_path)
    records = read_records(tmp_path / "toy.jsonl")
    assert len(records) == 5
    assert records[-1]["key"] == old["key"], "the record of older settings goes last, and stays"


def test_one_rule_says_what_is_reproduced():
    verdicts = [Claim("", "", "", holds, 4, "").verdict for holds in range(5)]
    assert verdicts == ["not reproduced", "not reproduced", "in part", "in part", "reproduced"]
    assert Claim("", "", "", 0, 0, "").verdict == "not run"
