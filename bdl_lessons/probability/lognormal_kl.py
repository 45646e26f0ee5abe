r"""What a log-normal posterior of positive scales pays: against a log-normal and a Gamma prior.

Scales ``z_i > 0`` have ``q(z) = LogNormal(mu, sigma2)``:
:math:`\log z_i \sim N(\mu_i, \sigma_i^2)`. So ``mu`` and ``sigma2`` are mean and variance of the
*logarithm*; the scale itself has

.. math:: \mathbb E[z] = e^{\mu + \sigma^2/2}, \qquad
          \mathbb E[z^2] = e^{2\mu + 2\sigma^2}, \qquad
          H(q) = \tfrac12 \log(2\pi e\, \sigma^2) + \mu.

Divergences are positive sums in nats over all scales, 0-dim. They have gradients and run under
``vmap``.
"""

from __future__ import annotations

import math

from torch import Tensor

from bdl_lessons.core import validation
from bdl_lessons.probability.kl import Number, gaussian_kl


def lognormal_kl(
    mu: Tensor, log_sigma2: Tensor, prior_mu: Number = 0.0, prior_log_sigma2: Number = 0.0
) -> Tensor:
    """``KL(LogNormal(mu, sigma2) || LogNormal(prior_mu, prior_sigma2))``, summed.

    A divergence does not change when both laws are mapped by the same invertible function, here
    the logarithm: this is the divergence of the two Gaussians of ``log z``.

    Args:
        mu, log_sigma2: one shape.
        prior_mu, prior_log_sigma2: broadcast to it.

    Raises:
        TypeError: if ``mu`` is not a floating-point tensor.
        ValueError: for a NaN, a variance that overflows, or shapes that do not fit.
    """
    validation.floating("mu", mu)
    prior_var = validation.like(mu, "prior_log_sigma2", prior_log_sigma2).exp()
    return gaussian_kl(mu, _var(mu, log_sigma2), prior_mu, prior_var)


def lognormal_gamma_kl(mu: Tensor, log_sigma2: Tensor, shape: float, rate: float) -> Tensor:
    r"""``KL(LogNormal(mu, sigma2) || Gamma(shape, rate))``, summed.

    With shape a and rate b, ``p(z) = b**a z**(a-1) exp(-b z) / Gamma(a)``, the divergence is

    .. math:: \sum_i -\tfrac12\log(2\pi e\, \sigma_i^2) + \log\Gamma(a) - a \log b - a\, \mu_i
              + b\, e^{\mu_i + \sigma_i^2/2}.

    It is smallest in ``mu`` where ``E[z] = a / b``, the mean of the prior.

    Args:
        mu, log_sigma2: one shape.
        shape, rate: of the prior, both > 0.

    Raises:
        TypeError: if ``mu`` is not a floating-point tensor.
        ValueError: for a NaN, a variance that overflows, a ``shape`` or ``rate`` that is not
            positive, or shapes that do not fit.
    """
    validation.floating("mu", mu)
    sigma2 = _var(mu, log_sigma2)
    for name, value in (("shape", shape), ("rate", rate)):
        if not 0 < value < math.inf:
            raise ValueError(f"{name} must be positive and finite, got {value}")
    entropy_less_mu = 0.5 * (math.log(2 * math.pi * math.e) + log_sigma2)
    log_normaliser = math.lgamma(shape) - shape * math.log(rate)
    return (log_normaliser - shape * mu + rate * (mu + sigma2 / 2).exp() - entropy_less_mu).sum()


def _var(mu: Tensor, log_sigma2: Tensor) -> Tensor:
    if mu.shape != log_sigma2.shape:
        raise ValueError(
            f"mu has shape {tuple(mu.shape)}, log_sigma2 has {tuple(log_sigma2.shape)}; "
            "each scale needs one of each"
        )
    return validation.variance("exp(log_sigma2)", log_sigma2.exp())
