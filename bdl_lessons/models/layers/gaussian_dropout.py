r"""Gaussian dropout: multiplicative noise whose variance is fixed. Lesson 07.

Noise with mean 1 and variance ``alpha``, that of inverted dropout at ``alpha = p_drop / keep``:

- type **A**, :class:`GaussianDropout`, on the inputs of a layer: ``b = (a ∘ xi) Theta``, ``xi_i ~
  N(1, alpha)`` (Srivastava et al., JMLR 2014, section 10). As a distribution over the weights ``W =
  diag(xi) Theta``: the weights that leave one input are correlated.
- type **B**, :class:`GaussianDropoutB`, on every weight: ``w_ij ~ N(theta_ij, alpha theta_ij**2)``,
  independently, as in Wang and Manning (ICML 2013), who drew the activations that a layer's dropout
  would give.

One weight has the same distribution under both. :mod:`variational_dropout` learns ``alpha``.
"""

import torch
from torch import Tensor, nn

from bdl_lessons.core.devices import single
from bdl_lessons.core.random import standard_normal
from bdl_lessons.models.layers.base import UnitNoise, WeightNoise, matched_log_alpha
from bdl_lessons.probability import loguniform_kl


class GaussianDropout(UnitNoise):
    """Type A: ``xi_i ~ N(1, alpha)`` on units, ``alpha = p_drop / (1 - p_drop)`` fixed.

    Args:
        inner: the ``nn.Linear`` or ``nn.Conv2d`` whose inputs get the noise.
        p_drop: in (0, 1), else TypeError or ValueError.

    >>> round(GaussianDropout(nn.Linear(3, 2), p_drop=0.2).alpha.item(), 4)
    0.25
    """

    def __init__(self, inner: nn.Linear | nn.Conv2d, p_drop: float) -> None:
        super().__init__(inner)
        self.register_buffer("log_alpha", torch.tensor(matched_log_alpha(p_drop)))

    def draw_xi(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """``1 + sqrt(alpha) eps``, ``(..., K)``."""
        std = (self.log_alpha / 2).exp()
        return 1 + std * standard_normal(shape, generator, self.inner.weight)

    def kl(self) -> Tensor:
        """K times that of a factor to the log-uniform prior, in nats: a constant."""
        return self.n_units * loguniform_kl(single(self.log_alpha))


class GaussianDropoutB(WeightNoise):
    """Type B: ``w_ij ~ N(theta_ij, alpha theta_ij**2)``, ``alpha = p_drop / (1 - p_drop)`` fixed.

    Args:
        inner: the ``nn.Linear`` or ``nn.Conv2d`` whose weights get the noise.
        p_drop: in (0, 1), else TypeError or ValueError.

    >>> layer = GaussianDropoutB(nn.Linear(3, 2), p_drop=0.2)
    >>> torch.allclose(layer.weight_var(), 0.25 * layer.weight.square())
    True
    """

    def __init__(self, inner: nn.Linear | nn.Conv2d, p_drop: float) -> None:
        super().__init__(inner)
        self.register_buffer("log_alpha", torch.tensor(matched_log_alpha(p_drop)))

    def weight_var(self) -> Tensor:
        """``alpha theta**2``, in the shape of the weights."""
        return self.log_alpha.exp() * self.inner.weight.square()

    def kl(self) -> Tensor:
        """That of a weight to the log-uniform prior times the weights, in nats: a constant."""
        return self.inner.weight.numel() * loguniform_kl(single(self.log_alpha))
