"""Scores of predictions: error, likelihood and calibration. Lessons 05, 11 and 13."""

from typing import NamedTuple

import torch
from torch import Tensor

from bdl_lessons.core import validation
from bdl_lessons.core.devices import float64, single


class ReliabilityBins(NamedTuple):
    """A reliability diagram: for each bin of confidence its examples. Empty bins hold NaN means.

    ``edges (n_bins + 1,)`` run from 0 to 1; bin i is ``[edges[i], edges[i+1])``, the last closed.
    The others, ``(n_bins,)``: mean of the largest probability, fraction of examples whose
    most probable class is right, and the number of examples.
    """

    edges: Tensor
    confidence: Tensor
    accuracy: Tensor
    count: Tensor


def accuracy(probs: Tensor, y: Tensor) -> float:
    """Fraction of examples whose most probable class is ``y``. Shapes ``(B, C)`` and ``(B,)``.

    Here and below TypeError or ValueError if shapes do not fit, ``y`` are not class numbers
    0 .. C - 1 of an integer type, or ``probs`` are no probabilities, up to the rounding of their
    dtype.

    >>> accuracy(torch.tensor([[0.9, 0.1], [0.6, 0.4]]), torch.tensor([0, 1]))
    0.5
    """
    _check_probs(probs, y)
    return float64(probs.argmax(-1) == y).mean().item()


def error_percent(scores: Tensor, y: Tensor) -> float:
    """Percentage of examples whose largest score is not that of ``y``; ``(B, C)`` and ``(B,)``.

    Scores are logits, probabilities or their logarithms.

    >>> error_percent(torch.tensor([[2.0, -1.0], [3.0, 0.5]]), torch.tensor([0, 1]))
    50.0
    """
    _check_labels("scores", scores, y)
    return 100 * float64(scores.argmax(-1) != y).mean().item()


def nll(log_probs: Tensor, y: Tensor) -> float:
    """Mean ``-log p(y)`` in nats. ``log_probs``: ``(B, C)``, e.g. from ``log_mean_probs``.

    >>> round(nll(torch.tensor([[0.5, 0.5]]).log(), torch.tensor([1])), 3)
    0.693
    """
    _check_probs(validation.floating_type("log_probs", log_probs).exp(), y, "exp log_probs")
    return -float64(log_probs.gather(-1, y.long()[:, None])).mean().item()


def ece(probs: Tensor, y: Tensor, n_bins: int = 15) -> float:
    """Expected calibration error ``sum_bins count/B * |accuracy - confidence|``, in [0, 1].

    Guo et al., *On calibration of modern neural networks*, ICML 2017, equation 3.

    >>> ece(torch.tensor([[1.0, 0.0], [1.0, 0.0]]), torch.tensor([0, 1]))
    0.5
    """
    bins = reliability_bins(probs, y, n_bins)
    return (bins.count / len(y) * (bins.accuracy - bins.confidence).abs()).nansum().item()


def reliability_bins(probs: Tensor, y: Tensor, n_bins: int = 15) -> ReliabilityBins:
    """The bars of a reliability diagram, in ``n_bins`` bins of equal width, on the CPU.

    >>> reliability_bins(torch.tensor([[0.9, 0.1], [0.6, 0.4]]), torch.tensor([0, 1]), 4).count
    tensor([0, 0, 1, 1])
    """
    _check_probs(probs, y)
    confidence = probs.amax(-1).cpu()
    right = (probs.argmax(-1) == y).cpu().double()
    # In float32, so that a confidence of 0.9 in that precision lies on the edge 0.9.
    edges = torch.linspace(0, 1, validation.integer("n_bins", n_bins, 1) + 1)
    index = (torch.bucketize(confidence.float(), edges, right=True) - 1).clamp(max=n_bins - 1)
    count = index.bincount(minlength=n_bins)
    return ReliabilityBins(
        edges=edges,
        confidence=index.bincount(confidence.double(), minlength=n_bins) / count,
        accuracy=index.bincount(right, minlength=n_bins) / count,
        count=count,
    )


def rmse(mean: Tensor, y: Tensor) -> float:
    """Root mean squared error in the units of ``y``; both ``(B, D)``.

    Raises TypeError or ValueError if one is no finite floating-point tensor, or the shapes differ.

    >>> rmse(torch.tensor([[1.0], [3.0]]), torch.tensor([[3.0], [1.0]]))
    2.0
    """
    mean = validation.floating("mean", mean)
    y = validation.floating("y", y)
    validation.same_shape("mean", mean, "y", y)
    return (float64(mean) - float64(y)).square().mean().sqrt().item()


def _check_labels(name: str, scores: Tensor, y: Tensor) -> None:
    validation.floating_type(name, scores)
    validation.instance("labels y", y, Tensor)
    rule = f"{name} must be (B, C) and labels y (B,)"
    if y.dim() == 2 and y.shape[1] == 1:
        raise ValueError(f"{rule}, got y of shape {tuple(y.shape)}: y.squeeze(1) has the shape")
    validation.shapes(rule, scores, y)
    if not len(y) or scores.isnan().any():
        raise ValueError(f"{name} and labels y must have examples, and no NaN")
    if y.is_floating_point() or y.dtype == torch.bool:
        wanted = "labels y must be class numbers of an integer type"
        raise TypeError(f"{wanted}, got {y.dtype}: y.long() has one")
    n_classes = scores.shape[-1]
    smallest = y.min().item()
    largest = y.max().item()
    if smallest < 0 or largest >= n_classes:
        message = f"labels y must lie in 0..{n_classes - 1}, got {smallest}..{largest}"
        if smallest > 0 and largest == n_classes:
            message += ": labels that count from 1 need y - 1"
        raise ValueError(message)


def _check_probs(probs: Tensor, y: Tensor, name: str = "probs") -> None:
    _check_labels(name, probs, y)
    rounding = 4 * torch.finfo(probs.dtype).eps
    error = single(probs).sum(-1) - 1
    if not ((probs >= 0).all() and (error.abs() <= max(1e-3, rounding)).all()):
        raise ValueError(f"{name} must be >= 0 and sum to 1 for every example; got logits?")
