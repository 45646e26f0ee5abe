"""Gaussian dropout: multiplicative noise with the mean and variance of inverted dropout.

Type A is the noise of Srivastava et al. (JMLR 2014, section 10); type B that of Wang and Manning
(ICML 2013), who drew the activations a layer's dropout would give.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from bdl_lessons.core.validation import valid_p_drop
from bdl_lessons.models.layers.gaussian_noise import (
    LogAlpha,
    MultiplicativeNoise,
    NoiseType,
    one_of,
)


@dataclass(frozen=True)
class GaussianDropout(MultiplicativeNoise):
    """Layer factory: ``alpha = p_drop / (1 - p_drop)``, fixed. Its KL is a constant.

    Raises:
        TypeError, ValueError: for a ``p_drop`` outside (0, 1) or an unknown ``noise``.
    """

    p_drop: float
    noise: NoiseType = "A"

    def __post_init__(self) -> None:
        matched_log_alpha(self.p_drop)
        one_of("noise", self.noise, NoiseType)

    def _log_alpha(self, weight_shape: tuple[int, ...]) -> LogAlpha:
        return LogAlpha((), matched_log_alpha(self.p_drop), learned=False)


def matched_log_alpha(p_drop: float) -> float:
    """The log variance of inverted dropout, ``log(p_drop / (1 - p_drop))``.

    Raises:
        TypeError, ValueError: if ``p_drop`` is not a number in (0, 1).
    """
    if valid_p_drop(p_drop) == 0:
        raise ValueError("p_drop must lie in (0, 1), got 0: its alpha is 0 and has no logarithm")
    return math.log(p_drop) - math.log1p(-p_drop)
