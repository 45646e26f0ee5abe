"""Random features: networks of finite width whose kernels are Monte Carlo. Lesson 03."""

import math

import torch
from torch import Tensor

from bdl_lessons.core import validation
from bdl_lessons.core.validation import integer

NONLINEARITIES = {"relu": torch.relu, "erf": torch.erf, "cos": torch.cos}


class RandomFeatures:
    r"""Features of one random network, ``Phi(x) = phi(h_depth(x)) / sqrt(K)``.

    .. math::
        h_1(x) = \sqrt{\tfrac{\sigma_w^2}{d}}\, W_1 x + \sigma_b b_1, \qquad
        h_{l+1} = \sqrt{\tfrac{\sigma_w^2}{K}}\, W_{l+1}\, \phi(h_l) + \sigma_b b_{l+1}

    with standard normal ``W_l``, ``b_l``, so that ``Phi(x) Phi(x')'`` tends to the expectation
    ``E[phi(h) phi(h')]`` as the width ``K`` grows (Gal & Ghahramani 2016, sec. 3; Lee et al.
    2018, eq. 4). For ``"cos"`` each unit has a phase uniform on ``[0, 2 pi]`` as well. The weights
    are drawn once, for ``max_width`` units: a smaller network is a corner of the larger one, so
    growing the width adds units and changes none (common random numbers).

    Args:
        in_features, max_width: ``d``, and the number of units drawn per hidden layer.
        nonlinearity: ``"relu"``, ``"erf"`` or ``"cos"``.
        generator: from the CPU every device gets the same draws.
        depth: hidden layers, >= 1; memory grows as ``(depth - 1) max_width^2``.
        weight_var, bias_var: ``sigma_w^2`` and ``sigma_b^2``, >= 0, else ValueError.

    >>> features = RandomFeatures(2, 100, "relu", torch.Generator())
    >>> x = torch.ones(3, 2, dtype=torch.float64)
    >>> features(x).shape, features(x, width=5).shape
    (torch.Size([3, 100]), torch.Size([3, 5]))
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
        self.max_width = integer("max_width", max_width, 1)
        self.nonlinearity = validation.one_of("nonlinearity", nonlinearity, NONLINEARITIES)
        self.weight_var = validation.non_negative("weight_var", weight_var)
        self.bias_var = validation.non_negative("bias_var", bias_var)

        validation.instance("generator", generator, torch.Generator)

        fans = [integer("in_features", in_features, 1)]
        fans += [self.max_width] * (integer("depth", depth, 1) - 1)
        draw = {"generator": generator, "device": generator.device, "dtype": dtype}
        self.weights = [torch.randn(max_width, fan, **draw).to(device) for fan in fans]
        std = math.sqrt(bias_var)
        self.shifts = [std * torch.randn(max_width, **draw).to(device) for _ in fans]
        if nonlinearity == "cos":  # a phase for each unit
            for shift in self.shifts:
                shift += 2 * math.pi * torch.rand(max_width, **draw).to(device)

    def __call__(self, x: Tensor, width: int | None = None) -> Tensor:
        """Features ``(..., N, width)`` of inputs ``(..., N, d)``; ``width=None`` takes all units.

        Raises:
            ValueError: if ``width`` is not in 1..max_width or ``x`` has another number of columns.
        """
        width = self.max_width if width is None else width
        if not 1 <= integer("width", width, 0) <= self.max_width:
            raise ValueError(f"width must be in 1..{self.max_width}, got {width}")
        validation.same_dtype("x", x, "the features' weights", self.weights[0])
        validation.shapes("x must be (..., d) with d = in_features, W_1 (K, d)", x, self.weights[0])
        phi = NONLINEARITIES[self.nonlinearity]
        units = x
        for weight, shift in zip(self.weights, self.shifts, strict=True):
            fan_in = units.shape[-1]
            scale = math.sqrt(self.weight_var / fan_in)
            units = phi(scale * units @ weight[:width, :fan_in].mT + shift[:width])
        return units / math.sqrt(width)
