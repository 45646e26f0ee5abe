r"""The log-uniform prior $1/|w|$ has no integral, and its posterior has none either. Lesson 09.

One weight, measured in standard errors: the likelihood is $L(v) = e^{-(v-t)^2/2}$, with ``t`` the
z-score of the weight. Truncate the prior to $|v| \ge a$ and the marginal likelihood is finite,

$$Z(a) = \int_{|v| \ge a} \frac{L(v)}{|v|}\, dv
       = e^{-t^2/2} \sum_{n \ge 0} \frac{(2 t^2)^n}{(2n)!}\, \Gamma(n, a^2/2),$$

with upper incomplete gamma functions, of which $\Gamma(0, x) = E_1(x)$ grows like $-\log x$. So
$Z(a)$ grows by $2 L(0) \log 10$ for each decade of $a$ without limit, and all of it lies at zero
(Hron, Matthews and Ghahramani, ICML 2018). The series: expand $\cosh(tv)$, integrate.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from scipy.special import exp1
from torch import Tensor

from bdl_lessons.core.validation import positive

_MAX_Z_SCORE = 30.0
_SMALL = -8.0  # below e**-8, a**2 does not reach the twelfth digit of Z's slope


def truncated_evidence(z_score: float, log_lower: Tensor | float) -> Tensor:
    """``Z(a)``: the marginal likelihood under the prior ``1/|v|`` on ``|v| >= a``, unnormalised.

    Args:
        z_score: ``t``, the estimate over its standard error; only its size matters.
        log_lower: ``log a`` in nats, any shape; ``a`` in standard errors. Given as a logarithm, so
            that a = 10**-1000 is no problem.

    Returns:
        float64, the shape of ``log_lower``; the likelihood's peak counts 1.

    Raises:
        ValueError: if ``|z_score|`` exceeds 30 (the series would overflow) or is NaN.
    """
    if not abs(z_score) <= _MAX_Z_SCORE:
        raise ValueError(
            f"z_score must lie in [-{_MAX_Z_SCORE:g}, {_MAX_Z_SCORE:g}], got {z_score}"
        )
    log_a = torch.as_tensor(log_lower, dtype=torch.float64)
    x = (2 * log_a).exp() / 2
    first = torch.as_tensor(exp1(x.numpy()))
    first = torch.where(log_a < _SMALL, math.log(2) - np.euler_gamma - 2 * log_a + x, first)
    return math.exp(-(z_score**2) / 2) * (first + _higher_terms(z_score, x))


def mass_near_zero(z_score: float, log_lower: Tensor | float, delta: float = 0.1) -> Tensor:
    """Posterior probability of ``|v| < delta`` when the prior is truncated to ``|v| >= a``.

    Arguments, shape and errors as in :func:`truncated_evidence`; ``delta > 0`` in standard errors.
    """
    total = truncated_evidence(z_score, log_lower)
    outside = truncated_evidence(z_score, math.log(positive("delta", delta)))
    return (1 - outside / total).clamp(min=0)


def decades_to_half(z_score: float, delta: float = 0.1) -> float:
    """The ``k`` at which the prior on ``|v| >= 10**-k`` puts half the posterior on ``|v| < delta``.

    Below ``delta`` the likelihood hardly changes, so each decade adds ``2 L(0) log 10`` and ``k``
    solves a linear equation. It grows like ``exp(t**2 / 2) / t``: the posterior collapses for every
    weight, but for one that the data support only at an ``a`` far below what a float can hold.
    """
    log_delta = math.log(positive("delta", delta))
    log_a = min(log_delta, _SMALL)
    outside = truncated_evidence(z_score, log_delta).item()
    inside = truncated_evidence(z_score, log_a).item() - outside
    per_decade = 2 * math.exp(-(z_score**2) / 2) * math.log(10)
    return -log_a / math.log(10) + (outside - inside) / per_decade


def _higher_terms(z_score: float, x: Tensor) -> Tensor:
    """The terms n >= 1 of the series, summed until they are past their peak near n = t**2 / 2."""
    t2 = z_score**2
    n = torch.arange(1, int(t2 / 2 + 12 * math.sqrt(t2 + 1) + 30), dtype=torch.float64)
    log_factor = torch.xlogy(n, 2 * t2) - (2 * n + 1).lgamma() + n.lgamma()
    return (log_factor.exp() * torch.special.gammaincc(n, x[..., None])).sum(-1)
