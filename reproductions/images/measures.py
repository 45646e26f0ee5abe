"""What is measured of a network for images. All at once: no table needs another training."""

from __future__ import annotations

import math
from statistics import mean

import torch
from torch import Tensor

from bdl_lessons.core import device
from bdl_lessons.core.devices import float64
from bdl_lessons.evaluation import (
    accuracy,
    ece,
    entropy,
    log_mean_probs,
    max_log_probability,
    negative_entropy,
    nll,
    ood_metrics,
)
from reproductions import datasets
from reproductions.experiment import Trial, TrialResult
from reproductions.images.training import Logits, train

SCORES = {"max softmax": max_log_probability, "entropy": negative_entropy}
N_BINS = 20


def measure_network(trial: Trial) -> TrialResult:
    """Train on the training set without its last ``n_val`` rows; measure on those and on tests.

    Metrics: ``val_nll``; ``nll`` of the averaged probabilities in nats, ``accuracy_percent`` and
    ``ece`` (15 bins) on the test set; ``<other set>/<score>/<measure>`` for how well the score
    tells the test set from another one; and where the training followed the validation NLL (means
    over the networks of an ensemble) ``epochs``, ``best_epoch`` and ``no_better``, 1 if it ended
    because that NLL was no better and 0 if the epochs ran out. Arrays: ``entropy/<set>``, how many
    images have a predictive entropy in each of ``N_BINS`` equal bins from 0 to log(classes);
    ``val_nll``, the validation NLL of each network after each epoch.
    """
    config, on = trial.config, device()
    data = datasets.load(config["data"], config.get("n_train"), config.get("n_test"))
    others = [datasets.load(name, n_test=config.get("n_test")) for name in config["ood"]]
    std, centre = torch.std_mean(data.x_train, (0, 2, 3), keepdim=True)

    def standardised(images: Tensor) -> Tensor:  # by each channel of the training set
        return ((images - centre) / std).to(on)

    x, y = standardised(data.x_train), data.y_train.to(on)
    n_fit, generator = len(x) - config["n_val"], torch.Generator(on).manual_seed(trial.seed)
    held_out = (x[n_fit:], y[n_fit:])
    logits, stops = train(config, x[:n_fit], y[:n_fit], held_out, len(data.classes), generator)

    val_log_probs = _log_probs(logits, held_out[0], config["n_val_samples"])
    log_probs = _log_probs(logits, standardised(data.x_test), config["n_samples"])
    y_test = data.y_test.to(log_probs.device)
    metrics = {
        "val_nll": nll(val_log_probs, held_out[1].to(val_log_probs.device)),
        "nll": nll(log_probs, y_test),
        "accuracy_percent": 100 * accuracy(log_probs.exp(), y_test),
        "ece": ece(log_probs.exp(), y_test),
    }
    arrays = {f"entropy/{data.name}": _histogram(log_probs)}
    if stops:
        curves = [stop.curve for stop in stops]
        arrays["val_nll"] = [[round(value, 5) for value in curve] for curve in curves]
        metrics |= {
            "epochs": mean(map(len, curves)),
            "best_epoch": mean(1 + curve.index(min(curve)) for curve in curves),
            "no_better": mean(float(stop.no_better) for stop in stops),
        }
    for other in others:
        of_other = _log_probs(logits, standardised(other.x_test), config["n_samples"])
        arrays[f"entropy/{other.name}"] = _histogram(of_other)
        for name, score in SCORES.items():
            found = ood_metrics(score(log_probs), score(of_other))._asdict()
            metrics |= {f"{other.name}/{name}/{measure}": v for measure, v in found.items()}
    return TrialResult(metrics, arrays)


def entropy_bins(n_classes: int) -> list[float]:
    """The edges of the bins of predictive entropy in nats, ``N_BINS + 1``."""
    return [math.log(n_classes) * i / N_BINS for i in range(N_BINS + 1)]


def _log_probs(logits: Logits, x: Tensor, n_samples: int) -> Tensor:
    """Log of the averaged probabilities, in float64: confident ones differ far behind the 1."""
    return log_mean_probs(float64(logits(x, n_samples)))


def _histogram(log_probs: Tensor) -> list[int]:
    edges = torch.tensor(entropy_bins(log_probs.shape[-1])[1:-1], dtype=torch.float64)
    index = torch.bucketize(entropy(log_probs).cpu(), edges, right=True)
    return index.bincount(minlength=N_BINS).tolist()
