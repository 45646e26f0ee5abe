"""Decisions under uncertainty: answer or abstain, and at which risk. Lesson 15.

A classifier that may abstain answers where its confidence, the largest probability of a class,
reaches a threshold. Chow, *On optimum recognition error and reject tradeoff*, IEEE Transactions on
Information Theory 16, 1970, derives the threshold from the costs; risk and coverage as in Geifman
and El-Yaniv, *Selective classification for deep neural networks*, NeurIPS 2017. The threshold is
right if the probabilities are calibrated. It cannot know whether they are.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from bdl_lessons.core import validation
from bdl_lessons.core.devices import float64, single

ABSTAIN = -1
"""The class number of an example on which :func:`decide` abstains."""


class RiskCoverage(NamedTuple):
    """Risk against coverage, one entry for each number of answers 1 .. N; all ``(N,)``.

    ``threshold`` is the confidence of the last example that is answered, ``coverage`` the share of
    the examples that are answered, and ``risk`` the share of wrong answers among these. Examples of
    equal confidence are answered together, so they share all three.
    """

    threshold: Tensor
    coverage: Tensor
    risk: Tensor

    @property
    def area(self) -> float:
        """The area under the risk-coverage curve (AURC), in [0, 1]: the mean of ``risk``."""
        return self.risk.mean().item()


def chow_threshold(
    cost_of_error: float, cost_of_abstaining: float, cost_of_right: float = 0.0
) -> float:
    """The confidence from which on answering costs less than abstaining: Chow's rule.

    An answer with confidence p costs ``cost_of_right p + cost_of_error (1 - p)`` in expectation.
    All costs are in one unit, whichever it is. The result is at most 0 where an answer never costs
    more, and at least 1 where it never costs less.

    ValueError unless all are finite, and an error costs more than a right answer.

    >>> chow_threshold(cost_of_error=10, cost_of_abstaining=1)
    0.9
    """
    cost_of_error = validation.number("cost_of_error", cost_of_error)
    cost_of_abstaining = validation.number("cost_of_abstaining", cost_of_abstaining)
    cost_of_right = validation.number("cost_of_right", cost_of_right)
    if not cost_of_error > cost_of_right:
        raise ValueError(
            f"cost_of_error must be above cost_of_right, got {cost_of_error} and {cost_of_right}"
        )
    return (cost_of_error - cost_of_abstaining) / (cost_of_error - cost_of_right)


def decide(probs: Tensor, threshold: float) -> Tensor:
    """The most probable class where its probability is at least ``threshold``, else ``ABSTAIN``.

    ``probs`` are ``(B, C)``, with MC dropout those averaged over the draws; the result is ``(B,)``.
    TypeError or ValueError if they are no probabilities, or ``threshold`` is no finite number.

    >>> decide(torch.tensor([[0.95, 0.05], [0.6, 0.4]]), chow_threshold(10, 1)).tolist()
    [0, -1]
    """
    threshold = validation.number("threshold", threshold)
    validation.shapes("probs must be (B, C)", validation.floating("probs", probs))
    rounding = 4 * torch.finfo(probs.dtype).eps
    error = single(probs).sum(-1) - 1
    if not ((probs >= 0).all() and (error.abs() <= max(1e-3, rounding)).all()):
        raise ValueError("probs must be >= 0 and sum to 1 for every example: logits.softmax(-1) do")
    confidence, answer = probs.max(-1)
    return torch.where(confidence >= threshold, answer, ABSTAIN)


def mean_cost(
    decisions: Tensor,
    y: Tensor,
    cost_of_error: float,
    cost_of_abstaining: float,
    cost_of_right: float = 0.0,
) -> float:
    """The mean cost of an example, in the unit of the costs.

    ``decisions`` are those of :func:`decide` and ``y`` the labels, class numbers ``(B,)`` both.
    TypeError or ValueError if they are not, or a cost is not finite.

    >>> mean_cost(torch.tensor([0, -1, 2, 1]), torch.tensor([0, 0, 0, 0]), 10, 1)
    5.25
    """
    decisions = _class_numbers("decisions", decisions, least=ABSTAIN)
    y = _class_numbers("y", y, least=0)
    validation.shapes("decisions must be (B,) and y (B,)", decisions, y)
    abstained = float64(decisions == ABSTAIN).mean().item()
    right = float64(decisions == y).mean().item()
    return (
        validation.number("cost_of_abstaining", cost_of_abstaining) * abstained
        + validation.number("cost_of_right", cost_of_right) * right
        + validation.number("cost_of_error", cost_of_error) * (1 - abstained - right)
    )


def risk_coverage(confidence: Tensor, correct: Tensor) -> RiskCoverage:
    """Risk and coverage at every threshold, from the most confident example to all, in float64.

    Any score will do that is high where an answer is trusted: the largest probability, or minus an
    entropy. ``confidence`` is ``(N,)``, floating-point and without NaN; ``correct`` ``(N,)`` of
    bool says whether the answer is right. TypeError or ValueError if they are not.

    >>> curve = risk_coverage(torch.tensor([0.9, 0.5, 0.7]), torch.tensor([True, False, True]))
    >>> curve.risk.tolist()[:2], round(curve.area, 3)
    ([0.0, 0.0], 0.111)
    """
    validation.shapes(
        "confidence must be (N,) and correct (N,)",
        validation.floating("confidence", confidence),
        validation.instance("correct", correct, Tensor),
    )
    if correct.dtype != torch.bool:
        raise TypeError(f"correct must be of bool, got {correct.dtype}: answer == y is")
    confidence = float64(confidence.detach()).cpu()
    threshold, order = confidence.sort(descending=True)
    n_answered = torch.searchsorted(-threshold, -threshold, right=True)  # equal ones together
    n_wrong = (~correct.cpu()[order]).double().cumsum(0)[n_answered - 1]
    return RiskCoverage(
        threshold=threshold,
        coverage=n_answered.double() / len(threshold),
        risk=n_wrong / n_answered,
    )


def _class_numbers(name: str, numbers: Tensor, least: int) -> Tensor:
    validation.shapes(f"{name} must be (B,)", validation.instance(name, numbers, Tensor))
    if numbers.is_complex() or numbers.is_floating_point() or numbers.dtype == torch.bool:
        raise TypeError(f"{name} must be class numbers of an integer type, got {numbers.dtype}")
    if not len(numbers) or numbers.min() < least:
        raise ValueError(f"{name} must be class numbers from {least} on, and not empty")
    return numbers
