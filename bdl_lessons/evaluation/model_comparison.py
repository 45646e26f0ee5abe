r"""Comparing methods over data sets: ranks, and differences with errors.

Lessons 11 and 13.

Two methods measured on the same splits are compared by their differences, split by split: what
makes a split hard for both cancels. But the splits of one data set share training examples, so the
differences are not independent, and the usual standard error :math:`s/\sqrt n` is too small.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from bdl_lessons.core.validation import flag, number, real_array, shapes

Values = Sequence | np.ndarray


class Difference(NamedTuple):
    """The mean of ``first - second`` over splits with two standard errors, in their units."""

    mean: float
    std_error: float
    """:math:`s / \\sqrt n`: right if the splits were independent."""
    corrected_std_error: float
    """:math:`s \\sqrt{1/n + n_{test}/n_{train}}`: allows for the training examples they share."""


def paired_difference(first: Values, second: Values, test_fraction: float = 0.1) -> Difference:
    r"""How much larger ``first`` is than ``second``, from n splits of one data set.

    For differences of variance :math:`\sigma^2` and correlation :math:`\rho` between splits the
    mean has variance :math:`\sigma^2 (\rho + (1 - \rho)/n)` while their sample variance estimates
    :math:`\sigma^2 (1 - \rho)`. The ratio is :math:`1/n + \rho/(1-\rho)`. With
    :math:`\rho = n_{test} / (n_{test} + n_{train})` it is :math:`1/n + n_{test}/n_{train}` (Nadeau
    and Bengio, Machine Learning 2003).

    Args:
        first, second: ``(n,)`` each, n >= 2, entry i from split i; finite.
        test_fraction: test examples over all examples of a split, in (0, 1), else ValueError.

    >>> difference = paired_difference([3.0, 5.0, 4.0], [1.0, 1.0, 1.0], test_fraction=0.2)
    >>> [round(value, 2) for value in difference]
    [3.0, 0.58, 0.76]
    """
    first = real_array("first", first)
    second = real_array("second", second)
    shapes("first must be (n,) and second (n,)", first, second)
    if len(first) < 2 or not np.isfinite([first, second]).all():
        raise ValueError("first and second must be finite and have at least 2 splits")
    if not 0 < number("test_fraction", test_fraction) < 1:
        raise ValueError(f"test_fraction must lie in (0, 1), got {test_fraction}")
    differences = first - second
    n = len(differences)
    std = differences.std(ddof=1)
    overlap = test_fraction / (1 - test_fraction)
    return Difference(
        mean=float(differences.mean()),
        std_error=float(std / math.sqrt(n)),
        corrected_std_error=float(std * math.sqrt(1 / n + overlap)),
    )


def ranks(scores: Values, higher_is_better: bool) -> np.ndarray:
    """Ranks from 1, the best; equal scores share the mean of their ranks.

    ``scores`` are ``(..., M)`` for M methods, else ValueError, and so are the ranks; NaN for one
    that was not measured, which gets no rank.

    >>> ranks([[0.3, 0.1, 0.3]], higher_is_better=False)
    array([[2.5, 1. , 2.5]])
    """
    scores = real_array("scores", scores)
    shapes("scores must be (..., M)", scores)
    signed = -scores if flag("higher_is_better", higher_is_better) else scores
    return stats.rankdata(signed, axis=-1, nan_policy="omit")
