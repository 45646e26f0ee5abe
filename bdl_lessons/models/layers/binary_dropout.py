"""Binary dropout as a distribution over the weights (Gal & Ghahramani, ICML 2016).

Lessons 04 and 05.
"""

import torch
from torch import Tensor, nn

from bdl_lessons.core.validation import positive, valid_p_drop
from bdl_lessons.models.layers.base import Sampling, StochasticLayer, UnitNoise


class BinaryDropout(UnitNoise):
    """``xi = z / keep`` with ``z ~ Bernoulli(keep)``: dropout on the *inputs* of the layer.

    Args:
        inner: the ``nn.Linear`` or ``nn.Conv2d`` whose inputs are dropped.
        p_drop: probability of a zero, in [0, 1), else TypeError or ValueError.
        length_scale: the prior's l > 0; a weight has prior standard deviation 1/l.

    >>> layer = BinaryDropout(nn.Linear(3, 2), p_drop=0.5)
    >>> layer.draw_xi((100, 3), torch.Generator()).unique()
    tensor([0., 2.])
    """

    batch_may_differ = ("p_drop",)

    def __init__(
        self, inner: nn.Linear | nn.Conv2d, p_drop: float, length_scale: float = 1.0
    ) -> None:
        super().__init__(inner)
        self.p_drop = valid_p_drop(p_drop)
        self.length_scale = positive("length_scale", length_scale)

    def draw_xi(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """``(rand < keep) / keep``, ``(..., K)``; the uniform numbers have float32 precision."""
        keep = 1 - self.p_drop
        theta = self.inner.weight
        uniform = torch.rand(shape, generator=generator, device=generator.device)
        mask = uniform.to(theta.device) < keep
        return mask.to(theta.dtype) / keep

    def kl(self) -> Tensor:
        """The part of KL(q || N(0, length_scale**-2 I)) that depends on the parameters, in nats.

        Gal & Ghahramani's mixture q puts mass ``keep`` on row ``m_i`` of M and the rest on 0, which
        gives ``sum_i keep * l**2/2 * ||m_i||**2 + l**2/2 * ||b||**2`` up to a constant that is
        infinite in the limit of point masses. With inverted dropout the stored weights are
        ``theta = keep * M``, so the first sum is ``l**2 / (2 keep) * ||theta||**2``.
        """
        keep = 1 - self.p_drop
        half_precision = self.length_scale**2 / 2
        of_weight, of_bias = self.squared_norms()
        return half_precision / keep * of_weight + half_precision * of_bias

    def extra_repr(self) -> str:
        return f"p_drop={self.p_drop:g}, length_scale={self.length_scale:g}"


class Deterministic(StochasticLayer):
    """No noise, under the Gaussian prior ``N(0, length_scale**-2 I)`` of binary dropout.

    Its "KL" is the L2 penalty of that prior, so training with it is maximum a posteriori (MAP). It
    is called like any layer, and nothing is ever drawn.

    Args:
        inner: the ``nn.Linear`` or ``nn.Conv2d``.
        length_scale: the prior's l > 0, else TypeError or ValueError.

    >>> layer = Deterministic(nn.Linear(3, 2), length_scale=2.0)
    >>> penalty = 2 * (layer.weight.square().sum() + layer.bias.square().sum())
    >>> torch.allclose(layer.kl(), penalty)
    True
    """

    def __init__(self, inner: nn.Linear | nn.Conv2d, length_scale: float = 1.0) -> None:
        super().__init__(inner)
        self.length_scale = positive("length_scale", length_scale)

    def forward(
        self, x: Tensor, sampling: Sampling | None = None, generator: torch.Generator | None = None
    ) -> Tensor:
        """``(..., B, L)``, the same for every ``sampling``; errors as for every layer."""
        self.check_call(x, sampling, generator)
        return self.apply_inner(x)

    def kl(self) -> Tensor:
        """``l**2/2 (||theta||**2 + ||b||**2)`` in nats, 0-dim."""
        half_precision = self.length_scale**2 / 2
        of_weight, of_bias = self.squared_norms()
        return half_precision * of_weight + half_precision * of_bias

    def extra_repr(self) -> str:
        return f"length_scale={self.length_scale:g}"
