"""Every experiment from the command line at its smallest."""

import math
from functools import partial

import pytest
from typer.testing import CliRunner

import reproductions
from reproductions.__main__ import app
from reproductions.records import read_records, trial_key

from .contracts import pictures, yachts

command = CliRunner().invoke


@pytest.fixture
def few_images(monkeypatch):
    """The shape of the image sets without their files: noise, with every label among them."""
    shapes = dict.fromkeys(("mnist", "fashion-mnist", "notmnist-small"), (1, 28, 28))
    shapes["cifar10-subset"] = (3, 32, 32)

    monkeypatch.setattr(
        "reproductions.datasets.load",
        lambda name, n_train=0, n_test=0: pictures(False, shapes[name], name, n_train or 0, n_test),
    )


@pytest.fixture
def few_yachts(monkeypatch):
    monkeypatch.setattr("reproductions.datasets.uci", partial(yachts, False))


@pytest.mark.parametrize("name", reproductions.PLACES)
def test_an_experiment_runs_and_is_reported(name, tmp_path, few_images, few_yachts):
    arguments = ["run", name, "--scale", "quick", "--folder", str(tmp_path)]
    first = command(app, arguments)
    assert first.exit_code == 0, first.output
    n_trials = len(reproductions.load(name).trials("quick"))
    assert f"{name}: {n_trials} trials recorded, 0 were there before, 0 failed" in first.output
    again = command(app, arguments)
    assert f"{name}: 0 trials recorded, {n_trials} were there before" in again.output
    for record in read_records(tmp_path / "quick" / f"{name}.jsonl"):
        assert all(math.isfinite(value) for value in record["metrics"].values())
    reported = command(app, ["report", "--scale", "quick", "--folder", str(tmp_path)])
    assert reported.exit_code == 0, reported.output
    assert f"{name}.png" in reported.output
    page = (tmp_path / "quick" / "README.md").read_text(encoding="utf-8")
    assert reproductions.load(name).title in page


@pytest.mark.parametrize("name", reproductions.PLACES)
def test_trials_of_a_scale_are_different_trials(name):
    for scale in reproductions.SCALES:
        trials = reproductions.load(name).trials(scale)
        assert len({trial_key(trial.config, trial.seed) for trial in trials}) == len(trials)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "nothing"], "name must be one of ('active"),
        (["run", "co2_mc_dropout", "--scale", "huge"], "scale must be one of ('quick', 'paper')"),
        (["run", "co2_mc_dropout", "--jobs", "0"], "jobs must be >= 1, got 0"),
        (["report"], "there is no folder"),
    ],
)
def test_what_does_not_exist_is_refused(arguments, message, tmp_path):
    result = command(app, [*arguments, "--folder", str(tmp_path / "new")])
    assert result.exit_code == 2
    assert message in " ".join(result.output.replace("│", " ").split())
    assert not (tmp_path / "new").exists()
