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
    if trial.config["n"] in (1, 3):
        raise FloatingPointError("the loss became nan at step 3")
    return TrialResult({"error": math.nan}) if trial.config["n"] == 2 else run(trial)


def die_at_1(trial):
    return os._exit(9) if trial.config["n"] == 1 else run(trial)


def table(records):
    return "\n".join(f"| {r['config']['n']} | {r['metrics']['square']} |" for r in records)


def figure(records):
    return Figure()


def claims(records):
    return [Claim("Squares grow", "always", f"{len(records)} of them", 2, 4, "toys")]


def make(run=run, trials=trials):
    return Experiment("toy", "A toy", trials, run, table, figure, claims)


def train_slowly(trial):
    """Says when it has begun and waits until a file allows it to go on; draws by its seed."""
    folder = Path(trial.config["folder"])
    n = trial.config["n"]
    (folder / f"began-{n}").touch()
    while n >= 2 and not (folder / "go-on").exists():
        time.sleep(0.01)
    draws = torch.randn(5, generator=torch.Generator().manual_seed(n))
    return TrialResult({"norm": draws.norm().item()}, {"draws": draws.tolist()})


def fit_and_stop(trial, stop_at=None):
    """Trains a line with a checkpoint; ``stop_at`` is the step at which the process "dies"."""
    generator = torch.Generator().manual_seed(trial.seed)
    x = torch.randn(20, 3, generator=generator)
    y = x.sum(1, keepdim=True)
    net = initialise(mlp((3, 1), partial(GaussianDropout, p_drop=0.2)), generator)

    def kl_weight(step):
        if step == stop_at:
            raise InterruptedError("stopped")
        return 0.0

    losses = fit(
        net,
        x,
        y,
        partial(gaussian_nll, tau=1.0),
        n_steps=30 + trial.config["n"],
        optimizer=adam(0.1),
        kl_weight=kl_weight,
        generator=generator,
        callback=Checkpoint(trial, net, generator, x, y),
    )
    return TrialResult({"loss": losses[-1].item()}, {"losses": losses.tolist()})
