r"""The log-uniform prior $1/|w|$ has no integral, and its posterior has none either. Lesson 10.

One weight, measured in standard errors of its estimate $\hat w$, its z-score: the likelihood is
$L(w) = e^{-(w - \hat w)^2/2}$. Truncate the prior to $|w| \ge w_{\min}$ and the marginal likelihood
is finite,

$$Z(w_{\min}) = \int_{|w| \ge w_{\min}} \frac{L(w)}{|w|}\, dw = e^{-\hat w^2/2}
       \sum_{j \ge 0} \frac{(2 \hat w^2)^j}{(2j)!}\, \Gamma(j, \tfrac12 w_{\min}^2),$$

with upper incomplete gamma functions, of which $\Gamma(0, x) = E_1(x)$ grows like $-\log x$. So
$Z(w_{\min})$ grows by $2 L(0) \log 10$ for each decade of $w_{\min}$ without limit, and all of it
lies at zero (Hron, Matthews and Ghahramani, ICML 2018). The series: expand $\cosh(\hat w w)$,
integrate.
"""

import math

import numpy as np
import torch
from scipy.special import exp1
from torch import Tensor

from bdl_lessons.core.validation import positive

_MAX_Z_SCORE = 30.0
_SMALL = -8.0  # below e**-8, w_min**2 does not reach the twelfth digit of Z's slope


def truncated_evidence(z_score: float, log_w_min: Tensor | float) -> Tensor:
    """``Z(w_min)``: marginal likelihood of the prior ``1/|w|`` on ``|w| >= w_min``, unnormalised.

    In float64, the shape of ``log_w_min``; the likelihood's peak counts 1.

    Args:
        z_score: the estimate over its standard error; only its size matters. ValueError if it
            exceeds 30 (the series would overflow) or is NaN.
        log_w_min: any shape, in nats; ``w_min`` in standard errors. Given as a logarithm, so that
            10**-1000 is no problem.

    >>> nearer = truncated_evidence(0.0, torch.tensor([-50.0, -51.0]))  # grows by 2 L(0) = 2
    >>> nearer.diff().round(decimals=6)
    tensor([2.], dtype=torch.float64)
    """
    if not abs(z_score) <= _MAX_Z_SCORE:
        raise ValueError(f"|z_score| must be at most {_MAX_Z_SCORE:g}, got {z_score}")
    log_w = torch.as_tensor(log_w_min, dtype=torch.float64)
    x = (2 * log_w).exp() / 2
    first = torch.as_tensor(exp1(x.numpy()))
    first = torch.where(log_w < _SMALL, math.log(2) - np.euler_gamma - 2 * log_w + x, first)
    return math.exp(-(z_score**2) / 2) * (first + _higher_terms(z_score, x))


def mass_near_zero(z_score: float, log_w_min: Tensor | float, near: float = 0.1) -> Tensor:
    """Posterior probability of ``|w| < near`` when the prior is truncated to ``|w| >= w_min``.

    Arguments, shape and errors as in :func:`truncated_evidence`; ``near > 0`` in standard errors.

    >>> mass_near_zero(2.0, torch.tensor([0.0, -1e6])).round(decimals=3)
    tensor([0., 1.], dtype=torch.float64)
    """
    total = truncated_evidence(z_score, log_w_min)
    outside = truncated_evidence(z_score, math.log(positive("near", near)))
    return (1 - outside / total).clamp(min=0)


def decades_to_half(z_score: float) -> float:
    """The ``k`` at which the prior on ``|w| >= 10**-k`` puts half the posterior on ``|w| < 0.1``.

    Below 0.1 the likelihood hardly changes, so each decade adds ``2 L(0) log 10`` and ``k``
    solves a linear equation. It grows like ``exp(z_score**2 / 2) / z_score``: the posterior
    collapses for every weight, but for one that the data support only at a ``w_min`` far below
    what a float can hold.

    >>> [round(decades_to_half(z_score)) for z_score in (1.0, 3.0, 5.0)]
    [2, 20, 30563]
    """
    outside = truncated_evidence(z_score, math.log(0.1)).item()
    inside = truncated_evidence(z_score, _SMALL).item() - outside
    per_decade = 2 * math.exp(-(z_score**2) / 2) * math.log(10)
    return -_SMALL / math.log(10) + (outside - inside) / per_decade


def _higher_terms(z_score: float, x: Tensor) -> Tensor:
    """The terms j >= 1 of the series, summed until past their peak near j = z_score**2 / 2."""
    square = z_score**2
    j = torch.arange(1, int(square / 2 + 12 * math.sqrt(square + 1) + 30), dtype=torch.float64)
    log_factor = torch.xlogy(j, 2 * square) - (2 * j + 1).lgamma() + j.lgamma()
    return (log_factor.exp() * torch.special.gammaincc(j, x[..., None])).sum(-1)
