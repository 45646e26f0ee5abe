r"""The two divergences of :mod:`sparse_vd`, summed over the weights: value and slopes in one pass.

No lesson shows this file; the layers of lesson 08 use it.

With the best prior variance :math:`\lambda^2 = \mu^2 + \sigma^2` of a weight, that of ARD is

.. math:: \mathrm{KL} = \tfrac12 \log\frac{\lambda^2}{\sigma^2}, \qquad
          \frac{\partial\,\mathrm{KL}}{\partial\mu} = \frac{\mu}{\lambda^2}, \qquad
          \frac{\partial\,\mathrm{KL}}{\partial\log\sigma^2} = -\frac{\mu^2}{2\lambda^2}.

Molchanov's approximation adds :math:`k_1 s` with
:math:`s = \mathrm{sigmoid}(k_3 (\log\mu^2 - \log\sigma^2) - k_2)`, whose slopes are
:math:`k_1 k_3\, s (1 - s)` times :math:`2 / \mu` and times :math:`-1`.

Squares leave the range of a dtype before their roots do: in float32 the sums are infinite from
``|mu| = 1.8e19`` on, where the elementwise formulas still hold.
"""

from __future__ import annotations

import torch
from torch import Tensor

from bdl_lessons.core.autograd import known_slope
from bdl_lessons.probability.loguniform_kl import MOLCHANOV


def ard_kl_sum(mu: Tensor, log_sigma2: Tensor) -> Tensor:
    """``ard_kl(log_relative_variance(mu, log_sigma2)).sum()``, 0-dim, in nats."""
    with torch.no_grad():
        value, by_mu, by_log_sigma2 = _ard(mu, log_sigma2, _square(mu))
    return known_slope(value, (mu, by_mu), (log_sigma2, by_log_sigma2))


def molchanov_kl_sum(mu: Tensor, log_sigma2: Tensor) -> Tensor:
    """``molchanov_kl(log_relative_variance(mu, log_sigma2)).sum()``, 0-dim, in nats."""
    k1, k2, k3 = MOLCHANOV
    with torch.no_grad():
        mu2 = _square(mu)
        value, by_mu, by_log_sigma2 = _ard(mu, log_sigma2, mu2)
        s = mu2.log().sub_(log_sigma2).mul_(k3).sub_(k2).sigmoid_()
        value = value + k1 * s.sum()
        slope = (1 - s).mul_(s).mul_(k1 * k3)
        by_log_sigma2.sub_(slope)
        by_mu.add_(slope.mul_(mu).div_(mu2), alpha=2)
    return known_slope(value, (mu, by_mu), (log_sigma2, by_log_sigma2))


def _ard(mu: Tensor, log_sigma2: Tensor, mu2: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    sigma2 = log_sigma2.exp()
    value = (mu2 / sigma2).log1p_().sum() / 2
    by_mu = mu / sigma2.add_(mu2)
    return value, by_mu, (mu * by_mu).div_(-2)


def _square(mu: Tensor) -> Tensor:
    """``mu**2``, at least the smallest normal number: its logarithm and its inverse are finite."""
    return mu.square().clamp_min_(torch.finfo(mu.dtype).tiny)
