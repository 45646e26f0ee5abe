"""Detection of out-of-distribution (OOD) inputs by the confidence of a network. Lesson 13.

A score is high where the network is confident. In-distribution inputs are the positive class; an
input counts as in-distribution if its score is at least a threshold. AUROC and AUPR: Hendrycks and
Gimpel (ICLR 2017). FPR95: Liang, Li and Srikant (ODIN, ICLR 2018). Precision is computed from
counts, not from rates, so the two AUPR depend on how many inputs there are of each kind.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from bdl_lessons.core import validation


class OODMetrics(NamedTuple):
    """How well a score separates in-distribution from OOD inputs; all in [0, 1]."""

    fpr_at_95_tpr: float
    """Fraction of OOD scores at or above the highest threshold that 95 % of the others reach."""
    detection_error: float
    """Smallest ``(1 - TPR + FPR) / 2`` over thresholds: the error if both kinds are as frequent."""
    auroc: float
    """Probability that an in-distribution input scores above an OOD one; a tie counts one half."""
    aupr_in: float
    """Average precision for finding in-distribution inputs by a high score."""
    aupr_out: float
    """Average precision for finding OOD inputs by a low score."""


def ood_metrics(score_in: Tensor, score_out: Tensor) -> OODMetrics:
    """All five measures, of in-distribution scores ``(N,)`` and OOD scores ``(M,)``.

    TypeError or ValueError unless both are vectors of finite floating-point numbers, not empty.

    >>> ood_metrics(torch.tensor([3.0, 4.0]), torch.tensor([1.0, 2.0])).auroc
    1.0
    """
    from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve

    validation.shapes("score_in must be (N,)", validation.floating("score_in", score_in))
    validation.shapes("score_out must be (M,)", validation.floating("score_out", score_out))
    scores = torch.cat([score_in.detach().cpu(), score_out.detach().cpu()]).double().numpy()
    known = (torch.arange(len(scores)) < len(score_in)).numpy()
    fpr, tpr, _ = roc_curve(known, scores, drop_intermediate=False)
    return OODMetrics(
        fpr_at_95_tpr=float(fpr[tpr > 0.95 - 1e-12][0]),
        detection_error=float((1 - tpr + fpr).min() / 2),
        auroc=float(roc_auc_score(known, scores)),
        aupr_in=float(average_precision_score(known, scores)),
        aupr_out=float(average_precision_score(~known, -scores)),
    )
