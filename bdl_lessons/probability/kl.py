r"""Kullback-Leibler divergences: what a posterior pays for leaving the prior.

.. math:: \mathrm{KL}(q \,\|\, p) = \mathbb{E}_{q(w)}[\log q(w) - \log p(w)] \ge 0

The first distribution is always ``q``, the approximation; the second is ``p``, the prior or the
posterior it stands for. The order matters: ``KL(q || p)`` is not ``KL(p || q)``. Every function
returns a positive sum over all weights in nats, as a 0-dim tensor. A variance of 0 is refused:
a ``q`` without a density has infinite divergence from one that has it.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from bdl_lessons.core import validation
from bdl_lessons.core.autograd import inside_vmap, known_slope

Number = float | Tensor


def gaussian_kl(mean_q: Tensor, var_q: Number, mean_p: Number = 0.0, var_p: Number = 1.0) -> Tensor:
    r"""``KL(N(mean_q, var_q) || N(mean_p, var_p))`` for independent weights, summed.

    .. math:: \tfrac12 \sum_i \Big( \frac{\sigma_{q,i}^2}{\sigma_{p,i}^2}
              + \frac{(\mu_{q,i} - \mu_{p,i})^2}{\sigma_{p,i}^2} - 1
              - \log\frac{\sigma_{q,i}^2}{\sigma_{p,i}^2} \Big)

    Args:
        mean_q: any shape; it sets the number of weights.
        var_q, mean_p, var_p: variances and means that broadcast to the shape of ``mean_q``.

    Raises:
        TypeError: if ``mean_q`` is not a floating-point tensor.
        ValueError: for a NaN, a variance that is not positive, or a shape that would enlarge
            ``mean_q`` and so count weights twice.
    """
    validation.floating("mean_q", mean_q)
    mean_p = validation.finite("mean_p", validation.like(mean_q, "mean_p", mean_p))
    var_q = validation.variance("var_q", validation.like(mean_q, "var_q", var_q))
    var_p = validation.variance("var_p", validation.like(mean_q, "var_p", var_p))
    ratio, tiny = var_q / var_p, torch.finfo(mean_q.dtype).tiny
    log_ratio = torch.where(
        ratio > tiny, ratio.clamp_min(tiny).log(), var_q.log() - var_p.log()
    )  # a ratio that underflows has a logarithm all the same
    return 0.5 * (ratio - 1 - log_ratio + (mean_q - mean_p).square() / var_p).sum()


def gaussian_kl_to_prior(mean: Tensor, log_sigma2: Tensor, prior_var: float = 1.0) -> Tensor:
    r"""``KL(N(mean, exp(log_sigma2)) || N(0, prior_var))``, summed: the form a layer trains with.

    The variance enters by its logarithm, which may be any real number, so no constraint is left
    to enforce. With ``d = log_sigma2 - log(prior_var)`` the sum is
    :math:`\tfrac12 \sum_i (e^{d_i} - 1 - d_i + \mu_i^2 / \sigma_p^2)`, no term of which is
    negative.

    Args:
        mean, log_sigma2: one shape; means and log variances of the weights.
        prior_var: the variance of the prior, > 0.

    Raises:
        ValueError: if the shapes differ, ``prior_var`` is not positive or the result is not
            finite (only the result is looked at: one number, whatever the number of weights).
    """
    if mean.shape != log_sigma2.shape:
        raise ValueError(
            f"mean has shape {tuple(mean.shape)}, log_sigma2 has {tuple(log_sigma2.shape)}; "
            "each weight needs one of each"
        )
    if not 0 < prior_var < math.inf:
        raise ValueError(f"prior_var must be positive and finite, got {prior_var}")
    with torch.no_grad():
        d = log_sigma2 if prior_var == 1 else log_sigma2 - math.log(prior_var)
        slope = d.expm1()
        of_variances = slope.sum() - d.sum()
        of_means = torch.linalg.vector_norm(mean).square() / 2
    kl = known_slope(of_variances, (log_sigma2, slope)) / 2
    kl = kl + known_slope(of_means, (mean, mean)) / prior_var
    if not inside_vmap() and not kl.isfinite():
        raise ValueError("mean and log_sigma2 must be finite and small enough for a finite KL")
    return kl


def gaussian_kl_full(mean_q: Tensor, cov_q: Tensor, mean_p: Tensor, cov_p: Tensor) -> Tensor:
    r"""``KL(N(mean_q, cov_q) || N(mean_p, cov_p))`` for K correlated weights.

    .. math:: \tfrac12 \big( \mathrm{tr}(\Sigma_p^{-1}\Sigma_q)
              + (\mu_p - \mu_q)^\top \Sigma_p^{-1} (\mu_p - \mu_q) - K
              + \log|\Sigma_p| - \log|\Sigma_q| \big)

    Both covariances are factored once (Cholesky); no inverse is formed.

    Args:
        mean_q, mean_p: ``(K,)``.
        cov_q, cov_p: ``(K, K)``, symmetric and positive definite.

    Raises:
        TypeError: if a mean is not a floating-point tensor.
        ValueError: for a wrong shape, a NaN, or a covariance that is not symmetric and positive
            definite.
    """
    validation.floating("mean_q", mean_q)
    if mean_q.dim() != 1 or mean_p.shape != mean_q.shape:
        raise ValueError(
            "mean_q and mean_p must be vectors of one length, "
            f"got {tuple(mean_q.shape)} and {tuple(mean_p.shape)}"
        )
    validation.floating("mean_p", mean_p)
    L_q = validation.cholesky("cov_q", cov_q, len(mean_q))
    L_p = validation.cholesky("cov_p", cov_p, len(mean_q))
    spread = torch.linalg.solve_triangular(L_p, L_q, upper=False).square().sum()
    offset = torch.linalg.solve_triangular(L_p, (mean_p - mean_q)[:, None], upper=False)
    log_det_ratio = 2 * (L_p.diagonal().log() - L_q.diagonal().log()).sum()
    return 0.5 * (spread + offset.square().sum() - len(mean_q) + log_det_ratio)


def dropout_mixture(M: Tensor, p_drop: float) -> tuple[Tensor, Tensor]:
    """The two components of each column of ``M diag(z)``, ``z ~ Bernoulli(1 - p_drop)``.

    Args:
        M: ``(L, K)``, L outputs and K inputs; column k is what dropping input k removes.
        p_drop: probability of dropping an input, in [0, 1].

    Returns:
        probs ``(2,) = (1 - p_drop, p_drop)`` and means ``(K, 2, L)``: a column is either kept
        (mean ``M[:, k]``) or dropped (mean 0). ``mixture_kl`` takes them as they are.

    Raises:
        TypeError: if ``M`` is not a floating-point tensor.
        ValueError: if ``M`` is not a finite matrix or ``p_drop`` lies outside [0, 1].
    """
    validation.floating("M", M)
    if M.dim() != 2:
        raise ValueError(f"M must be a matrix (L, K), got shape {tuple(M.shape)}")
    if not 0 <= p_drop <= 1:
        raise ValueError(f"p_drop must lie in [0, 1], got {p_drop}")
    probs = torch.tensor([1 - p_drop, p_drop], dtype=M.dtype, device=M.device)
    return probs, torch.stack([M.mT, torch.zeros_like(M.mT)], dim=-2)


def mixture_kl(probs: Tensor, means: Tensor, var: Number, prior_var: Number = 1.0) -> Tensor:
    r"""``KL(sum_c probs_c N(means_c, var) || N(0, prior_var))`` if no two components overlap.

    With :math:`H(p) = -\sum_c p_c \log p_c`, the entropy of the choice of component,

    .. math:: \mathrm{KL} \approx \sum_c p_c\, \mathrm{KL}(N_c \,\|\, p) - H(p)
              = \sum_c \frac{p_c}{2} \big( l^2 \mu_c^\top\mu_c + l^2\,\mathrm{tr}\,\Sigma_c - L
              - \log|\Sigma_c| - L \log l^2 \big) - H(p), \qquad l^2 = 1/\text{prior\_var}

    (Gal & Ghahramani 2016, appendix, Proposition 1, with its constants corrected). It is a lower
    bound: the exact divergence lies between it and it plus ``H(p)``, once per mixture, because
    what is missing is the entropy of the component *given* the weights, which is 0 only if the
    weights give their component away. It grows without limit as ``var`` goes to 0.

    Args:
        probs: ``(C,)``, sums to 1.
        means: ``(..., C, L)``; leading axes are independent mixtures, summed over.
        var: component variances that broadcast to the shape of ``means``.
        prior_var: variance of the prior, one number.

    Raises:
        TypeError: if ``probs`` or ``means`` is not a floating-point tensor.
        ValueError: for a NaN, a variance that is not positive, probabilities that are negative or
            do not sum to 1, or shapes that do not fit.
    """
    var, prior_var = _mixture_input(probs, means, var, prior_var)
    ratio = var / prior_var
    kl = 0.5 * (ratio - 1 - ratio.log() + means.square() / prior_var).sum(-1)
    return (probs * kl + torch.xlogy(probs, probs)).sum()


def mixture_kl_monte_carlo(
    probs: Tensor,
    means: Tensor,
    var: Number,
    prior_var: Number = 1.0,
    *,
    n_samples: int,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """Unbiased estimate of the exact ``KL(mixture || N(0, prior_var))`` and its standard error.

    Averages ``log q(w) - log p(w)`` over draws from one mixture; ``log q`` is a logsumexp over
    the components. Arguments and errors are those of ``mixture_kl``, but ``means`` is ``(C, L)``
    and ``n_samples`` at least 2. Draws are made on the generator's device.

    Returns:
        (kl, standard error), both 0-dim, in nats.
    """
    if means.dim() != 2:
        raise ValueError(f"means must be one mixture (C, L), got shape {tuple(means.shape)}")
    if n_samples < 2:
        raise ValueError(f"n_samples must be at least 2, got {n_samples}")
    var, prior_var = _mixture_input(probs, means, var, prior_var)
    var, where = var.expand_as(means), generator.device
    component = torch.multinomial(
        probs.detach().to(where), n_samples, replacement=True, generator=generator
    ).to(means.device)
    noise = torch.randn(
        n_samples, means.shape[1], dtype=means.dtype, device=where, generator=generator
    ).to(means.device)
    w = means[component] + var[component].sqrt() * noise
    log_q = (probs.log() + _log_normal(w[:, None], means, var)).logsumexp(-1)
    log_ratio = log_q - _log_normal(w, torch.zeros_like(w), prior_var)
    return log_ratio.mean(), log_ratio.std() / math.sqrt(n_samples)


def _mixture_input(probs: Tensor, means: Tensor, var: Number, prior_var: Number):
    validation.floating("probs", probs)
    validation.floating("means", means)
    if means.dim() < 2 or probs.shape != means.shape[-2:-1]:
        raise ValueError(
            "means must be (..., C, L) with one row per entry of probs (C,), "
            f"got means {tuple(means.shape)} and probs {tuple(probs.shape)}"
        )
    if not ((probs >= 0).all() and torch.allclose(probs.sum(), torch.ones_like(probs.sum()))):
        raise ValueError("probs must be probabilities: none negative, summing to 1")
    var = validation.variance("var", validation.like(means, "var", var))
    prior_var = torch.as_tensor(prior_var, dtype=means.dtype, device=means.device)
    if prior_var.dim():
        raise ValueError(f"prior_var must be one number, got shape {tuple(prior_var.shape)}")
    return var, validation.variance("prior_var", prior_var)


def _log_normal(w: Tensor, mean: Tensor, var: Tensor) -> Tensor:
    return -0.5 * ((w - mean).square() / var + (2 * math.pi * var).log()).sum(-1)
