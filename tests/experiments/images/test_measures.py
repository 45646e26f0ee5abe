import math

import pytest
import torch

from bdl_lessons import datasets
from bdl_lessons.experiments.experiment import Trial
from bdl_lessons.experiments.images import measures

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

    def train(config, x, y, n_classes, generator):
        seen["rows"], seen["std"] = len(x), x.std().item()
        mean, std = images(torch.arange(50) % 10).mean(), images(torch.arange(50) % 10).std()

        def logits(rows, n_samples):
            value = (rows * std + mean).mean((1, 2, 3))
            classes = torch.arange(10, device=rows.device)
            return (-300 * (value[:, None] - 0.005 - classes / 10).square())[None]

        return logits

    seen = {}
    monkeypatch.setattr(datasets, "load", load)
    monkeypatch.setattr(measures, "train", train)
    return seen


def test_metrics_of_a_network_that_knows_what_it_knows(oracle):
    measured = measures.measure_network(Trial(CONFIG, seed=0))
    assert oracle["rows"] == 40  # the last 10 are for validation
    assert oracle["std"] == pytest.approx(1, abs=0.02)
    assert measured.metrics["accuracy_percent"] == 100
    for score in ("max softmax", "entropy"):
        assert measured.metrics[f"other/{score}/auroc"] == 1
        assert measured.metrics[f"other/{score}/fpr_at_95_tpr"] == 0
    assert sum(measured.arrays["entropy/known"]) == 30
    assert sum(measured.arrays["entropy/known"][:10]) == 30
    assert sum(measured.arrays["entropy/other"][:5]) == 0
    assert sum(measured.arrays["entropy/other"]) == 30


def test_entropy_bins_hold_their_rows():
    log_probs = torch.tensor([[0.0] + [-math.inf] * 9, [-math.log(10)] * 10]).double()
    counts = measures._histogram(log_probs)
    assert (counts[0], counts[-1], sum(counts)) == (1, 1, 2)
    edges = measures.entropy_bins(10)
    assert len(edges) == measures.N_BINS + 1
    assert edges[-1] == pytest.approx(math.log(10))
