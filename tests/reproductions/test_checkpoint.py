import os
from functools import partial

import pytest
import torch
from torch.nn.functional import cross_entropy

from bdl_lessons.inference import adam, fit, sgd
from bdl_lessons.models import SparseVD, initialise, mlp
from reproductions import Trial, checkpoint
from reproductions.checkpoint import Checkpoint, seconds_before

ADAM = adam(0.01)
SGD = sgd(0.1)


def decay(step):
    return 1 / (1 + 0.1 * step)


class Stopped(Exception):
    pass


@pytest.fixture(autouse=True)
def every_epoch(monkeypatch):
    monkeypatch.setattr(checkpoint, "SECONDS_BETWEEN_WRITES", 0.0)
    monkeypatch.setattr(os, "fsync", lambda file: None)  # a busy disk takes seconds


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.checkpoint"


def train(
    path,
    stop_at=None,
    n_steps=12,
    width=7,
    optimizer=ADAM,
    schedule=decay,
    seed=2,
    scale=1.0,
    **tau,
):
    """Losses, weights and the next random number of a run of epochs of three steps."""
    data = torch.Generator().manual_seed(1)
    x = scale * torch.randn(30, 4, generator=data)
    y = torch.randint(3, (30,), generator=data)
    generator = torch.Generator().manual_seed(seed)
    model = initialise(mlp((4, width, 3), partial(SparseVD, threshold=3.0)), generator)
    keep = Checkpoint(Trial({"tau": 1.0, **tau}, seed, path), model, generator, x, y)

    def callback(run):
        keep(run)
        if run.done == stop_at:
            raise Stopped

    losses = fit(
        model,
        x,
        y,
        cross_entropy,
        n_steps=n_steps,
        optimizer=optimizer,
        schedule=schedule,
        batch_size=10,
        generator=generator,
        kl_weight=lambda step: step / 12,
        callback=callback,
    )
    return losses, *model.parameters(), torch.rand(1, generator=generator)


@pytest.mark.parametrize(
    ("stop_at", "optimizer", "schedule"), [(4, ADAM, decay), (6, SGD, None), (11, ADAM, None)]
)
def test_a_stopped_run_ends_where_it_would_have_ended(path, stop_at, optimizer, schedule):
    with pytest.raises(Stopped):
        train(path, stop_at, optimizer=optimizer, schedule=schedule)
    assert checkpoint.read(path)["done"] == stop_at // 3 * 3  # only whole epochs are kept
    in_parts = train(path, optimizer=optimizer, schedule=schedule)
    in_one_piece = train(None, optimizer=optimizer, schedule=schedule)
    for actual, expected in zip(in_parts, in_one_piece, strict=True):
        torch.testing.assert_close(actual, expected)


def test_writes_are_a_pause_apart_but_for_the_last(path, monkeypatch):
    monkeypatch.setattr(checkpoint, "SECONDS_BETWEEN_WRITES", 1000.0)
    with pytest.raises(Stopped):
        train(path, stop_at=11)
    assert not path.exists()
    first = train(path)
    assert checkpoint.read(path)["done"] == 12
    torch.testing.assert_close(train(path, stop_at=0)[:-1], first[:-1])  # it is not run again


OTHERS = {"n_steps": 15, "width": 8, "optimizer": SGD, "seed": 5, "scale": 1.1, "tau": 2.0}


@pytest.mark.parametrize("other", OTHERS)
def test_the_checkpoint_of_another_run_is_refused(path, other):
    train(path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="of another run: delete it"):
        train(path, **{other: OTHERS[other]})
    assert path.read_bytes() == before


def test_a_diverged_state_is_not_kept(path):
    with pytest.raises(FloatingPointError):
        train(path, optimizer=sgd(1e38))
    assert not path.exists()


def test_a_damaged_file_is_named_and_left_as_it_is(path):
    assert seconds_before(None) == seconds_before(path) == 0.0
    train(path)
    assert seconds_before(path) > 0.0
    damaged = path.read_bytes()[:-500]
    path.write_bytes(damaged)
    for use in (train, seconds_before):
        with pytest.raises(ValueError, match=r"run\.checkpoint is damaged .*: delete it"):
            use(path)
    assert path.read_bytes() == damaged
