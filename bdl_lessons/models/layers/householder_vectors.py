r"""Where the vectors of a Householder chain come from.

Structured dropout as published makes them one from the other, ``v_t = FC_t(v_{t-1})``, after the
Householder flow of Tomczak and Welling (2016). There the first vector is computed from the input.
Here nothing enters, so ``v_0`` is a parameter, and so are in effect all T vectors: the chain spends
T K^2 parameters on the laws that T K describe, and can only change how they are learned.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from bdl_lessons.core.random import standard_normal

VectorsFrom = Literal["free", "fc", "fc_lowrank"]


class FreeVectors(nn.Module):
    """T vectors as they are: ``T K`` parameters, entries of size one at the start.

    A reflection depends on the direction alone, so the length sets the pace: Adam turns a vector of
    half the length twice as fast.
    """

    def __init__(self, n_reflections: int, n_units: int) -> None:
        super().__init__()
        self.v = nn.Parameter(torch.empty(n_reflections, n_units))

    def forward(self) -> Tensor:
        """``(T, K)``, the first reflection first."""
        return self.v

    def reset(self, generator: torch.Generator) -> None:
        """Draw every entry from N(0, 1): all directions are as likely."""
        _draw_normal(self.v, 1.0, generator)


class ChainedVectors(nn.Module):
    """``v_t = FC_t(v_{t-1})`` with affine maps and a learned ``v_0``.

    A map is K -> K, ``K^2 + K`` parameters, or with a ``rank`` r below K it is K -> r -> K,
    ``2 r K + K``. The slides give no activation, size of the maps or start; here there is no
    activation, and the maps start with weights of variance 1 / fan-in, which keep the length.
    """

    def __init__(self, n_reflections: int, n_units: int, rank: int | None = None) -> None:
        super().__init__()
        self.start = nn.Parameter(torch.empty(n_units))
        self.maps = nn.ModuleList(_affine(n_units, rank) for _ in range(n_reflections))

    def forward(self) -> Tensor:
        """``(T, K)``, the first reflection first."""
        vectors = [self.start]
        for affine in self.maps:
            vectors.append(affine(vectors[-1]))
        return torch.stack(vectors)[1:]

    def reset(self, generator: torch.Generator) -> None:
        """Draw ``v_0`` from N(0, I) and the maps anew; biases become 0."""
        _draw_normal(self.start, 1.0, generator)
        for module in self.maps.modules():
            if isinstance(module, nn.Linear):
                _draw_normal(module.weight, module.in_features**-0.5, generator)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)


def householder_vectors(
    source: VectorsFrom, n_reflections: int, n_units: int, rank: int
) -> FreeVectors | ChainedVectors:
    """The module that makes ``(n_reflections, n_units)`` vectors, by name."""
    if source == "free":
        return FreeVectors(n_reflections, n_units)
    return ChainedVectors(n_reflections, n_units, rank if source == "fc_lowrank" else None)


def _affine(n_units: int, rank: int | None) -> nn.Module:
    if rank is None or rank >= n_units:
        return nn.Linear(n_units, n_units)
    return nn.Sequential(nn.Linear(n_units, rank, bias=False), nn.Linear(rank, n_units))


@torch.no_grad()
def _draw_normal(parameter: Tensor, std: float, generator: torch.Generator) -> None:
    parameter.copy_(std * standard_normal(parameter.shape, generator, parameter))
