"""A small experiment whose trials a test can slow down or break from outside."""

import math
import os
import time
from functools import partial
from pathlib import Path

import torch
from matplotlib.figure import Figure

from bdl_lessons.inference import adam, fit
from bdl_lessons.models import GaussianDropout, initialise, mlp
from bdl_lessons.probability import gaussian_nll
from reproductions import Claim, Experiment, Trial, TrialResult
from reproductions.checkpoint import Checkpoint


def trials(scale, **config):
    return [Trial({"n": n, **config}, seed=0) for n in range(4 if scale == "paper" else 2)]


def run(trial):
    return TrialResult({"square": float(trial.config["n"] ** 2)}, {"curve": [0.0, 1.0]})


def run_with_failures(trial):
    if trial.config["n"] == 1:
        raise FloatingPointError("the loss became nan at step 3")
    if trial.config["n"] == 2:
        return TrialResult({"error": math.nan})
    return run(trial)


def without_data(trial):
    if trial.config["n"] == 1:
        raise ValueError("n must not be 1")
    raise FileNotFoundError("the file is not here")


def die_at_1(trial):
    if trial.config["n"] == 1:
        os._exit(9)
    return run(trial)


def exit_at_1(trial):
    if trial.config["n"] == 1:
        raise SystemExit(3)
    return run(trial)


def table(records):
    return "\n".join(f"| {r['config']['n']} | {r['metrics']['square']} |" for r in records)


def figure(records):
    return Figure()


def claims(records):
    return [Claim("Squares grow", "always", f"{len(records)} of them", 2, 4, "toys")]


def make(run=run, trials=trials):
    return Experiment("toy", "A toy", trials, run, table, figure, claims)


def train(trial):
    """A few milliseconds of arithmetic that depends on the configuration and the seed."""
    generator = torch.Generator().manual_seed(trial.seed)
    weight = torch.randn(50, 50, generator=generator) / 8
    state = torch.ones(50) * trial.config["n"]
    for _ in range(100):
        state = torch.tanh(weight @ state) + 0.1 * torch.randn(50, generator=generator)
    return TrialResult({"norm": state.norm().item()}, {"state": state.tolist()})


def train_slowly(trial):
    """Says when it has begun and waits until a file allows it to go on."""
    folder = Path(trial.config["folder"])
    measured = train(trial)
    (folder / f"began-{trial.config['n']}").touch()
    while trial.config["n"] >= 2 and not (folder / "go-on").exists():
        time.sleep(0.01)
    return measured


def fit_and_stop(trial, stop_at=None):
    """Trains a line with a checkpoint; ``stop_at`` is the step at which the process "dies"."""
    generator = torch.Generator().manual_seed(trial.seed)
    x = torch.randn(20, 3, generator=generator)
    net = initialise(mlp((3, 1), GaussianDropout(0.2, "A")), generator)

    def kl_weight(step):
        if step == stop_at:
            raise InterruptedError("stopped")
        return 0.0

    y = x.sum(1, keepdim=True)
    losses = fit(
        net,
        x,
        y,
        partial(gaussian_nll, tau=1.0),
        n_steps=30 + trial.config["n"],
        generator=generator,
        optimizer=adam(0.1),
        kl_weight=kl_weight,
        callback=Checkpoint(trial, net, generator, x, y),
    )
    return TrialResult({"loss": losses[-1].item()}, {"losses": losses.tolist()})
