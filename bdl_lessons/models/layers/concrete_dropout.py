r"""Concrete dropout: binary dropout whose rate is learned (Gal, Hron and Kendall, NeurIPS 2017).

Two things stand in the way of learning p_drop by gradient: a mask of zeros and ones has no gradient
in its probability, and lesson 04's KL needs the entropy term that a fixed p_drop made a constant.
Lesson 07.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from bdl_lessons.core.validation import positive, typechecked
from bdl_lessons.models.layers.base import UnitNoise, UnitNoiseFactory
from bdl_lessons.models.layers.variational_dropout import matched_log_alpha


class ConcreteNoise(UnitNoise):
    r"""``xi = (1 - d) / keep`` with a relaxed indicator d in (0, 1) that a unit is dropped.

    .. math:: d = S\big( (\log\alpha + \log u - \log(1 - u)) / t \big), \qquad
              u \sim \mathrm{Uniform}(0, 1), \quad S(x) = 1 / (1 + e^{-x})

    (the paper's relaxed mask). ``log_alpha = log(p_drop / keep)`` is what is learned: ``alpha`` is
    the variance of inverted dropout. At every temperature t, ``d > 1/2`` has probability p_drop; as
    t goes to 0, d becomes 0 or 1, and ``xi`` the noise of :class:`BernoulliNoise`. Only then its
    mean is 1 and its variance alpha; at t = 0.1 they are so within 1 % and 10 %.
    """

    def __init__(self, settings: "ConcreteDropout") -> None:
        super().__init__()
        self.log_alpha = nn.Parameter(torch.tensor(matched_log_alpha(settings.init_p_drop)))
        self.settings = settings

    def sample(self, shape: torch.Size, generator: torch.Generator, like: Tensor) -> Tensor:
        u = torch.rand(shape, generator=generator, device=generator.device, dtype=like.dtype)
        logit = (self.log_alpha + u.to(like.device).logit()) / self.settings.temperature
        return (1 - torch.sigmoid(logit)) / torch.sigmoid(-self.log_alpha)

    def kl(self, theta: Tensor, bias: Tensor | None) -> Tensor:
        """The KL of lesson 04 with what depends on p_drop (the paper's equation (3)), in nats.

        ``l**2 / (2 keep) * ||theta||**2 + K (log 2 - H(p_drop))``, H the entropy of a mask entry:
        the stored weights are ``theta = keep * M``. The constant ``K log 2`` makes the second term
        ``K KL(Bernoulli(p_drop) || Bernoulli(1/2))``, which is never negative.
        """
        log_p = logsigmoid(self.log_alpha)
        log_keep = logsigmoid(-self.log_alpha)
        to_fair_coin = math.log(2) + log_p.exp() * log_p + log_keep.exp() * log_keep
        half = self.settings.length_scale**2 / 2
        kl = half * theta.square().sum() / log_keep.exp() + len(theta) * to_fair_coin
        return kl if bias is None else kl + half * bias.square().sum()


@typechecked
@dataclass(frozen=True)
class ConcreteDropout(UnitNoiseFactory):
    """Layer factory: binary dropout on the inputs, with one learned p_drop for the layer.

    Args:
        init_p_drop: where p_drop starts, in (0, 1), else TypeError or ValueError.
        length_scale: the prior's l > 0; a weight has prior standard deviation 1/l.
        temperature: of the relaxed masks, > 0; 0.1 in the authors' code.

    >>> round(ConcreteDropout(init_p_drop=0.2).linear(3, 2).alpha.item(), 4)  # p_drop / keep
    0.25
    """

    init_p_drop: float = 0.1
    length_scale: float = 1.0
    temperature: float = 0.1

    def __post_init__(self) -> None:
        matched_log_alpha(self.init_p_drop)
        positive("length_scale", self.length_scale)
        positive("temperature", self.temperature)

    def _noise(self, weight_shape: tuple[int, ...], bias: bool) -> ConcreteNoise:
        return ConcreteNoise(self)
