"""Random networks of finite width, seen as feature maps: the Monte Carlo side of the kernels."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

NONLINEARITIES: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "erf": torch.erf,
    "cos": torch.cos,
}


class RandomFeatures:
    r"""Features of one random network, ``Phi(x) = sigma(h_depth(x)) / sqrt(K)``.

    .. math::
        h_1(x) = \sqrt{\tfrac{\sigma_w^2}{d}}\, W_1 x + \sigma_b b_1, \qquad
        h_{l+1} = \sqrt{\tfrac{\sigma_w^2}{K}}\, W_{l+1}\, \sigma(h_l) + \sigma_b b_{l+1}

    with standard normal ``W_l``, ``b_l``, so that ``Phi(x) Phi(x')'`` tends to the expectation
    ``E[sigma(h) sigma(h')]`` as the width ``K`` grows (Gal & Ghahramani 2016, sec. 3; Lee et al.
    2018, eq. 4). For ``"cos"`` each unit has a phase uniform on ``[0, 2 pi]`` as well. The weights
    are drawn once, for ``max_width`` units: a smaller network is a corner of the larger one, so
    growing the width adds units and changes none (common random numbers).

    Args:
        in_features: input dimension ``d``.
        max_width: number of units drawn per hidden layer.
        nonlinearity: ``"relu"``, ``"erf"`` or ``"cos"``.
        generator: a CPU generator; every device sees the same draws.
        depth: hidden layers; memory grows as ``(depth - 1) max_width^2``.
        weight_var, bias_var: ``sigma_w^2`` and ``sigma_b^2``, >= 0.

    Raises:
        ValueError: if an argument is out of range; the message names it.
    """

    def __init__(
        self,
        in_features: int,
        max_width: int,
        nonlinearity: str,
        generator: torch.Generator,
        *,
        depth: int = 1,
        weight_var: float = 1.0,
        bias_var: float = 1.0,
        dtype: torch.dtype = torch.float64,
        device: torch.device | str = "cpu",
    ):
        for name, count in (
            ("in_features", in_features),
            ("max_width", max_width),
            ("depth", depth),
        ):
            if isinstance(count, bool) or not isinstance(count, int) or count < 1:
                raise ValueError(f"{name} must be an integer >= 1, got {count!r}")
        for name, var in (("weight_var", weight_var), ("bias_var", bias_var)):
            if not 0 <= var < math.inf:
                raise ValueError(f"{name} must be >= 0 and finite, got {var}")
        if nonlinearity not in NONLINEARITIES:
            known = ", ".join(NONLINEARITIES)
            raise ValueError(f"nonlinearity must be one of {known}, got {nonlinearity!r}")
        self.max_width = max_width
        self.nonlinearity = nonlinearity
        self.weight_var = weight_var
        self.bias_var = bias_var

        fans = [in_features] + [max_width] * (depth - 1)
        draw = {"generator": generator, "dtype": dtype}
        self.weights = [torch.randn(max_width, fan, **draw).to(device) for fan in fans]
        self.shifts = [
            math.sqrt(bias_var) * torch.randn(max_width, **draw).to(device) for _ in fans
        ]
        if nonlinearity == "cos":
            self.shifts = [
                shift + 2 * math.pi * torch.rand(max_width, **draw).to(device)
                for shift in self.shifts
            ]

    def __call__(self, x: Tensor, width: int | None = None) -> Tensor:
        """Features ``(..., N, width)`` of inputs ``(..., N, d)``; ``width=None`` takes all units.

        Raises:
            ValueError: if ``width`` is not in 1..max_width or ``x`` has another number of columns.
        """
        width = self.max_width if width is None else width
        if not 1 <= width <= self.max_width:
            raise ValueError(f"width must be in 1..{self.max_width}, got {width}")
        if x.shape[-1] != self.weights[0].shape[1]:
            raise ValueError(
                f"x must have {self.weights[0].shape[1]} columns (in_features), got {x.shape[-1]}"
            )
        sigma = NONLINEARITIES[self.nonlinearity]
        units = x
        for weight, shift in zip(self.weights, self.shifts, strict=True):
            fan_in = units.shape[-1]
            scale = math.sqrt(self.weight_var / fan_in)
            units = sigma(scale * units @ weight[:width, :fan_in].mT + shift[:width])
        return units / math.sqrt(width)
