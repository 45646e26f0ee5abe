"""Labels of ten classes of which a share is random."""

import torch
from torch import Generator, Tensor


def partly_random(labels: Tensor, share: float, generator: Generator) -> Tensor:
    """Labels of which a share is replaced by random ones, one in ten of them the same again."""
    is_replaced = torch.rand(labels.shape, generator=generator) < share
    return torch.where(is_replaced, torch.randint(10, labels.shape, generator=generator), labels)
