"""How good and how honest predictions are: errors, likelihoods, calibration."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from bdl_lessons.evaluation.predictive import log_predictive_likelihood

_SUM_ATOL = 1e-3


class ReliabilityBins(NamedTuple):
    """A reliability diagram: for each bin of confidence its rows. Empty bins hold NaN means."""

    edges: Tensor
    """``(n_bins + 1,)``, from 0 to 1; bin i is ``[edges[i], edges[i+1])``, the last closed."""
    confidence: Tensor
    """``(n_bins,)`` mean of the largest probability."""
    accuracy: Tensor
    """``(n_bins,)`` fraction of rows whose most probable class is right."""
    count: Tensor
    """``(n_bins,)`` number of rows."""


def accuracy(probs: Tensor, y: Tensor) -> float:
    """Fraction of rows whose most probable class is ``y``. Shapes ``(B, C)`` and ``(B,)``."""
    probs = _check(probs, y)
    return (probs.argmax(-1) == y).double().mean().item()


def error_rate(scores: Tensor, y: Tensor) -> float:
    """Percentage of rows whose largest score is not that of ``y``. Shapes ``(B, C)``, ``(B,)``."""
    return 100 * (scores.argmax(-1) != y).double().mean().item()


def nll(log_probs: Tensor, y: Tensor) -> float:
    """Mean ``-log p(y)`` in nats. ``log_probs``: ``(B, C)``, e.g. from ``log_mean_probs``."""
    _check(log_probs.exp(), y)
    return -log_probs.gather(-1, y[:, None]).double().mean().item()


def brier(probs: Tensor, y: Tensor) -> float:
    """Mean over rows of ``sum_c (p_c - [y = c])**2``, in [0, 2] (Brier 1950)."""
    probs = _check(probs, y)
    truth = torch.nn.functional.one_hot(y, probs.shape[-1])
    return (probs - truth).square().sum(-1).double().mean().item()


def ece(probs: Tensor, y: Tensor, n_bins: int = 15) -> float:
    """Expected calibration error ``sum_bins count/B * |accuracy - confidence|``, in [0, 1].

    torchmetrics puts a confidence of exactly 1 in a bin of its own beyond the last (issue 3510), so
    probabilities are clamped just below 1 first.
    """
    from torchmetrics.functional.classification import multiclass_calibration_error

    probs = _check(probs, y).double().clamp(max=1 - 1e-7)
    return multiclass_calibration_error(
        probs, y, num_classes=probs.shape[-1], n_bins=n_bins, norm="l1"
    ).item()


def reliability_bins(probs: Tensor, y: Tensor, n_bins: int = 15) -> ReliabilityBins:
    """The rows of a reliability diagram, in ``n_bins`` bins of equal width."""
    probs = _check(probs, y).double()
    confidence, predicted = probs.max(-1)
    edges = torch.linspace(0, 1, n_bins + 1, dtype=torch.float64, device=probs.device)
    index = (torch.bucketize(confidence, edges, right=True) - 1).clamp(max=n_bins - 1)
    count = index.bincount(minlength=n_bins)
    right = (predicted == y).double()
    return ReliabilityBins(
        edges,
        index.bincount(confidence, minlength=n_bins) / count,
        index.bincount(right, minlength=n_bins) / count,
        count,
    )


def rmse(mean: Tensor, y: Tensor) -> float:
    """Root mean squared error in the units of ``y``; both ``(B, D)``."""
    if mean.shape != y.shape:
        raise ValueError(
            f"mean and y must have one shape, got {tuple(mean.shape)}, {tuple(y.shape)}"
        )
    error = (mean - y).double().square().mean().sqrt().item()
    if error != error:
        raise ValueError("mean or y contains NaN")
    return error


def mean_log_likelihood(draws: Tensor, y: Tensor, tau: float | Tensor) -> float:
    """Mean over rows of the log predictive likelihood in nats; ``tau`` in units of ``y``."""
    return log_predictive_likelihood(draws, y, tau).double().mean().item()


def _check(probs: Tensor, y: Tensor) -> Tensor:
    if probs.dim() != 2 or y.shape != probs.shape[:1] or not len(y):
        raise ValueError(
            f"need probabilities (B, C) and labels (B,), got {tuple(probs.shape)}, {tuple(y.shape)}"
        )
    if not ((probs >= 0).all() and ((probs.sum(-1) - 1).abs() <= _SUM_ATOL).all()):
        raise ValueError("probabilities must be >= 0 and sum to 1 in every row; got logits or NaN?")
    if y.is_floating_point() or y.min() < 0 or y.max() >= probs.shape[-1]:
        raise ValueError(f"labels must be integers in 0..{probs.shape[-1] - 1}")
    return probs
