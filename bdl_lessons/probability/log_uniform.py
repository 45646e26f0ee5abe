r"""KL of multiplicative Gaussian noise from the log-uniform prior: exact, and two approximations.

Variational dropout (Kingma, Salimans and Welling, NeurIPS 2015, section 3.3; lesson 07) gives a
weight the posterior ``N(theta, alpha theta**2)`` and the prior ``p(|w|) ~ 1/|w|``. Their divergence
depends on ``alpha`` alone, up to a constant that the improper prior leaves open. Here the constant
is chosen so that the divergence vanishes as ``alpha`` grows:

.. math:: \mathrm{KL}(\alpha) = -\tfrac12 \log \alpha
          + \mathbb{E}_{\varepsilon \sim \mathcal N(0, 1)} \log |1 + \sqrt{\alpha}\, \varepsilon|
          + \tfrac12 (\gamma_E + \log 2)

Then it is positive and falls in ``alpha``. The functions here are elementwise: they return the
divergence of *each* weight in nats, and sums are left to the layers.
"""

import math
from functools import cache

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import logsigmoid

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

    The relative error is at most 2e-7 in float32 and 2e-14 in float64 for ``log_alpha`` between -20
    and 20, of the value and of the gradient; beyond, nothing overflows.

    ``log_alpha`` has any shape, in float32 or float64, else TypeError, and so has the result, in
    nats per weight; differentiable once.

    >>> loguniform_kl(torch.tensor([-2.0, 0.0, 2.0])).round(decimals=3)
    tensor([1.5440, 0.4270, 0.0660])
    """
    return _LogUniformKL.apply(log_alpha, _table_for(log_alpha))[0]


def loguniform_kl_slope(log_alpha: Tensor) -> Tensor:
    r"""``dKL / dlog alpha = -z F(z)`` with ``z = 1 / sqrt(2 alpha)``; arguments as above.

    >>> loguniform_kl_slope(torch.tensor([-20.0, 20.0])).round(decimals=3)
    tensor([-0.5000, -0.0000])
    """
    return _value_and_slope(log_alpha, _table_for(log_alpha))[1]


def kingma_kl(log_alpha: Tensor) -> Tensor:
    r"""Kingma's cubic: :math:`-\tfrac12\log\alpha - c_1\alpha - c_2\alpha^2 - c_3\alpha^3` plus
    ``KL_OFFSET``. The paper prints minus the divergence, and leaves its constant out.

    Made for ``alpha <= 1``. There it lies below the exact value by at most 0.0404 (at alpha = 0.12;
    0.037 at alpha = 1). Beyond, it falls to minus infinity like ``-c3 alpha**3``: nothing is
    clamped here, the caller must keep ``alpha <= 1``.

    >>> kingma_kl(torch.tensor([-2.0, 0.0, 2.0])).round(decimals=2)
    tensor([   1.5000,    0.3900, -163.4700])
    """
    alpha = log_alpha.exp()
    c1, c2, c3 = KINGMA
    return KL_OFFSET - log_alpha / 2 - alpha * (c1 + alpha * (c2 + alpha * c3))


def molchanov_kl(log_alpha: Tensor) -> Tensor:
    r"""Molchanov's sigmoid: :math:`k_1 \sigma(-k_2 - k_3 \log\alpha) + \tfrac12\log(1+1/\alpha)`.

    The paper prints minus this. Good for every ``alpha``: at most 0.0094 above the exact value (at
    log alpha = -3.5) and 0.0044 below it (at -1.8).

    >>> molchanov_kl(torch.tensor([-2.0, 0.0, 2.0])).round(decimals=3)
    tensor([1.5410, 0.4310, 0.0680])
    """
    k1, k2, k3 = MOLCHANOV
    return torch.sub(k1 * torch.sigmoid(-k3 * log_alpha - k2), logsigmoid(log_alpha), alpha=0.5)


class _LogUniformKL(torch.autograd.Function):
    """Value and slope of the divergence; the gradient is that of the value."""

    @staticmethod
    def forward(log_alpha: Tensor, table: Tensor | None) -> tuple[Tensor, Tensor]:
        return _value_and_slope(log_alpha, table)

    @staticmethod
    def setup_context(ctx, inputs: tuple, output: tuple[Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(output[1])

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor, _: Tensor) -> tuple[Tensor, None]:
        (slope,) = ctx.saved_tensors
        return grad * slope, None

    @staticmethod
    def vmap(info, in_dims: tuple, log_alpha: Tensor, table: Tensor | None) -> tuple[tuple, tuple]:
        return _LogUniformKL.apply(log_alpha, table), in_dims[:1] * 2  # elementwise: as without


def _value_and_slope(log_alpha: Tensor, table: Tensor | None) -> tuple[Tensor, Tensor]:
    """The divergence and its slope, by the series or from the table."""
    if table is None:
        return _series(log_alpha)
    # A block's intermediate results fit in the cache: above a million weights that is faster.
    blocks = log_alpha.detach().flatten().split(_BLOCK)
    values, slopes = zip(*(_interpolated(table, block) for block in blocks), strict=True)
    return torch.cat(values).view(log_alpha.shape), torch.cat(slopes).view(log_alpha.shape)


# Two series, exact to the rounding of float64.

_MAX_RATE = 64.0  # the largest mean number of events that is summed count by count


def _series(log_alpha: Tensor) -> tuple[Tensor, Tensor]:
    """The divergence and its slope from one of two series."""
    few_value, few_slope = _poisson_sum(log_alpha)
    many_value, many_slope = _small_alpha(log_alpha)
    is_few = log_alpha > -math.log(2 * _MAX_RATE)
    value = torch.where(is_few, few_value, many_value)
    slope = torch.where(is_few, few_slope, many_slope)
    return value, slope


def _poisson_sum(log_alpha: Tensor) -> tuple[Tensor, Tensor]:
    r"""For rates up to 64. No term is negative, so no digit is lost.

    .. math:: \sum_k \mathrm{Poisson}(k; \lambda) \sum_{j=1}^{k} \frac{1}{2j - 1}, \qquad
              -\lambda \sum_k \frac{\mathrm{Poisson}(k; \lambda)}{2k + 1}
    """
    rate = ((-log_alpha).exp() / 2).clamp(max=_MAX_RATE)
    poisson = (-rate).exp()  # the probability of k events
    odd_harmonic = 0.0  # 1 + 1/3 + ... + 1/(2k - 1)
    value = torch.zeros_like(rate)
    slope = torch.zeros_like(rate)
    for k in range(150):
        value = value + odd_harmonic * poisson
        slope = slope - poisson / (2 * k + 1)
        odd_harmonic += 1 / (2 * k + 1)
        poisson = poisson * rate / (k + 1)
    return value, rate * slope


def _small_alpha(log_alpha: Tensor) -> tuple[Tensor, Tensor]:
    r"""For larger rates, where that sum is long.

    .. math:: \texttt{KL\_OFFSET} - \tfrac12 \log\alpha
              - \tfrac12 \sum_{n \ge 1} \frac{(2n-1)!!\, \alpha^n}{n}, \qquad
              -\tfrac12 - \tfrac12 \sum_{n \ge 1} (2n-1)!!\, \alpha^n
    """
    alpha = log_alpha.exp().clamp(max=1 / (2 * _MAX_RATE))
    value = KL_OFFSET - log_alpha / 2
    slope = torch.full_like(alpha, -0.5)
    term = torch.full_like(alpha, 0.5)  # (2n - 1)!! alpha^n / 2
    for n in range(1, 22):
        term = term * alpha * (2 * n - 1)
        value = value - term / n
        slope = slope - term
    return value, slope


# In float32 a table of the series takes a tenth of their time, and its error is below the rounding:
# 1e-10 of the value and 3e-8 of the slope. Between two points it is the cubic with the values and
# the slopes of both (Hermite's).

_BLOCK = 2**18
_FROM = -20
_TO = 104  # exp(-104) is 0 in float32
_PER_UNIT = 64  # points in each unit of log alpha


def _table_for(log_alpha: Tensor) -> Tensor | None:
    """The table for float32, None for float64, made out of sight of vmap."""
    if log_alpha.dtype not in (torch.float32, torch.float64):
        raise TypeError(f"log_alpha must be a float32 or float64 tensor, got {log_alpha.dtype}")
    return _table(log_alpha.device) if log_alpha.dtype == torch.float32 else None


@cache
@torch.inference_mode(False)
def _table(device: torch.device) -> Tensor:
    """Coefficients of the cubics, ``(4, cells)``, in the distance from the left end of a cell."""
    points = torch.arange(_FROM * _PER_UNIT, _TO * _PER_UNIT + 1, dtype=torch.float64, device="cpu")
    value, slope = _series(points / _PER_UNIT)
    rise = value.diff()
    left = slope[:-1] / _PER_UNIT
    right = slope[1:] / _PER_UNIT
    square = 3 * rise - 2 * left - right
    cube = left + right - 2 * rise
    # The first cell goes on to minus infinity, as the line that the divergence is there.
    square[0] = 0
    cube[0] = 0
    return torch.stack([value[:-1], left, square, cube]).float().to(device)


def _interpolated(table: Tensor, log_alpha: Tensor) -> tuple[Tensor, Tensor]:
    """The divergence and its slope at each ``log_alpha``, by the cubic of its cell."""
    position = log_alpha.clamp(-1e36, _TO) * _PER_UNIT
    left_end = position.floor().clamp(_FROM * _PER_UNIT, _TO * _PER_UNIT - 1)
    d = position - left_end  # without rounding; a NaN stays here
    cell = (left_end - _FROM * _PER_UNIT).nan_to_num().long()
    c0, c1, c2, c3 = (coefficients.index_select(0, cell) for coefficients in table)
    value = c0 + d * (c1 + d * (c2 + d * c3))
    slope = c1 + d * (2 * c2 + d * 3 * c3)
    return value, slope * _PER_UNIT
