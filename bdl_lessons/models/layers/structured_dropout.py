r"""Variational structured dropout (VSD): Gaussian dropout whose noise is rotated. Lesson 11.

Nguyen et al., NeurIPS 2021: the factors of a layer's K input units are correlated.

.. math:: \xi = 1 + U \eta, \quad \eta \sim N(0, \mathrm{diag}(\alpha)), \quad U = H_T \cdots H_1,
          \qquad \xi \sim N(1,\ U\, \mathrm{diag}(\alpha)\, U^\top).

The mean is not rotated. T = 0 is the noise of variational dropout. With T reflections the
covariance differs from a diagonal one by a matrix of rank at most 2 T, and a draw takes O(K T). The
layer multiplies its inputs by xi: ``W = diag(xi) Theta``. Two things to know:

- **With equal alphas U has no effect.** ``U (alpha I) U' = alpha I``: the distribution is that of
  T = 0 whatever the vectors are, and they get no gradient on average. So the alphas start apart.
- **The joint distribution stays degenerate.** All columns of W share xi, so the covariance of W
  has rank K out of K Q, for T = 0 and for T > 0. The component of W that goes with ``eta_i`` is
  ``diag(U_{:i}) Theta``; without rotation it is zero outside row i.
"""

import math

import torch
from torch import Tensor, nn

from bdl_lessons.core.devices import single
from bdl_lessons.core.random import standard_normal
from bdl_lessons.core.validation import bound, integer, non_negative, one_of
from bdl_lessons.models.layers.base import UnitNoise, clamp_with_grad, matched_log_alpha
from bdl_lessons.probability import loguniform_kl, orthogonal_matrix, reflect, rotated_variance


class StructuredDropout(UnitNoise):
    r"""``W = diag(xi) Theta`` with ``xi ~ N(1, U diag(alpha) U')``, all learned.

    ``layer(x, "per_example", generator)`` draws ``xi`` by :meth:`draw_xi`, K factors for every
    example, and gives ``inner(x * xi)``, which is ``(x * xi) @ Theta + b``. With ``"shared"`` all
    examples have the same ``xi``, with ``"mean"`` it is 1. A factor acts on an input unit, or on an
    input channel of a convolution. With ``n_reflections=0`` the noise is that of
    ``VariationalDropout(alpha_per="unit")``.

    **Watch the size of the KL.** With ``kl_per="weight"``, as published, it counts every weight: at
    alpha 0.05, 0.25 and 1 that of a 784 -> 400 layer is 8.0, 4.2 and 1.8 nats for each of 60 000
    training images; guessing among ten classes loses 2.3. It drives the alphas to ``max_alpha``
    first and trains the network afterwards. By default each random factor is counted once, which
    lesson 11 recommends; ``fit`` can weigh the KL too (``kl_weight``). What the authors used is not
    known. The KL does not depend on Theta: decay its weights if they should stay small.

    The vectors and the alphas of a new layer are drawn from PyTorch's global generator, as weights
    are; :meth:`reset_noise` draws them from yours.

    Args:
        inner: the ``nn.Linear`` or ``nn.Conv2d`` whose inputs get the noise.
        n_reflections: T, the number of Householder vectors; 0 and more than K are fine.
        init_p_drop: the alphas start around ``init_p_drop / (1 - init_p_drop)``.
        alpha_spread: standard deviation of log alpha at the start. At 0 the alphas are equal and
            the reflections have no effect and no gradient.
        min_alpha, max_alpha: bounds on alpha; ``max_alpha=math.inf`` is no upper bound.
        prior: ``"empirical_bayes"``, as published: the best Gaussian prior of every weight. Or the
            ``"log_uniform"`` one of variational dropout, up to its constant, by the chain rule:
            the KL of every factor by itself and the factors' total correlation.
        kl_per: ``"factor"``, as in variational dropout, counts a random factor once; ``"weight"``
            counts all Q weights of a row, as published.

    Raises:
        TypeError, ValueError: for a setting that is unknown or out of range, or bounds that do not
            hold the alpha of ``init_p_drop``; the message names it.

    >>> layer = StructuredDropout(
    ...     nn.Linear(3, 2), n_reflections=1, init_p_drop=0.5, alpha_spread=0.0
    ... )
    >>> round(layer.kl().item() / 3, 3)  # log(1 + 1 / alpha) / 2 for each factor, at alpha = 1
    0.347
    """

    batch_may_differ = ("init_log_alpha", "alpha_spread")

    def __init__(
        self,
        inner: nn.Linear | nn.Conv2d,
        n_reflections: int = 2,
        init_p_drop: float = 0.2,
        alpha_spread: float = 0.1,
        min_alpha: float = 1e-4,
        max_alpha: float = 1.0,
        prior: str = "empirical_bayes",
        kl_per: str = "factor",
    ) -> None:
        super().__init__(inner)
        integer("n_reflections", n_reflections, least=0)
        self.init_log_alpha = start_between(min_alpha, max_alpha, init_p_drop)
        self.alpha_spread = non_negative("alpha_spread", alpha_spread)
        self.bounds = (math.log(min_alpha), math.log(max_alpha))
        self.prior = one_of("prior", prior, ("empirical_bayes", "log_uniform"))
        self.kl_per = one_of("kl_per", kl_per, ("factor", "weight"))
        self.raw_log_alpha = nn.Parameter(torch.empty(self.n_units))
        self.vectors = nn.Parameter(torch.empty(n_reflections, self.n_units))
        self.reset_noise(torch.default_generator)

    @property
    def log_alpha(self) -> Tensor:
        """Log variances before the reflections, ``(K,)``: what is learned, within its bounds."""
        return clamp_with_grad(self.raw_log_alpha, *self.bounds)

    def householder_vectors(self) -> Tensor:
        """``(T, K)``, the first reflection first.

        A reflection depends on the direction alone, so the length of a vector sets the pace: Adam
        turns one of half the length twice as fast.
        """
        return self.vectors

    def draw_xi(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """``1 + U eta``, ``(..., K)``: independent Gaussians, reflected T times.

        ``reflect`` does this to eta, one vector after the other, in fewer operations::

            for v in self.householder_vectors():
                eta = eta - 2 * (eta @ v / (v @ v))[..., None] * v
        """
        std = (self.log_alpha / 2).exp()
        eta = std * standard_normal(shape, generator, self.inner.weight)
        return 1 + reflect(eta, self.householder_vectors())

    def kl(self) -> Tensor:
        """The KL of the columns of W to the best Gaussian prior, lesson 11's equation (8), in nats.

        :math:`\\tfrac{Q}{2} \\sum_i \\log\\big((1 + \\tilde\\alpha_i) / \\alpha_i\\big)`, Q = 1 for
        ``"factor"``; :func:`~bdl_lessons.probability.empirical_bayes_kl` has more about it. Alpha
        tilde are the variances after the reflections, ``U.square() @ alpha``, the diagonal of
        :meth:`noise_cov`; ``rotated_variance`` gives them without the matrix U. For the other prior
        ``loguniform_kl`` is the KL of one factor ``N(1, variance)``, lesson 07's, up to a constant;
        the total correlation is what the factors lose by being dependent.

        Q is how many weights share a factor: ``weights_of_a_row``.
        """
        log_alpha = single(self.log_alpha)  # sums in float32 at least
        noise_var = rotated_variance(log_alpha.exp(), self.householder_vectors())
        if self.prior == "empirical_bayes":
            kl = (noise_var.log1p() - log_alpha).sum() / 2
        else:
            total_correlation = (noise_var.log() - log_alpha).sum() / 2
            kl = loguniform_kl(noise_var.log()).sum() + total_correlation
        weights_of_a_row = self.inner.weight.numel() // self.n_units
        return kl if self.kl_per == "factor" else weights_of_a_row * kl

    def noise_cov(self) -> Tensor:
        """``Cov[xi] = U diag(alpha) U'``, ``(K, K)``: for looking at, no layer needs it."""
        U = orthogonal_matrix(self.householder_vectors())
        return (U * self.alpha) @ U.T

    @torch.no_grad()
    def reset_noise(self, generator: torch.Generator) -> None:
        """Draw ``log_alpha`` around its start, within its bounds, then the vectors: N(0, 1)."""
        eps = standard_normal(self.raw_log_alpha.shape, generator, self.raw_log_alpha)
        log_alpha = self.init_log_alpha + self.alpha_spread * eps
        self.raw_log_alpha.copy_(log_alpha.clamp(*self.bounds))
        self.vectors.copy_(standard_normal(self.vectors.shape, generator, self.vectors))


def start_between(min_alpha: float, max_alpha: float, init_p_drop: float) -> float:
    """Where ``log_alpha`` starts; ValueError unless the bounds hold it."""
    bound("min_alpha", min_alpha)
    bound("max_alpha", max_alpha)
    start = matched_log_alpha(init_p_drop)
    alpha = math.exp(start)
    rounding = 1e-9  # may put the start beside a bound that it equals
    if not (0 < min_alpha <= alpha * (1 + rounding) and alpha * (1 - rounding) <= max_alpha):
        rule = f"0 < min_alpha <= p/(1-p) <= max_alpha at p = init_p_drop = {init_p_drop}"
        raise ValueError(f"{rule} must hold, got {min_alpha} and {max_alpha}")
    return start
