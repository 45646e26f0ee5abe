"""Every experiment from the command line at its smallest."""

import math

import pytest
import torch
from typer.testing import CliRunner

import reproductions
from bdl_lessons import datasets
from reproductions.__main__ import app
from reproductions.records import read_records, trial_key

command = CliRunner().invoke


@pytest.fixture
def few_images(monkeypatch):
    """The shape of the image sets without their files: noise, with every label among them."""
    shapes = dict.fromkeys(("mnist", "fashion-mnist", "notmnist-small"), (1, 28, 28))
    shapes["cifar10-subset"] = (3, 32, 32)

    def load(name, n_train=0, n_test=0):
        generator = torch.Generator().manual_seed(0)
        x = torch.rand(n_train + n_test, *shapes[name], generator=generator)
        y = torch.arange(n_train + n_test) % 10
        classes = tuple("0123456789")
        return datasets.Classification(
            name, x[:n_train], y[:n_train], x[n_train:], y[n_train:], classes
        )

    monkeypatch.setattr("reproductions.datasets.load", load)


@pytest.fixture
def few_yachts(monkeypatch):
    """A regression set without its file: noise around a straight line."""
    x = torch.randn(60, 6, generator=torch.Generator().manual_seed(0)).double()
    data = datasets.Regression("yacht", x, x.sum(1).sin() + x[:, 0], ("",) * 6, "", "")
    monkeypatch.setattr("reproductions.uci.experiment.uci", lambda name: data)


@pytest.mark.parametrize("name", reproductions.names())
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


@pytest.mark.parametrize("name", reproductions.names())
def test_trials_of_a_scale_are_different_trials(name):
    for scale in reproductions.SCALES:
        trials = reproductions.load(name).trials(scale)
        assert len({trial_key(trial.config, trial.seed) for trial in trials}) == len(trials)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "nothing"], "no experiment has the name 'nothing'; there are"),
        (["run", "co2_mc_dropout", "--scale", "huge"], "scale must be one of quick, paper"),
        (["run", "co2_mc_dropout", "--jobs", "0"], "jobs must be >= 1, got 0"),
        (["report"], "there is no folder"),
        (["report", "--scale", "quick"], "there is no folder"),
        (["report", "--scale", "huge"], "scale must be one of quick, paper"),
    ],
)
def test_what_does_not_exist_is_refused(arguments, message, tmp_path):
    result = command(app, [*arguments, "--folder", str(tmp_path / "new")])
    assert result.exit_code == 2
    assert message in " ".join(result.output.replace("│", " ").split())
    assert not (tmp_path / "new").exists()
