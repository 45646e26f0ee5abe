"""Images turned about their centre."""

import torch
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample


def rotated(images: Tensor, degrees: float | Tensor) -> Tensor:
    """Square images ``(..., H, H)`` turned anticlockwise, bilinear; the same shape.

    Pixels from outside the image are 0. Lesson 05 and the experiment ``rotated_digit`` use it.

    >>> rotated(torch.tensor([[0.0, 1.0], [0.0, 0.0]]), 90).round().tolist()
    [[1.0, 0.0], [0.0, 0.0]]

    Args:
        degrees: one angle for all images, or one for each: anything that broadcasts to ``(...)``.

    Raises:
        ValueError: if the images are not square.
    """
    *batch, height, width = images.shape
    if height != width:
        raise ValueError(f"images must be square (..., H, H), got {tuple(images.shape)}")
    angle = torch.as_tensor(degrees, dtype=images.dtype, device=images.device).deg2rad()
    cos, sin = angle.cos().expand(batch).reshape(-1), angle.sin().expand(batch).reshape(-1)
    zero = torch.zeros_like(cos)
    turn = torch.stack([cos, -sin, zero, sin, cos, zero], -1).view(-1, 2, 3)
    grid = affine_grid(turn, [len(turn), 1, height, width], align_corners=False)
    pixels = images.reshape(-1, 1, height, width)
    return grid_sample(pixels, grid, align_corners=False).reshape(images.shape)
