"""Structured dropout whose Householder vectors start elsewhere, or stay where they start."""

import torch
from torch import nn

from bdl_lessons.core.random import standard_normal
from bdl_lessons.core.validation import one_of
from bdl_lessons.models import StructuredDropout

NEAR = 0.05
"""Standard deviation of what separates a start from one whose reflections change nothing."""


class FrozenVectors(StructuredDropout):
    """Structured dropout with vectors that are drawn and not trained: the alphas learn alone.

    What learned vectors do better than these is what learning them is worth.

    Args:
        inner: the ``nn.Linear`` or ``nn.Conv2d`` whose inputs get the noise.
        options: those of :class:`~bdl_lessons.models.StructuredDropout`, by keyword, with their
            errors.

    >>> FrozenVectors(nn.Linear(3, 2), n_reflections=4).vectors.requires_grad
    False
    """

    def __init__(self, inner: nn.Linear | nn.Conv2d, **options) -> None:
        super().__init__(inner, **options)
        self.vectors.requires_grad_(False)


class NearIdentity(StructuredDropout):
    """Structured dropout that starts beside independent noise.

    ``U diag(alpha) U'`` is ``diag(alpha)`` where U is the identity or only turns signs. Vectors
    from N(0, I) start far from it: they mix all alphas, and the KL makes them more equal.

    Args:
        inner: the ``nn.Linear`` or ``nn.Conv2d`` whose inputs get the noise.
        start: ``"pairs"``: every second vector starts beside the one before it, so that their two
            reflections nearly undo each other. ``"coordinates"``: each vector starts beside a
            coordinate axis of its own (axes come again if T is more than K); it has length 1, so
            Adam turns it faster.
        options: those of :class:`~bdl_lessons.models.StructuredDropout`, by keyword, with their
            errors; ValueError also for another ``start``.

    >>> layer = NearIdentity(nn.Linear(3, 2), start="coordinates", n_reflections=2)
    >>> layer.vectors.abs().sort(1).values.round()
    tensor([[0., 0., 1.],
            [0., 0., 1.]], grad_fn=<RoundBackward0>)
    """

    def __init__(self, inner: nn.Linear | nn.Conv2d, start: str = "pairs", **options) -> None:
        self.start = one_of("start", start, ("pairs", "coordinates"))
        super().__init__(inner, **options)

    @torch.no_grad()
    def reset_noise(self, generator: torch.Generator) -> None:
        """Draw ``log_alpha`` as structured dropout does, then the vectors."""
        super().reset_noise(generator)
        (n_reflections, n_units) = self.vectors.shape
        if self.start == "pairs":
            n_pairs = n_reflections // 2
            first = self.vectors[0 : 2 * n_pairs : 2]
            step = standard_normal(first.shape, generator, first)
            self.vectors[1::2] = first + NEAR * step
        else:
            order = torch.rand(n_units, generator=generator, device=generator.device).argsort()
            axes = torch.eye(n_units)[order.cpu()].repeat(-(-n_reflections // n_units), 1)
            self.vectors.copy_(axes[:n_reflections].to(self.vectors) + NEAR * self.vectors)
