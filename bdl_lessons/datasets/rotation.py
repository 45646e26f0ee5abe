"""Images turned about their centre."""

import torch
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample


def rotated(images: Tensor, degrees: float | Tensor) -> Tensor:
    """Square images ``(..., H, H)`` turned anticlockwise, bilinear; the same shape.

    Pixels from outside the image are 0; ``degrees`` is one angle, or anything that broadcasts to
    ``(...)``. ValueError if the images are not square. Lesson 05.

    >>> rotated(torch.tensor([[0.0, 1.0], [0.0, 0.0]]), 90).round().tolist()
    [[1.0, 0.0], [0.0, 0.0]]
    """
    *batch, height, width = images.shape
    if height != width:
        raise ValueError(f"images must be square (..., H, H), got {tuple(images.shape)}")
    angle = torch.as_tensor(degrees, dtype=images.dtype, device=images.device).deg2rad()
    cos = angle.cos().expand(batch).reshape(-1)
    sin = angle.sin().expand(batch).reshape(-1)
    zero = torch.zeros_like(cos)
    turn = torch.stack([cos, -sin, zero, sin, cos, zero], -1).view(-1, 2, 3)
    grid = affine_grid(turn, [len(turn), 1, height, width], align_corners=False)
    pixels = images.reshape(-1, 1, height, width)
    return grid_sample(pixels, grid, align_corners=False).reshape(images.shape)
