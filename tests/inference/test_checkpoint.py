import os

import pytest
import torch
from torch.nn.functional import cross_entropy

from bdl_lessons.inference import adam, checkpoint, fit, inverse_decay, sgd
from bdl_lessons.inference.checkpoint import seconds_before
from bdl_lessons.models import SparseVD, initialise, mlp

N_TRAIN, BATCH_SIZE, N_STEPS = 30, 10, 12
ADAM, SGD = adam(0.01), sgd(0.1)


class Stopped(Exception):
    pass


@pytest.fixture(autouse=True)
def every_epoch(monkeypatch):
    monkeypatch.setattr(checkpoint, "SECONDS_BETWEEN_WRITES", 0.0)


def train(
    path,
    stop_at=None,
    n_steps=N_STEPS,
    width=7,
    optimizer=ADAM,
    schedule=True,
    kl=True,
    seed=2,
    n_train=N_TRAIN,
    sampling="per_example",
    activation=torch.nn.ReLU,
):
    """Losses, weights and the next random number of a run that may be stopped at a step."""
    data = torch.Generator().manual_seed(1)
    x = torch.randn(n_train, 4, generator=data)
    y = torch.randint(3, (n_train,), generator=data)
    generator = torch.Generator().manual_seed(seed)
    model = initialise(mlp((4, width, 3), SparseVD(), activation), generator)

    def kl_weight(step):
        if step == stop_at:
            raise Stopped
        return step / N_STEPS if kl else 0.0

    losses = fit(
        model,
        x,
        y,
        cross_entropy,
        n_steps=n_steps,
        generator=generator,
        optimizer=optimizer,
        batch_size=BATCH_SIZE,
        kl_weight=kl_weight if kl != "constant" else 0.5,
        sampling=sampling,
        schedule=inverse_decay(0.1, 1.0) if schedule else None,
        checkpoint=path,
    )
    return losses, *model.parameters(), torch.rand(1, generator=generator)


@pytest.mark.parametrize("optimizer", [ADAM, SGD], ids=["adam", "sgd"])
@pytest.mark.parametrize("schedule", [True, False])
@pytest.mark.parametrize("stop_at", [4, 6, 11])
def test_a_stopped_run_ends_where_it_would_have_ended(tmp_path, stop_at, schedule, optimizer):
    how = {"optimizer": optimizer, "schedule": schedule}
    path = tmp_path / "run.checkpoint"
    with pytest.raises(Stopped):
        train(path, stop_at, **how)
    assert path.exists()
    for found, expected in zip(train(path, **how), train(None, **how), strict=True):
        torch.testing.assert_close(found, expected)


def test_only_whole_epochs_are_kept(tmp_path):
    path = tmp_path / "run.checkpoint"
    with pytest.raises(Stopped):
        train(path, stop_at=2)
    assert not path.exists()
    with pytest.raises(Stopped):
        train(path, stop_at=5)
    assert checkpoint.read(path)["done"] == 3


def test_a_finished_run_is_not_run_again(tmp_path):
    path = tmp_path / "run.checkpoint"
    first = train(path)
    again = train(path, stop_at=0)
    torch.testing.assert_close(again[:-1], first[:-1])


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
        ({"n_steps": 15}, "n_steps 12, not 15"),
        ({"schedule": False}, "a schedule True, not False"),
        ({"width": 8}, r"shapes .*\[7, 4\].*, not .*\[8, 4\]"),
        ({"optimizer": SGD}, "optimizer Adam .*, not SGD"),
        ({"optimizer": adam(0.02)}, "'lr': 0.01.*'lr': 0.02"),
        ({"seed": 5}, "seed 2, not 5"),
        ({"n_train": 29}, "n_train 30, not 29"),
        ({"sampling": "shared"}, "sampling per_example, not shared"),
        ({"kl": "constant"}, "kl_weight a function, not 0.5"),
        ({"activation": torch.nn.Tanh}, r"layers .*ReLU\(\).*, not .*Tanh\(\)"),
    ],
)
def test_the_checkpoint_of_another_run_is_refused(tmp_path, other, message):
    path = tmp_path / "run.checkpoint"
    train(path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="(?s)" + message + ".*delete it"):
        train(path, **other)
    assert path.read_bytes() == before


def test_a_damaged_file_is_named_and_left_as_it_is(tmp_path):
    path = tmp_path / "run.checkpoint"
    train(path)
    whole = path.read_bytes()
    flips = torch.randint(8 * len(whole), (100,), generator=torch.Generator().manual_seed(0))
    damaged = [b"", b"no checkpoint", whole[:20], whole[:-500], whole[32:], whole + b"0"]
    for bit in flips.tolist():
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        damaged.append(bytes(flipped))
    for content in damaged:
        path.write_bytes(content)
        for use in (train, seconds_before):
            with pytest.raises(ValueError, match=r"run\.checkpoint is damaged .*: delete it"):
                use(path)
        assert path.read_bytes() == content


def full_disk(*args):
    raise OSError("no space left on device")


def test_training_goes_on_when_the_disk_is_full(tmp_path, monkeypatch):
    path = tmp_path / "run.checkpoint"
    with pytest.raises(Stopped):
        train(path, stop_at=4)
    before = path.read_bytes()
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full_disk)
        with pytest.warns(UserWarning, match=r"run\.checkpoint was not written \(no space left"):
            losses = train(path)[0]
    torch.testing.assert_close(losses, train(None)[0])
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_diverged_state_is_not_kept(tmp_path):
    path = tmp_path / "run.checkpoint"
    with pytest.raises(FloatingPointError):
        train(path, optimizer=sgd(1e38), kl=False)
    assert not path.exists()


def test_the_time_before_the_stop_counts(tmp_path):
    path = tmp_path / "run.checkpoint"
    assert seconds_before(None) == seconds_before(path) == 0.0
    with pytest.raises(Stopped):
        train(path, stop_at=4)
    assert 0 < seconds_before(path) < 60
    checkpoint.write(path, checkpoint.read(path) | {"seconds": 5000.0})
    train(path)
    assert 5000 < seconds_before(path) < 5060


@pytest.mark.parametrize("content", [{"model": {}}, torch.zeros(3)], ids=["state", "tensor"])
def test_a_file_of_something_else_is_not_written_over(tmp_path, content):
    path = tmp_path / "weights.pt"
    torch.save(content, path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"weights\.pt is damaged or no checkpoint"):
        train(path)
    assert path.read_bytes() == before


def test_a_path_may_be_text_and_its_folder_new(tmp_path):
    train(str(tmp_path / "new" / "run.checkpoint"))
    assert (tmp_path / "new" / "run.checkpoint").exists()
