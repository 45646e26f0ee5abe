"""Binary dropout as a distribution over the weights (Gal & Ghahramani, ICML 2016).

Lessons 04 and 05.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from bdl_lessons.core.autograd import inside_vmap
from bdl_lessons.core.random import dropout_noise
from bdl_lessons.core.validation import positive, typechecked, valid_p_drop
from bdl_lessons.models.layers.base import UnitNoise, UnitNoiseFactory


class BernoulliNoise(UnitNoise):
    """``xi = z / keep`` with ``z ~ Bernoulli(keep)``: inverted dropout (lesson 01).

    >>> noise, g = BernoulliNoise(p_drop=0.5), torch.Generator().manual_seed(0)
    >>> noise.sample(torch.Size([100]), g, like=torch.ones(())).unique()
    tensor([0., 2.])
    """

    def __init__(self, p_drop: float, length_scale: float = 1.0) -> None:
        super().__init__()
        self.p_drop = valid_p_drop(p_drop)
        self.length_scale = length_scale
        self.register_buffer("keep", torch.tensor(1 - self.p_drop), persistent=False)

    @property
    def is_random(self) -> bool:
        return self.p_drop > 0

    def sample(self, shape: torch.Size, generator: torch.Generator, like: Tensor) -> Tensor:
        if inside_vmap():  # batched networks may have rates of their own
            uniform = torch.rand(shape, generator=generator, device=generator.device)
            return (uniform.to(like.device) < self.keep).to(like.dtype) / self.keep
        typed = {"device": like.device, "dtype": like.dtype}
        return dropout_noise(shape, self.p_drop, generator=generator, **typed)

    def kl(self, theta: Tensor, bias: Tensor | None) -> Tensor:
        """The part of KL(q || N(0, length_scale**-2 I)) that depends on the parameters, in nats.

        Gal & Ghahramani's mixture q puts mass ``keep`` on row ``m_i`` of M and the rest on 0, which
        gives ``sum_i keep * l**2/2 * ||m_i||**2 + l**2/2 * ||b||**2`` up to a constant that is
        infinite in the limit of point masses. With inverted dropout the stored weights are
        ``theta = keep * M``, so the first sum is ``l**2 / (2 keep) * ||theta||**2``.
        """
        keep = self.keep if inside_vmap() else 1 - self.p_drop
        kl = self.length_scale**2 / (2 * keep) * theta.square().sum()
        return kl if bias is None else kl + self.length_scale**2 / 2 * bias.square().sum()

    def extra_repr(self) -> str:
        return f"p_drop={self.p_drop:g}"


@typechecked
@dataclass(frozen=True)
class BinaryDropout(UnitNoiseFactory):
    """Layer factory: dropout on the *inputs* of the layer (lesson 05).

    Args:
        p_drop: probability of a zero, in [0, 1), else TypeError or ValueError.
        length_scale: the prior's l > 0; a weight has prior standard deviation 1/l.

    >>> layer = BinaryDropout(p_drop=0.5).linear(3, 2)
    >>> layer(torch.ones(4, 3), "per_example", torch.Generator()).shape
    torch.Size([4, 2])
    """

    p_drop: float
    length_scale: float = 1.0

    def __post_init__(self) -> None:
        valid_p_drop(self.p_drop)
        positive("length_scale", self.length_scale)

    def _noise(self, weight_shape: tuple[int, ...], bias: bool) -> BernoulliNoise:
        return BernoulliNoise(self.p_drop, self.length_scale)


@typechecked
@dataclass(frozen=True)
class Deterministic(BinaryDropout):
    """Layer factory: no noise, under the same Gaussian prior ``N(0, length_scale**-2 I)``.

    Its "KL" is the L2 penalty of that prior, so training with it is maximum a posteriori (MAP).

    >>> Deterministic().linear(3, 2).is_random
    False
    """

    p_drop: float = field(default=0.0, init=False)
    length_scale: float = 1.0
