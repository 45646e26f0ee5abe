r"""Kullback-Leibler divergences between Gaussians, log-normals and the mixture of dropout.

.. math:: \mathrm{KL}(q \,\|\, p) = \mathbb{E}_{q(w)}[\log q(w) - \log p(w)] \ge 0

The first distribution is always ``q``, the approximation; the second is ``p``, the prior or the
posterior it stands for. ``KL(q || p)`` is not ``KL(p || q)``. Every function returns a sum over all
weights in nats, as a 0-dim tensor, in float32 at least.

Shapes that do not fit raise ValueError, and so do shapes that would enlarge the first argument by
broadcasting and count weights twice. The values of tensors are not checked: a variance of 0 has an
infinite divergence, a negative one gives NaN. Lessons 02, 04 and 12.
"""

import math

import torch
from torch import Tensor
from torch.distributions import MultivariateNormal, Normal, kl_divergence

from bdl_lessons.core import validation
from bdl_lessons.core.devices import single
from bdl_lessons.core.random import standard_normal

Number = float | Tensor


def gaussian_kl(mean_q: Tensor, var_q: Number, mean_p: Number = 0.0, var_p: Number = 1.0) -> Tensor:
    r"""``KL(N(mean_q, var_q) || N(mean_p, var_p))`` for independent weights, summed. Lesson 02.

    .. math:: \tfrac12 \sum_i \Big( \frac{\sigma_{q,i}^2}{\sigma_{p,i}^2} - 1
              - \log\frac{\sigma_{q,i}^2}{\sigma_{p,i}^2}
              + \frac{(\mu_{q,i} - \mu_{p,i})^2}{\sigma_{p,i}^2} \Big)

    The ratio enters by its logarithm d, as ``exp(d) - 1 - d``. ``torch.distributions`` squares the
    ratio of the standard deviations instead; where that underflows, its result is infinite.

    Args:
        mean_q: any shape; it sets the number of weights. TypeError if it is not floating-point.
        var_q, mean_p, var_p: variances and means that broadcast to the shape of ``mean_q``.

    >>> gaussian_kl(torch.tensor([1.0, 3.0]), 1.0, mean_p=1.0)
    tensor(2.)
    """
    mean_q = single(validation.floating_type("mean_q", mean_q))
    var_q = validation.like(mean_q, "var_q", var_q)
    mean_p = validation.like(mean_q, "mean_p", mean_p)
    var_p = validation.like(mean_q, "var_p", var_p)
    d = var_q.log() - var_p.log()
    return 0.5 * (d.expm1() - d + (mean_q - mean_p).square() / var_p).sum()


def gaussian_kl_to_prior(mean: Tensor, log_sigma2: Tensor, prior_var: float = 1.0) -> Tensor:
    r"""``KL(N(mean, exp(log_sigma2)) || N(0, prior_var))``, summed: for a layer. Lesson 06.

    ``mean`` and ``log_sigma2`` have one shape. The variance enters by its logarithm, so that no
    constraint is left to enforce. Each term is summed by itself: fewer passes over memory.

    >>> gaussian_kl_to_prior(torch.tensor([3.0, 4.0]), torch.zeros(2)).round(decimals=3)
    tensor(12.5000)
    """
    validation.same_shape("mean", mean, "log_sigma2", log_sigma2)
    mean = single(mean)
    log_sigma2 = single(log_sigma2)
    d = log_sigma2 - math.log(prior_var)
    of_means = torch.linalg.vector_norm(mean).square() / prior_var
    return (d.expm1().sum() - d.sum() + of_means) / 2


def gaussian_kl_full(mean_q: Tensor, cov_q: Tensor, mean_p: Tensor, cov_p: Tensor) -> Tensor:
    r"""``KL(N(mean_q, cov_q) || N(mean_p, cov_p))`` for K correlated weights. Lesson 02.

    .. math:: \tfrac12 \big( \mathrm{tr}(\Sigma_p^{-1}\Sigma_q)
              + (\mu_p - \mu_q)^\top \Sigma_p^{-1} (\mu_p - \mu_q) - K
              + \log|\Sigma_p| - \log|\Sigma_q| \big)

    Args:
        mean_q, mean_p: ``(K,)``.
        cov_q, cov_p: ``(K, K)``, symmetric and positive definite, else ValueError.

    >>> gaussian_kl_full(torch.tensor([1.0, 3.0]), torch.eye(2), torch.ones(2), torch.eye(2))
    tensor(2.)
    """
    K = mean_q.numel()
    validation.shapes("mean_q must be (K,) and mean_p (K,)", mean_q, mean_p)
    L_q = validation.cholesky("cov_q", single(cov_q), K)
    L_p = validation.cholesky("cov_p", single(cov_p), K)
    q = MultivariateNormal(single(mean_q), scale_tril=L_q, validate_args=False)
    p = MultivariateNormal(single(mean_p), scale_tril=L_p, validate_args=False)
    return kl_divergence(q, p)


def lognormal_kl(
    mu: Tensor, log_sigma2: Tensor, prior_mu: Number = 0.0, prior_log_sigma2: Number = 0.0
) -> Tensor:
    """``KL(LogNormal(mu, sigma2) || LogNormal(prior_mu, prior_sigma2))``, summed. Lesson 12.

    ``mu`` and ``sigma2``, of one shape, are mean and variance of ``log z``; the prior's broadcast.
    A divergence does not change when both distributions are mapped by one invertible function: this
    is that of the two Gaussians.

    >>> lognormal_kl(torch.tensor([1.0, 3.0]), torch.zeros(2), prior_mu=1.0)
    tensor(2.)
    """
    validation.same_shape("mu", validation.floating_type("mu", mu), "log_sigma2", log_sigma2)
    mu = single(mu)
    prior_var = validation.like(mu, "prior_log_sigma2", prior_log_sigma2).exp()
    return gaussian_kl(mu, single(log_sigma2).exp(), prior_mu, prior_var)


def lognormal_gamma_kl(mu: Tensor, log_sigma2: Tensor, shape: float, rate: float) -> Tensor:
    r"""``KL(LogNormal(mu, sigma2) || Gamma(shape, rate))``, summed. Lesson 12.

    ``log z ~ N(mu, sigma2)`` has the entropy :math:`\mu + \tfrac12 \log(2\pi e\, \sigma^2)` of z
    and the mean :math:`\mathbb E[z] = e^{\mu + \sigma^2/2}`. The prior is
    ``p(z) = rate**shape z**(shape-1) exp(-rate z) / Gamma(shape)``. The divergence is smallest in
    ``mu`` where ``E[z] = shape / rate``, the mean of the prior.

    ``mu`` and ``log_sigma2`` have one shape; ``shape`` and ``rate`` are positive, else ValueError.

    >>> lognormal_gamma_kl(torch.zeros(1), torch.zeros(1), shape=1.0, rate=1.0).round(decimals=3)
    tensor(0.2300)
    """
    validation.same_shape("mu", mu, "log_sigma2", log_sigma2)
    validation.positive("shape", shape)
    validation.positive("rate", rate)
    mu = single(mu)
    log_sigma2 = single(log_sigma2)
    entropy = mu + 0.5 * (math.log(2 * math.pi * math.e) + log_sigma2)
    mean = (mu + log_sigma2.exp() / 2).exp()
    log_normaliser = math.lgamma(shape) - shape * math.log(rate)
    expected_log_p = (shape - 1) * mu - rate * mean - log_normaliser
    return (-entropy - expected_log_p).sum()


def dropout_mixture(M: Tensor, p_drop: float) -> tuple[Tensor, Tensor]:
    """The two components of each column of ``M diag(z)``, ``z ~ Bernoulli(1 - p_drop)``. Lesson 04.

    ``M`` is ``(L, K)``, L outputs and K inputs. Returns probs ``(2,) = (1 - p_drop, p_drop)`` and
    means ``(K, 2, L)``: column k is either kept (mean ``M[:, k]``) or dropped (mean 0).
    ``mixture_kl`` takes them as they are.

    >>> dropout_mixture(torch.tensor([[2.0], [3.0]]), p_drop=0.5)
    (tensor([0.5000, 0.5000]), tensor([[[2., 3.],
             [0., 0.]]]))
    """
    validation.shapes("M must be (L, K)", M)
    probs = torch.tensor([1 - p_drop, p_drop], dtype=M.dtype, device=M.device)
    return probs, torch.stack([M.mT, torch.zeros_like(M.mT)], dim=-2)


def mixture_kl(probs: Tensor, means: Tensor, var: Number, prior_var: Number = 1.0) -> Tensor:
    r"""``KL(sum_c probs_c N(means_c, var) || N(0, prior_var))`` if no two components overlap.

    With :math:`H(p) = -\sum_c p_c \log p_c`, the entropy of the choice of component,

    .. math:: \mathrm{KL} \approx \sum_c p_c\, \mathrm{KL}(N_c \,\|\, p) - H(p)
              = \sum_c \frac{p_c}{2} \big( l^2 \mu_c^\top\mu_c + l^2\,\mathrm{tr}\,\Sigma_c - L
              - \log|\Sigma_c| - L \log l^2 \big) - H(p), \qquad l^2 = 1/\text{prior\_var}

    (Gal & Ghahramani 2016, appendix, Proposition 1, with its constants corrected; Lesson 04). It is
    a lower bound: the exact divergence lies between it and it plus ``H(p)``, once per mixture,
    because what is missing is the entropy of the component *given* the weights, which is 0 only if
    the weights give their component away. It grows without limit as ``var`` goes to 0.

    Args:
        probs: ``(C,)``, sums to 1.
        means: ``(..., C, L)``; leading axes are independent mixtures, summed over.
        var: component variances that broadcast to the shape of ``means``.
        prior_var: variance of the prior, one number.

    >>> spikes = dropout_mixture(torch.tensor([[10.0], [10.0]]), p_drop=0.5)
    >>> mixture_kl(*spikes, var=1.0).round(decimals=2)  # half of 10² + 10², over 2, less log 2
    tensor(49.3100)
    """
    probs, means, var, prior_var = _in_single(probs, means, var, prior_var)
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

    Averages ``log q(w) - log p(w)`` over draws from one mixture, in nats; both are 0-dim. Arguments
    are those of ``mixture_kl``, but ``means`` is ``(C, L)`` and ``n_samples`` at least 2.

    >>> probs, means = dropout_mixture(torch.tensor([[10.0], [10.0]]), p_drop=0.5)
    >>> g = torch.Generator().manual_seed(0)
    >>> kl, error = mixture_kl_monte_carlo(probs, means[0], 1.0, n_samples=1000, generator=g)
    >>> abs(kl - mixture_kl(probs, means, 1.0)) < 5 * error
    tensor(True)
    """
    validation.shapes("means must be one mixture (C, L)", means)
    validation.integer("n_samples", n_samples, 2)
    probs, means, var, prior_var = _in_single(probs, means, var, prior_var)
    std = var.sqrt().expand_as(means)
    there = probs.detach().to(generator.device)
    component = torch.multinomial(there, n_samples, replacement=True, generator=generator)
    component = component.to(means.device)
    noise = standard_normal((n_samples, means.shape[1]), generator, means)
    w = means[component] + std[component] * noise
    log_components = Normal(means, std, validate_args=False).log_prob(w[:, None]).sum(-1)
    log_p = Normal(0, prior_var.sqrt(), validate_args=False).log_prob(w).sum(-1)
    log_ratio = (probs.log() + log_components).logsumexp(-1) - log_p
    return log_ratio.mean(), log_ratio.std() / math.sqrt(n_samples)


def _in_single(
    probs: Tensor, means: Tensor, var: Number, prior_var: Number
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The arguments of a mixture as tensors of one dtype, float32 at least, if their shapes fit."""
    means = single(validation.floating_type("means", means))
    validation.shapes("means must be (..., C, L) and probs (C,)", means, probs)
    var = validation.like(means, "var", var)
    prior_var = validation.like(means.new_empty(()), "prior_var", prior_var)
    return probs.to(means), means, var, prior_var
