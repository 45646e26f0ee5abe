r"""Hierarchical dropout: structured dropout with a random scale for each input unit. Lesson 12.

The second contribution of Nguyen et al. (NeurIPS 2021) puts a distribution on the scale of each
input unit, which all examples of a batch share: ``p(W, z) = p(W | z) p(z)`` and ``q(W, z) = q(z)
q(W | z)``.

.. math:: \hat\xi_n = z \circ \xi_n, \qquad W = \operatorname{diag}(\hat\xi_n)\, \Theta, \qquad
          p(W_{ij} \mid z) = N(0, z_i^2 / \beta_{ij}).

(They do not print ``p(W | z)``; this is the reading under which their claim about the divergence
holds.) As a *standard deviation* z scales W and its prior alike and cancels from the conditional
divergence, so ``KL = KL(q(z) || p(z)) + KL of the noise xi``. Here ``q(z)`` is log-normal with mean
one: ``log z_i ~ N(-sigma_i^2 / 2, sigma_i^2)``. A free location adds nothing: scaling z by c and
row i of Theta by 1/c leaves the distribution of W and the divergence as they are; so the location
may go where ``KL(q(z) || p(z))`` is smallest, and the scale priors below are evaluated there.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from bdl_lessons.core.devices import single
from bdl_lessons.core.random import standard_normal
from bdl_lessons.core.validation import positive
from bdl_lessons.models.layers.structured_dropout import StructuredDropout


def lognormal_scale_kl(log_sigma2: Tensor, std: float = 1.0) -> Tensor:
    """``KL(q(z) || p(z))`` for ``p(z_i) = LogNormal(., std**2)``, whose location cancels, in nats.

    ``sum ½ (r - 1 - log r)`` with ``r = sigma² / std²``; ``std`` > 0, else ValueError.

    >>> lognormal_scale_kl(torch.zeros(3), std=1.0)  # the prior itself
    tensor(0.)
    """
    log_ratio = log_sigma2 - 2 * math.log(positive("std", std))
    return (log_ratio.expm1() - log_ratio).sum() / 2


def gamma_scale_kl(log_sigma2: Tensor, shape: float = 1.0) -> Tensor:
    """``KL(q(z) || p(z))`` for ``p(z_i) = Gamma(shape, .)``, whose rate cancels, in nats.

    ``sum a + log Gamma(a) - a log a + ½ (a sigma² - log(2 pi e sigma²))`` with a = shape > 0, else
    ValueError: that is :func:`~bdl_lessons.probability.lognormal_gamma_kl` at ``E[z] = shape /
    rate``.

    >>> gamma_scale_kl(torch.zeros(1), shape=1.0).round(decimals=3)
    tensor(0.0810)
    """
    a = positive("shape", shape)
    constant = a + math.lgamma(a) - a * math.log(a) - math.log(2 * math.pi * math.e) / 2
    return (constant + (a * log_sigma2.exp() - log_sigma2) / 2).sum()


class HierarchicalDropout(StructuredDropout):
    """Structured dropout times a log-normal scale of mean one for each input unit or channel.

    The examples of a batch share one ``z``; every index of the axes before, such as the sample axis
    S, has its own. So ``"per_example"`` draws one z for the batch and one xi for each example,
    ``"shared"`` one of each for each function, and ``"mean"`` has ``E[xi_hat] = 1``. ``log_alpha``
    is that of xi.

    Args:
        inner: the ``nn.Linear`` or ``nn.Conv2d`` whose inputs get the noise.
        scale_kl: the prior of the scales: their divergence in nats, a function of ``log_sigma2``,
            such as :func:`lognormal_scale_kl` or ``partial(gamma_scale_kl, shape=2.0)``.
        init_std: standard deviation of ``log z`` at the start, > 0, else ValueError.
        options: those of :class:`StructuredDropout`, by keyword, with their errors.

    >>> layer = HierarchicalDropout(nn.Linear(3, 2), n_reflections=2, init_std=1.0)
    >>> extra = layer.kl() - StructuredDropout.kl(layer)  # q(z) = p(z)
    >>> abs(extra.item()) < 1e-5
    True
    """

    def __init__(
        self,
        inner: nn.Linear | nn.Conv2d,
        scale_kl: Callable[[Tensor], Tensor] = lognormal_scale_kl,
        init_std: float = 0.1,
        **options,
    ) -> None:
        super().__init__(inner, **options)
        start = 2 * math.log(positive("init_std", init_std))
        self.log_sigma2 = nn.Parameter(torch.full((self.n_units,), start))
        self.scale_kl = scale_kl

    def draw_xi(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """``z ∘ xi``, ``(..., B, K)``, with one z for the B examples."""
        shape_of_z = (*shape[:-2], 1, shape[-1])
        eps = standard_normal(shape_of_z, generator, self.inner.weight)
        log_z = (self.log_sigma2 / 2).exp() * eps - self.log_sigma2.exp() / 2
        return log_z.exp() * super().draw_xi(shape, generator)

    def kl(self) -> Tensor:
        """``KL(q(z) || p(z))`` plus the divergence of the structured noise, in nats, 0-dim."""
        return self.scale_kl(single(self.log_sigma2)) + super().kl()

    def noise_cov(self) -> Tensor:
        """``Cov[z ∘ xi]``, ``(K, K)``."""
        return scaled_cov(super().noise_cov(), self.log_sigma2)


def scaled_cov(cov: Tensor, log_sigma2: Tensor) -> Tensor:
    """``Cov[z ∘ xi]`` for ``Cov[xi] = cov``, ``(K, K)``, and means of one.

    Off the diagonal nothing changes; on it ``1 + s_i`` becomes ``exp(sigma_i²) (1 + s_i)``.

    >>> cov, log_sigma2 = torch.tensor([[1.0, 0.5], [0.5, 1.0]]), torch.full((2,), -0.36651)
    >>> scaled_cov(cov, log_sigma2).round(decimals=3)  # sigma² = log 2
    tensor([[3.0000, 0.5000],
            [0.5000, 3.0000]])
    """
    added = log_sigma2.exp().expm1() * (1 + cov.diagonal())
    return cov + added.diag()
