"""KL divergences of a layer's weights, in fewer passes over memory: see `kl`, `loguniform_kl`.

No lesson shows this file; the layers of lessons 06 to 08 use it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

from bdl_lessons.core.autograd import known_slope
from bdl_lessons.core.validation import same_shape

ValueAndSlope = Callable[[Tensor], tuple[Tensor, Tensor]]

_BLOCK = 2**18  # weights whose intermediate results fit in the cache
_FROM, _TO, _PER_UNIT = -20, 104, 64  # exp(-104) is 0 in float32


def gaussian_kl_to_prior(mean: Tensor, log_sigma2: Tensor, prior_var: float = 1.0) -> Tensor:
    """As :func:`bdl_lessons.probability.kl.gaussian_kl_to_prior`, with the slopes written down."""
    same_shape("mean", mean, "log_sigma2", log_sigma2)
    with torch.no_grad():
        d = log_sigma2 if prior_var == 1 else log_sigma2 - math.log(prior_var)
        slope = d.expm1()
        of_variances = slope.sum() - d.sum()
        of_means = torch.linalg.vector_norm(mean).square() / 2
    kl = known_slope(of_variances, (log_sigma2, slope)) / 2
    return kl + known_slope(of_means, (mean, mean)) / prior_var


def interpolate(function: ValueAndSlope, log_alpha: Tensor) -> tuple[Tensor, Tensor]:
    """``function(log_alpha)`` in float32, from its values and slopes at the multiples of 1/64.

    The cubic through two of them has an error (1e-10 of the value, 3e-8 of the slope) below the
    rounding, and the distance to the nearest point has none.
    """
    if log_alpha.dtype != torch.float32:
        raise TypeError(f"log_alpha must be a float32 or float64 tensor, got {log_alpha.dtype}")
    table = _table(function, log_alpha.device)
    blocks = (_look_up(table, block) for block in log_alpha.flatten().split(_BLOCK))
    value, slope = zip(*blocks, strict=True)
    return torch.cat(value).view(log_alpha.shape), torch.cat(slope).view(log_alpha.shape)


def _look_up(table: Tensor, log_alpha: Tensor) -> tuple[Tensor, Tensor]:
    at = log_alpha.clamp(-1e36, _TO) * _PER_UNIT
    point = at.floor().clamp(_FROM * _PER_UNIT, _TO * _PER_UNIT - 1)
    d = at.sub_(point)
    cell = point.sub_(_FROM * _PER_UNIT).nan_to_num_().long()  # a NaN stays in d
    c0, c1, c2, c3 = (row.index_select(0, cell) for row in table)
    c3.mul_(d)
    value = (c2 + c3).mul_(d).add_(c1).mul_(d).add_(c0)
    slope = c3.mul_(3).add_(c2, alpha=2).mul_(d).add_(c1).mul_(_PER_UNIT)
    return value, slope


@cache
@torch.inference_mode(False)
def _table(function: ValueAndSlope, device: torch.device) -> Tensor:
    """Coefficients of the cubics (Hermite's), ``(4, cells)``; below the first one, a line."""
    points = torch.arange(_FROM * _PER_UNIT, _TO * _PER_UNIT + 1, dtype=torch.float64, device="cpu")
    value, slope = function(points / _PER_UNIT)
    rise, slope = value.diff(), slope / _PER_UNIT
    left, right = slope[:-1], slope[1:]
    table = torch.stack([value[:-1], left, 3 * rise - 2 * left - right, left + right - 2 * rise])
    table[2:, 0] = 0
    return table.float().to(device)
