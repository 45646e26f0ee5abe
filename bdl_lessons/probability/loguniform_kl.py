r"""The price of multiplicative Gaussian noise under the log-uniform prior.

Variational dropout (Kingma, Salimans and Welling, NeurIPS 2015, section 3.3) gives a weight the
posterior ``N(theta, alpha theta**2)`` and the prior ``p(|w|) ~ 1/|w|``. Their divergence depends on
``alpha`` alone, up to a constant that the improper prior leaves open. Here the constant is chosen
so that the divergence vanishes as ``alpha`` grows:

.. math:: \mathrm{KL}(\alpha) = -\tfrac12 \log \alpha
          + \mathbb{E}_{\varepsilon \sim \mathcal N(0, 1)} \log |1 + \sqrt{\alpha}\, \varepsilon|
          + \tfrac12 (\gamma_E + \log 2)

Then it is positive and falls in ``alpha``. The functions here are elementwise: they return the
divergence of *each* weight in nats, and sums are left to the layers.
"""

from __future__ import annotations

import math
from functools import cache
from itertools import accumulate

import torch
from torch import Tensor
from torch.nn.functional import softplus

from bdl_lessons.core.autograd import inside_vmap, known_slope

EULER_GAMMA = 0.5772156649015329
KL_OFFSET = (EULER_GAMMA + math.log(2)) / 2
"""``KL(alpha) + log(alpha) / 2`` as alpha goes to 0: what fixes the open constant, 0.635."""

KINGMA = (1.161451241083230, -1.502041176441722, 0.586299206427007)
"""``c1, c2, c3`` of the cubic, from the authors' code."""

MOLCHANOV = (0.63576, 1.87320, 1.48695)
"""``k1, k2, k3`` of the sigmoid (Molchanov, Ashukha and Vetrov, ICML 2017)."""


def loguniform_kl(log_alpha: Tensor) -> Tensor:
    r"""The exact divergence of each weight, and its exact gradient.

    With the mean number of events :math:`\lambda = 1/(2\alpha)` and Dawson's function F,

    .. math:: \mathrm{KL} &= \sum_{k \ge 0} \mathrm{Poisson}(k; \lambda)
              \Big( 1 + \tfrac13 + \tfrac15 + \dots + \tfrac1{2k-1} \Big)
              = 2 \int_0^{\sqrt\lambda} F(u)\, du \\
              \frac{d\,\mathrm{KL}}{d \log \alpha} &= -\sqrt\lambda\, F(\sqrt\lambda),
              \quad -\tfrac12 \text{ for small } \alpha,\; 0 \text{ for large}

    No term of the sum is negative, so no digit is lost. For small alpha, where the sum is long, it
    is replaced by :math:`\texttt{KL\_OFFSET} - \tfrac12 \log\alpha - \tfrac12 \sum_{n \ge 1}
    (2n-1)!!\, \alpha^n / n`. The relative error is at most 2e-7 in float32 and 2e-14 in float64
    for ``log_alpha`` between -20 and 20, of the value and of the gradient; beyond, nothing
    overflows.

    Args:
        log_alpha: any shape, float32 or float64.

    Returns:
        The shape of ``log_alpha``, in nats per weight; differentiable once.

    Raises:
        TypeError: if ``log_alpha`` is not a float32 or float64 tensor.
        ValueError: if it has a NaN.
    """
    with torch.no_grad():
        value, slope = _value_and_slope(log_alpha)
    return known_slope(value, (log_alpha, slope))


def loguniform_kl_slope(log_alpha: Tensor) -> Tensor:
    r"""``dKL / dlog alpha = -z F(z)`` with ``z = 1 / sqrt(2 alpha)``; arguments as above."""
    return _value_and_slope(log_alpha)[1]


def kingma_kl(log_alpha: Tensor) -> Tensor:
    r"""Kingma's cubic: :math:`-\tfrac12\log\alpha - c_1\alpha - c_2\alpha^2 - c_3\alpha^3` plus
    ``KL_OFFSET``. The paper prints minus the divergence, and leaves its constant out.

    Made for ``alpha <= 1``. There it lies below the exact value by at most 0.0404 (at alpha = 0.12;
    0.037 at alpha = 1). Beyond, it falls to minus infinity like ``-c3 alpha**3``: nothing is
    clamped here, the caller must keep ``alpha <= 1``. Arguments and errors as in
    :func:`loguniform_kl`.
    """
    alpha = _checked(log_alpha).exp()
    c1, c2, c3 = KINGMA
    return KL_OFFSET - log_alpha / 2 - alpha * (c1 + alpha * (c2 + alpha * c3))


def molchanov_kl(log_alpha: Tensor) -> Tensor:
    r"""Molchanov's sigmoid: :math:`k_1 \sigma(-k_2 - k_3 \log\alpha) + \tfrac12\log(1+1/\alpha)`.

    The paper prints minus this. Good for every ``alpha``: at most 0.0094 above the exact value (at
    log alpha = -3.5) and 0.0044 below it (at -1.8). Arguments and errors as in
    :func:`loguniform_kl`.
    """
    k1, k2, k3 = MOLCHANOV
    log_alpha = _checked(log_alpha)
    return k1 * torch.sigmoid(-k2 - k3 * log_alpha) + softplus(-log_alpha) / 2


_BLOCK = 2**18  # the intermediate results of so many weights stay in the cache


def _value_and_slope(log_alpha: Tensor) -> tuple[Tensor, Tensor]:
    if _checked(log_alpha).dtype == torch.float64:
        return _by_sums(log_alpha)
    blocks = log_alpha.flatten().split(_BLOCK)
    value, slope = zip(*(_by_table(block) for block in blocks), strict=True)
    return torch.cat(value).view(log_alpha.shape), torch.cat(slope).view(log_alpha.shape)


def _by_sums(log_alpha: Tensor) -> tuple[Tensor, Tensor]:
    """The sum over counts for rates up to 64, beyond the one over powers of alpha, in float64.

    64 is a power of two: then ``rate / 64`` is exact, and the growing powers of the rate and the
    falling ``exp(-rate)`` round alike.
    """
    rate = (-log_alpha).exp().div(2).clamp(max=_MEET)
    none = (-rate).exp()
    value, slope = _polynomials(rate / _MEET, _BY_COUNT)
    few = value * none, slope * none * -rate
    alpha = log_alpha.exp().clamp(max=1 / (2 * _MEET))
    value, slope = _polynomials(alpha, _BY_POWER)
    many = KL_OFFSET - log_alpha / 2 - value, -slope
    is_few = log_alpha > -math.log(2 * _MEET)
    value, slope = (torch.where(is_few, *pair) for pair in zip(few, many, strict=True))
    return value, slope


def _polynomials(x: Tensor, coefficients: list[tuple[float, float]]) -> tuple[Tensor, Tensor]:
    """Two sums of ``coefficients[k] x**k`` for ``0 <= x <= 1`` and coefficients of one sign."""
    totals = [torch.full_like(x, last) for last in coefficients[-1]]
    for pair in reversed(coefficients[:-1]):
        for total, coefficient in zip(totals, pair, strict=True):
            total.mul_(x).add_(coefficient)
    return totals[0], totals[1]


def _count_terms(n_counts: int) -> list[tuple[float, float]]:
    odd = range(1, 2 * n_counts, 2)
    weights = accumulate(range(1, n_counts), lambda w, k: w * _MEET / k, initial=1.0)
    odd_harmonics = accumulate((1 / j for j in odd[:-1]), initial=0.0)
    return [
        (w * harmonic, w / j)
        for w, harmonic, j in zip(weights, odd_harmonics, odd, strict=True)  # w = 64**k / k!
    ]


def _power_terms(n_powers: int) -> list[tuple[float, float]]:
    odd_products = accumulate(range(1, 2 * n_powers - 2, 2), lambda w, j: w * j, initial=0.5)
    return [(w / n if n else 0.0, w) for n, w in enumerate(odd_products)]  # w = (2n - 1)!! / 2


_MEET = 64.0
_BY_COUNT, _BY_POWER = _count_terms(150), _power_terms(22)


_FROM, _TO, _PER_UNIT = -20, 104, 64  # exp(-104) is 0 in float32


def _by_table(log_alpha: Tensor) -> tuple[Tensor, Tensor]:
    """In float32, from values and slopes at the multiples of 1/64: the cubic through two of them.

    Its error (1e-10 of the value, 3e-8 of the slope) is below the rounding, and the distance to the
    nearest point has none. Four look-ups a weight take the place of 172 terms.
    """
    table = _table(log_alpha.device)
    at = log_alpha.clamp(-1e36, _TO) * _PER_UNIT
    point = at.floor().clamp(_FROM * _PER_UNIT, _TO * _PER_UNIT - 1)
    d = at.sub_(point)
    cell = point.sub_(_FROM * _PER_UNIT).long()
    c0, c1, c2, c3 = (row.index_select(0, cell) for row in table)
    c3.mul_(d)
    value = (c2 + c3).mul_(d).add_(c1).mul_(d).add_(c0)
    slope = c3.mul_(3).add_(c2, alpha=2).mul_(d).add_(c1).mul_(_PER_UNIT)
    return value, slope


@cache
@torch.inference_mode(False)
def _table(device: torch.device) -> Tensor:
    """Coefficients of the cubics (Hermite's), ``(4, cells)``. Below the first one KL is a line."""
    points = torch.arange(_FROM * _PER_UNIT, _TO * _PER_UNIT + 1, dtype=torch.float64) / _PER_UNIT
    value, slope = _by_sums(points)
    rise, slope = value.diff(), slope / _PER_UNIT
    left, right = slope[:-1], slope[1:]
    table = torch.stack([value[:-1], left, 3 * rise - 2 * left - right, left + right - 2 * rise])
    table[2:, 0] = 0
    return table.float().to(device)


def _checked(log_alpha: Tensor) -> Tensor:
    if not isinstance(log_alpha, Tensor) or log_alpha.dtype not in (torch.float32, torch.float64):
        found = log_alpha.dtype if isinstance(log_alpha, Tensor) else type(log_alpha).__name__
        raise TypeError(f"log_alpha must be a float32 or float64 tensor, got {found}")
    if not inside_vmap() and log_alpha.sum().isnan() and log_alpha.isnan().any():
        raise ValueError("log_alpha must not have a NaN")
    return log_alpha
