"""Monte Carlo prediction, the fast parts: one prefix for all samples, and smaller sub-networks.

The layers before the first noise give the same in every sample and are computed once. Under
``"shared"`` on a CPU a draw multiplies only the weights between kept units: a dropped sub-network
really is smaller. On a GPU the S copies run as one large batch. Lesson 05 predicts with it.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import linear

from bdl_lessons.models import Network, StochasticLayer, UnitNoiseLinear

Draw = Tensor | tuple
_ELEMENTWISE = (nn.ReLU, nn.Tanh, nn.Sigmoid, nn.Softplus, nn.ELU, nn.GELU, nn.SiLU, nn.LeakyReLU)


def before_noise(model: Network) -> tuple[Network, list[nn.Module]]:
    """The modules before the first random layer as a network, and the others."""
    random = (i for i, m in enumerate(model) if isinstance(m, StochasticLayer) and m.is_random)
    start = next(random, len(model))
    return model[:start], list(model)[start:]


def drops_units(draws: dict[nn.Module, Draw]) -> bool:
    """Whether a sub-network has fewer units: not under Gaussian noise. On a GPU it saves nothing.

    Args:
        draws: for each random layer what its ``sample_weights`` gave.
    """
    return any(
        isinstance(layer, UnitNoiseLinear) and draw.device.type == "cpu" and bool((draw == 0).any())
        for layer, draw in draws.items()
    )


def sub_network(modules: list[nn.Module], draws: dict, s: int, h: Tensor) -> Tensor:
    """Sample s as the sub-network that its noise leaves: ``(b, K)`` to ``(1, b, L)``."""
    all_units = True
    for position, module in enumerate(modules):
        if module not in draws:
            h = module(h, "mean") if isinstance(module, StochasticLayer) else module(h)
            continue
        if not isinstance(module, UnitNoiseLinear):
            h = module.forward_with(h[None], slice_draws(draws[module], s, 1))[0]
            continue
        kept, xi = _kept(draws[module][s, 0])
        weight, bias = module.weight, module.bias
        following = _next_linear(modules, position, draws)
        if following is not None:
            wanted, _ = _kept(draws[following][s, 0])
            weight = weight.index_select(0, wanted)
            bias = None if bias is None else bias[wanted]
        if all_units:
            h = h.index_select(1, kept)
        h = linear(h, weight.index_select(1, kept) * xi, bias)
        all_units = following is None
    return h[None]


def slice_draws(draw: Draw, start: int, n: int) -> Draw:
    """Samples ``start`` to ``start + n`` of a draw; that of a block is a tuple of draws."""
    if isinstance(draw, tuple):
        return tuple(slice_draws(part, start, n) for part in draw)
    return draw[start : start + n]


def _kept(xi: Tensor) -> tuple[Tensor, Tensor]:
    kept = xi.nonzero().squeeze(1)
    return kept, xi[kept]


def _next_linear(modules: list[nn.Module], position: int, draws: dict) -> nn.Module | None:
    """The noisy linear layer whose inputs are, unit by unit, the outputs at ``position``."""
    for module in modules[position + 1 :]:
        if isinstance(module, UnitNoiseLinear) and module in draws:
            return module
        if not isinstance(module, _ELEMENTWISE):
            return None
    return None
