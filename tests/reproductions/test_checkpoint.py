import os
from functools import partial

import pytest
import torch
from torch.nn.functional import cross_entropy, nll_loss

from bdl_lessons.inference import adam, fit, inverse_decay, sgd
from bdl_lessons.models import SparseVD, initialise, mlp
from reproductions import Trial, checkpoint
from reproductions.checkpoint import Checkpoint, seconds_before

N_TRAIN, BATCH_SIZE, N_STEPS = 30, 10, 12
ADAM, SGD, DECAY = adam(0.01), sgd(0.1), inverse_decay(0.1, 1.0)
SPARSE = SparseVD(threshold=3.0)


class Stopped(Exception):
    pass


@pytest.fixture(autouse=True)
def every_epoch(monkeypatch):
    monkeypatch.setattr(checkpoint, "SECONDS_BETWEEN_WRITES", 0.0)
    monkeypatch.setattr(os, "fsync", lambda file: None)  # a busy disk takes seconds


def train(
    path,
    stop_at=None,
    n_steps=N_STEPS,
    width=7,
    optimizer=ADAM,
    schedule=DECAY,
    kl=1,
    layers=SPARSE,
    seed=2,
    offset=0.0,
    flipped=False,
    labels=3,
    nll=cross_entropy,
    **config,
):
    """Losses, weights and the next random number of a run that may be stopped at a step."""
    data = torch.Generator().manual_seed(1)
    x = torch.randn(N_TRAIN, 4, generator=data) + offset
    y = torch.randint(labels, (N_TRAIN,), generator=data)
    if flipped:
        x = x.flip(0)
    generator = torch.Generator().manual_seed(seed)
    model = initialise(mlp((4, width, 3), layers), generator)
    keep = Checkpoint(Trial({"tau": 1.0, **config}, seed, path), model, generator, x, y)

    def callback(run):
        keep(run)
        if run.done == stop_at:
            raise Stopped

    losses = fit(
        model,
        x,
        y,
        nll,
        n_steps=n_steps,
        generator=generator,
        optimizer=optimizer,
        batch_size=BATCH_SIZE,
        kl_weight=lambda step: kl * step / N_STEPS,
        schedule=schedule,
        callback=callback,
    )
    return losses, *model.parameters(), torch.rand(1, generator=generator)


@pytest.mark.parametrize(
    ("stop_at", "optimizer", "schedule"),
    [(4, ADAM, DECAY), (6, SGD, DECAY), (11, ADAM, None), (4, SGD, None)],
)
def test_a_stopped_run_ends_where_it_would_have_ended(tmp_path, stop_at, optimizer, schedule):
    how = {"optimizer": optimizer, "schedule": schedule}
    path = tmp_path / "run.checkpoint"
    with pytest.raises(Stopped):
        train(path, stop_at, **how)
    assert path.exists()
    for found, expected in zip(train(path, **how), train(None, **how), strict=True):
        torch.testing.assert_close(found, expected)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    path = tmp_path_factory.mktemp("finished") / "run.checkpoint"
    train(path)
    return path


def test_only_whole_epochs_are_kept(tmp_path):
    path = tmp_path / "run.checkpoint"
    with pytest.raises(Stopped):
        train(path, stop_at=2)
    assert not path.exists()
    with pytest.raises(Stopped):
        train(path, stop_at=5)
    assert checkpoint.read(path)["done"] == 3


def test_writes_are_a_pause_apart_but_for_the_last(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "SECONDS_BETWEEN_WRITES", 1000.0)
    path = tmp_path / "run.checkpoint"
    with pytest.raises(Stopped):
        train(path, stop_at=11)
    assert not path.exists()
    train(path)
    assert checkpoint.read(path)["done"] == N_STEPS


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"nll": partial(cross_entropy, label_smoothing=0.1)}, "nll was .*, is .*smoothing"),
        ({"nll": nll_loss}, "nll was .*cross_entropy.*, is .*nll_loss"),
        ({"n_steps": 15}, "n_steps was 12, is 15"),
        ({"schedule": None}, "learning rates was "),
        ({"schedule": inverse_decay(0.1, 0.9)}, "learning rates was "),
        ({"width": 8}, r"layers was .*7.*, is .*8"),
        ({"optimizer": SGD}, "optimizer was Adam .*, is SGD"),
        ({"seed": 5}, "seed was 2, is 5"),
        ({"offset": 0.01}, "x was "),
        ({"flipped": True}, "x was "),
        ({"labels": 2}, "y was "),
        ({"tau": 2.0}, "tau was 1.0, is 2.0"),
        ({"kl_scale": 0.1}, "kl_scale was None, is 0.1"),
        ({"kl": 0.99}, "KL weights was "),
        ({"layers": SparseVD(threshold=2.0)}, "settings was .*threshold=3.0.*, is .*threshold=2.0"),
    ],
)
def test_the_checkpoint_of_another_run_is_refused(finished, other, message):
    before = finished.read_bytes()
    with pytest.raises(ValueError, match="(?s)" + message + ".*delete it"):
        train(finished, **other)
    assert finished.read_bytes() == before


def test_a_diverged_state_is_not_kept(tmp_path):
    path = tmp_path / "run.checkpoint"
    with pytest.raises(FloatingPointError):
        train(path, optimizer=sgd(1e38), kl=0)
    assert not path.exists()


def test_data_that_differ_in_their_last_bits_are_the_same(tmp_path):
    path = tmp_path / "run.checkpoint"
    with pytest.raises(Stopped):
        train(path, stop_at=4)
    torch.testing.assert_close(train(path, offset=1e-7)[0], train(None)[0], rtol=1e-4, atol=1e-4)


def test_a_damaged_file_is_named_and_left_as_it_is(finished, tmp_path):
    whole, path = finished.read_bytes(), tmp_path / "run.checkpoint"
    for content in (b"", whole[:-500], whole + b"0", whole[:100] + b"?" + whole[101:]):
        path.write_bytes(content)
        for use in (train, seconds_before):
            with pytest.raises(ValueError, match=r"run\.checkpoint is damaged .*: delete it"):
                use(path)
        assert path.read_bytes() == content


def test_a_finished_run_is_not_run_again_and_its_time_counts(tmp_path):
    path = tmp_path / "run.checkpoint"
    assert seconds_before(None) == seconds_before(path) == 0.0
    first = train(path)
    checkpoint.write(path, checkpoint.read(path) | {"seconds": 5000.0})
    torch.testing.assert_close(train(path, stop_at=0)[:-1], first[:-1])
    assert seconds_before(path) == 5000.0
