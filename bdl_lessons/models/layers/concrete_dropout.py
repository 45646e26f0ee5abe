r"""Concrete dropout: binary dropout whose rate is learned (Gal, Hron and Kendall, NeurIPS 2017).

Two things stand in the way of learning p_drop by gradient: a mask of zeros and ones has no gradient
in its probability, and lesson 04's KL needs the entropy term that a fixed p_drop made a constant.
Lesson 07.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from bdl_lessons.core.devices import single
from bdl_lessons.core.validation import positive
from bdl_lessons.models.layers.base import UnitNoise, matched_log_alpha


class ConcreteDropout(UnitNoise):
    r"""``xi = (1 - d) / keep`` with a relaxed indicator d in (0, 1) that a unit is dropped.

    .. math:: d = S\big( (\log\alpha + \log u - \log(1 - u)) / t \big), \qquad
              u \sim \mathrm{Uniform}(0, 1), \quad S(x) = 1 / (1 + e^{-x})

    (the paper's relaxed mask). ``log_alpha = log(p_drop / keep)`` is what is learned, one for the
    layer: ``alpha`` is the variance of inverted dropout. At every temperature t, ``d > 1/2`` has
    probability p_drop; as t goes to 0, d becomes 0 or 1, and ``xi`` the noise of binary dropout.
    Only then its mean is 1 and its variance alpha; at t = 0.1 they are so within 1 % and 10 %.

    Args:
        inner: the ``nn.Linear`` or ``nn.Conv2d`` whose inputs get the noise.
        init_p_drop: where p_drop starts, in (0, 1), else TypeError or ValueError.
        length_scale: the prior's l > 0; a weight has prior standard deviation 1/l.
        temperature: of the relaxed masks, > 0; 0.1 in the authors' code.

    >>> layer = ConcreteDropout(nn.Linear(3, 2), init_p_drop=0.2)
    >>> round(layer.alpha.item(), 4)  # p_drop / keep
    0.25
    """

    def __init__(
        self,
        inner: nn.Linear | nn.Conv2d,
        init_p_drop: float = 0.1,
        length_scale: float = 1.0,
        temperature: float = 0.1,
    ) -> None:
        super().__init__(inner)
        self.log_alpha = nn.Parameter(torch.tensor(matched_log_alpha(init_p_drop)))
        self.length_scale = positive("length_scale", length_scale)
        self.temperature = positive("temperature", temperature)

    def draw_xi(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """``(1 - d) / keep``, ``(..., K)``, computed in float32 at least."""
        theta = self.inner.weight
        log_alpha = single(self.log_alpha)
        u = torch.rand(shape, generator=generator, device=generator.device, dtype=log_alpha.dtype)
        dropped = torch.sigmoid((log_alpha + u.to(theta.device).logit()) / self.temperature)
        keep = torch.sigmoid(-log_alpha)
        return ((1 - dropped) / keep).to(theta.dtype)

    def kl(self) -> Tensor:
        """The KL of lesson 04 with what depends on p_drop (the paper's equation (3)), in nats.

        ``l**2 / (2 keep) * ||theta||**2 + K (log 2 - H(p_drop))``, H the entropy of a mask entry:
        the stored weights are ``theta = keep * M``. The constant ``K log 2`` makes the second term
        ``K KL(Bernoulli(p_drop) || Bernoulli(1/2))``, which is never negative.
        """
        log_p = logsigmoid(single(self.log_alpha))
        log_keep = logsigmoid(-single(self.log_alpha))
        to_fair_coin = math.log(2) + log_p.exp() * log_p + log_keep.exp() * log_keep
        half_precision = self.length_scale**2 / 2
        of_weight, of_bias = self.squared_norms()
        weights = half_precision * of_weight / log_keep.exp()
        masks = self.n_units * to_fair_coin
        return weights + masks + half_precision * of_bias
