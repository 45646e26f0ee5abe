"""Structured dropout whose Householder vectors come from a chain of affine maps, as published."""

import torch
from torch import Tensor, nn

from bdl_lessons.core.random import standard_normal
from bdl_lessons.core.validation import integer
from bdl_lessons.models import StructuredDropout


class ChainedVectors(StructuredDropout):
    """Householder vectors ``v_t = FC_t(v_{t-1})`` with affine maps and a learned ``v_0``.

    After the Householder flow of Tomczak and Welling (2016), where the first vector is computed
    from the input. Here nothing enters, so the chain has T K^2 parameters for the distributions
    that T K describe, and can only change how they are learned. The slides give no activation, size
    of the maps or start; here is no activation, ``v_0`` starts from N(0, I), and the maps with
    weights of variance 1 / fan-in, which keep the length.

    Args:
        inner: the ``nn.Linear`` or ``nn.Conv2d`` whose inputs get the noise.
        n_reflections: T, the number of maps.
        rank: a map is K -> r -> K, ``2 r K + K`` parameters, with a rank r below K; otherwise, and
            for ``None``, it is K -> K, ``K^2 + K`` parameters.
        options: those of :class:`~bdl_lessons.models.StructuredDropout`, by keyword, with their
            errors.

    >>> layer = ChainedVectors(nn.Linear(3, 2), n_reflections=4, rank=1)
    >>> layer.householder_vectors().shape
    torch.Size([4, 3])
    """

    def __init__(
        self,
        inner: nn.Linear | nn.Conv2d,
        n_reflections: int = 2,
        rank: int | None = None,
        **options,
    ) -> None:
        integer("n_reflections", n_reflections, least=0)
        if rank is not None:
            integer("rank", rank, least=1)
        super().__init__(inner, n_reflections=1, **options)  # its one vector is v_0
        self.maps = nn.ModuleList(affine_map(self.n_units, rank) for _ in range(n_reflections))
        self.reset_noise(torch.default_generator)

    def householder_vectors(self) -> Tensor:
        """``v_1`` to ``v_T``, ``(T, K)``, the first reflection first."""
        chain = [self.vectors[0]]
        for affine in self.maps:
            chain.append(affine(chain[-1]))
        return torch.stack(chain)[1:]

    @torch.no_grad()
    def reset_noise(self, generator: torch.Generator) -> None:
        """Draw ``log_alpha`` and ``v_0`` as structured dropout does, then the maps."""
        super().reset_noise(generator)
        maps = self._modules.get("maps", [])  # not there yet when the base class starts itself
        for affine in maps:
            for layer in affine.modules():
                if isinstance(layer, nn.Linear):
                    eps = standard_normal(layer.weight.shape, generator, layer.weight)
                    layer.weight.copy_(layer.in_features**-0.5 * eps)
                    if layer.bias is not None:
                        layer.bias.zero_()


def affine_map(n_units: int, rank: int | None) -> nn.Module:
    """K -> K, by way of ``rank`` numbers where that is fewer."""
    if rank is None or rank >= n_units:
        return nn.Linear(n_units, n_units)
    return nn.Sequential(nn.Linear(n_units, rank, bias=False), nn.Linear(rank, n_units))
