"""Telling data of another kind from data like the training set, by how sure a network is.

A score is high where the network is sure. In-distribution rows are the positive class; a row is
called in-distribution if its score is at least a threshold. Definitions: Liang, Li and Srikant
(ODIN, ICLR 2018), section 3.3, but for one thing: precision is computed from counts, as the rows
come, and not from rates, so the two areas under precision-recall curves depend on how many rows
there are of each kind.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from bdl_lessons.core import validation
from bdl_lessons.evaluation.predictive import entropy


class OODMetrics(NamedTuple):
    """How well a score separates the two kinds; all in [0, 1]."""

    fpr_at_95_tpr: float
    """Fraction of the others at or above the threshold that 95 % of the known rows reach."""
    detection_error: float
    """Smallest ``(1 - TPR + FPR) / 2`` over thresholds: the error if both kinds are as frequent."""
    auroc: float
    """Probability that a known row scores above one of the others; a tie counts one half."""
    aupr_in: float
    """Average precision for finding known rows by a high score."""
    aupr_out: float
    """Average precision for finding the others by a low score."""


def max_log_probability(log_probs: Tensor) -> Tensor:
    """Log of the largest class probability, ``(B, C)`` to ``(B,)``: orders as the softmax does.

    Near certainty the logarithm still tells values apart that round to 1.
    """
    return log_probs.max(-1).values


def negative_entropy(log_probs: Tensor) -> Tensor:
    """Minus the predictive entropy in nats, ``(B, C)`` to ``(B,)``."""
    return -entropy(log_probs)


def detection(score_in: Tensor, score_out: Tensor) -> OODMetrics:
    """All five measures.

    Args:
        score_in: ``(N,)`` scores of rows like the training set. score_out: ``(M,)`` of the others.

    Raises:
        TypeError, ValueError: if a score is not a vector of finite floating-point numbers, or has
            no rows.
    """
    known, other = _vector("score_in", score_in), _vector("score_out", score_out)
    return OODMetrics(
        fpr_at_tpr(score_in, score_out),
        _detection_error(known, other),
        _area_under_roc(known, other),
        _average_precision(known, other),
        _average_precision(-other, -known),
    )


def fpr_at_tpr(score_in: Tensor, score_out: Tensor, tpr: float = 0.95) -> float:
    """Fraction of the others at or above the highest threshold that ``tpr`` of ``score_in`` reach.

    Raises:
        TypeError, ValueError: as :func:`detection`, and if ``tpr`` is not in (0, 1].
    """
    known, other = _vector("score_in", score_in), _vector("score_out", score_out)
    if not 0 < tpr <= 1:
        raise ValueError(f"tpr must be in (0, 1], got {tpr}")
    needed = int(np.ceil(tpr * len(known) - 1e-9))
    threshold = np.sort(known)[len(known) - needed]
    return float((other >= threshold).mean())


def _detection_error(known: np.ndarray, other: np.ndarray) -> float:
    thresholds = np.append(np.unique(np.concatenate([known, other])), np.inf)
    missed = np.searchsorted(np.sort(known), thresholds) / len(known)
    accepted = 1 - np.searchsorted(np.sort(other), thresholds) / len(other)
    return float(((missed + accepted) / 2).min())


def _area_under_roc(known: np.ndarray, other: np.ndarray) -> float:
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(*_labelled(known, other)))


def _average_precision(positive: np.ndarray, negative: np.ndarray) -> float:
    from sklearn.metrics import average_precision_score

    return float(average_precision_score(*_labelled(positive, negative)))


def _labelled(positive: np.ndarray, negative: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    labels = np.repeat([1, 0], [len(positive), len(negative)])
    return labels, np.concatenate([positive, negative])


def _vector(name: str, score: Tensor) -> np.ndarray:
    validation.floating(name, score)
    if score.dim() != 1 or not len(score):
        raise ValueError(f"{name} must have shape (N,) with N >= 1, got {tuple(score.shape)}")
    return score.detach().to("cpu", torch.float64).numpy()
