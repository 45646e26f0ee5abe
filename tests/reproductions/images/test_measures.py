import math
from dataclasses import replace

import pytest
import torch

from bdl_lessons import datasets
from reproductions.experiment import Trial
from reproductions.images import measures
from reproductions.images.stopping import Stopping
from reproductions.images.training import Trained

CONFIG = {"data": "known", "ood": ["other"], "n_val": 10, "n_samples": 1, "n_val_samples": 1}


@pytest.fixture
def oracle(monkeypatch):
    """A network that reads the class off the pixels: confident on known images, not on others."""

    def images(y, size=28):
        return (y / 10)[:, None, None, None].expand(-1, 1, size, size) + 0.01 * torch.rand(
            1, 1, size, size
        )

    def load(name, n_train=50, n_test=30):
        y, y_test = torch.arange(n_train) % 10, torch.arange(n_test) % 10
        x_test = images(y_test) if name == "known" else torch.full((n_test, 1, 32, 32), 0.449)
        return datasets.Classification(name, images(y), y, x_test, y_test, tuple("0123456789"))

    def train(config, x, y, held_out, n_classes, generator):
        seen["rows"], seen["std"] = len(x), x.std().item()
        seen["mean"] = x.mean().item() + held_out[0].mean().item()
        seen["held_out"] = [len(part) for part in held_out]
        mean, std = images(torch.arange(50) % 10).mean(), images(torch.arange(50) % 10).std()

        def logits(rows, n_samples):
            value = (rows * std + mean).mean((1, 2, 3))
            classes = torch.arange(10, device=rows.device)
            return (-300 * (value[:, None] - 0.005 - classes / 10).square())[None]

        return Trained(logits, [Stopping([0.5, 0.3, 0.4], True), Stopping([0.2], False)])

    seen = {}
    monkeypatch.setattr(datasets, "load", load)
    monkeypatch.setattr(measures, "train", train)
    return seen


def test_metrics_of_a_network_that_knows_what_it_knows(oracle):
    measured = measures.measure_network(Trial(CONFIG, seed=0))
    assert oracle["rows"] == 40  # the last 10 are for validation
    assert oracle["held_out"] == [10, 10]
    assert oracle["std"] == pytest.approx(1, abs=0.02)
    assert measured.metrics["accuracy_percent"] == 100
    for score in ("max softmax", "entropy"):
        assert measured.metrics[f"other/{score}/auroc"] == 1
        assert measured.metrics[f"other/{score}/fpr_at_95_tpr"] == 0
    assert sum(measured.arrays["entropy/known"]) == 30
    assert sum(measured.arrays["entropy/known"][:10]) == 30
    assert sum(measured.arrays["entropy/other"][:5]) == 0
    assert sum(measured.arrays["entropy/other"]) == 30


def test_the_end_of_the_training_is_recorded(oracle):
    measured = measures.measure_network(Trial(CONFIG, seed=0))
    assert measured.arrays["val_nll"] == [[0.5, 0.3, 0.4], [0.2]]
    expected = {"epochs": 2.0, "best_epoch": 1.5, "no_better": 0.5}  # means over two networks
    assert {name: measured.metrics[name] for name in expected} == pytest.approx(expected)


def test_no_test_image_takes_part_in_training_or_in_a_choice(oracle, monkeypatch):
    """Other test images and labels: training set, held-out images and ``val_nll`` stay the same."""
    load, found = datasets.load, []

    def reversed_tests(name, **sizes):
        data = load(name, **sizes)
        return replace(data, x_test=1 - data.x_test, y_test=(data.y_test + 3) % 10)

    for source in (load, reversed_tests):
        torch.manual_seed(0)
        monkeypatch.setattr(datasets, "load", source)
        measured = measures.measure_network(Trial(CONFIG, seed=0))
        used = [oracle["mean"], oracle["std"], measured.metrics["val_nll"]]
        found.append((used, measured.metrics["nll"]))
    assert found[0][0] == pytest.approx(found[1][0])
    assert abs(found[0][1] - found[1][1]) > 1


def test_entropy_bins_hold_their_rows():
    log_probs = torch.tensor([[0.0] + [-math.inf] * 9, [-math.log(10)] * 10]).double()
    counts = measures._histogram(log_probs)
    assert (counts[0], counts[-1], sum(counts)) == (1, 1, 2)
    edges = measures.entropy_bins(10)
    assert len(edges) == measures.N_BINS + 1
    assert edges[-1] == pytest.approx(math.log(10))
