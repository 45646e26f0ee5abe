"""Monte Carlo prediction: many draws of a network's output, with a leading sample axis.

Same law as calling the network S times, less work. The layers before the first noise are computed
once. Under ``"shared"`` on a CPU a draw multiplies only the weights between kept units: a dropped
sub-network really is smaller. On a GPU the S copies run as one large batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from bdl_lessons.models import Network, Sampling, StochasticLayer, UnitNoiseLinear
from bdl_lessons.models.layers.base import check_sampling

_ELEMENTWISE = (nn.ReLU, nn.Tanh, nn.Sigmoid, nn.Softplus, nn.ELU, nn.GELU, nn.SiLU, nn.LeakyReLU)
_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d)
_ROWS_CPU, _ROWS_GPU = 2_000, 131_072
_ROWS_TO_SLICE = 64


@torch.no_grad()
def predict(
    model: Network,
    x: Tensor,
    n_samples: int,
    sampling: Sampling = "per_example",
    *,
    generator: torch.Generator,
    chunk_rows: int | None = None,
) -> Tensor:
    """``n_samples`` draws of ``model(x)``: ``(S, B, ...)`` without gradient.

    Args:
        x: ``(B, ...)``.
        sampling: ``"per_example"``: every row of every sample has its own draw of the weights.
            ``"shared"``: sample s is one function, evaluated at all rows.
        chunk_rows: how many rows go through the network at a time (memory against overhead);
            ``None`` picks a measured value for the device. It changes which numbers are drawn
            under ``"per_example"``, never their law.

    Raises:
        ValueError: if ``n_samples`` or ``chunk_rows`` is below 1, ``x`` has no rows or is not
            finite, ``sampling`` is not one of the two, or a batch norm is in training mode.
        TypeError: if ``model`` is no :class:`Network` or ``generator`` no generator.
    """
    blocks = _row_blocks(model, x, n_samples, sampling, generator, chunk_rows)
    return torch.cat([torch.cat(list(draws)) for draws in blocks], dim=1)


@torch.no_grad()
def predict_mean(
    model: Network,
    x: Tensor,
    n_samples: int,
    function: Callable[[Tensor], Tensor],
    sampling: Sampling = "per_example",
    *,
    generator: torch.Generator,
    chunk_rows: int | None = None,
) -> Tensor:
    """The mean of ``function(output)`` over draws, without holding all S outputs: ``(B, ...)``.

    ``predict_mean(model, x, 100, lambda logits: logits.softmax(-1), generator=g)`` are the
    predictive class probabilities.

    Args:
        function: maps outputs ``(s, B, ...)`` to ``(s, B, ...)``, each draw and row on its own.

    The other arguments and errors are those of :func:`predict`.
    """
    blocks = _row_blocks(model, x, n_samples, sampling, generator, chunk_rows)
    return torch.cat([sum(function(f).sum(0) for f in draws) / n_samples for draws in blocks])


def _row_blocks(
    model: Network,
    x: Tensor,
    n_samples: int,
    sampling: Sampling,
    generator: torch.Generator,
    chunk_rows: int | None,
) -> Iterator[Iterator[Tensor]]:
    """For each block of rows an iterator over chunks ``(s, b, ...)`` of its samples."""
    on_cpu = x.device.type == "cpu"
    if chunk_rows is None:
        chunk_rows = _ROWS_CPU if on_cpu else _ROWS_GPU
    _check(model, x, n_samples, sampling, generator, chunk_rows)
    start = next((i for i, module in enumerate(model) if _is_random(module)), len(model))
    prefix, tail = model[:start], list(model)[start:]
    noise = {}
    if sampling == "shared":  # drawn once, so that all row blocks see the same functions
        noise = {m: m.sample_weights(n_samples, generator) for m in tail if _is_random(m)}
    slices = on_cpu and any(_drops_units(module, draw) for module, draw in noise.items())
    for rows in x.split(chunk_rows):
        features = prefix(rows, "mean")
        if slices and len(rows) >= _ROWS_TO_SLICE:
            yield (_kept_units_only(tail, noise, s, features) for s in range(n_samples))
        else:
            n_draws = max(1, chunk_rows // len(rows))
            chunks = torch.arange(n_samples).split(n_draws)
            yield (_expanded(tail, noise, chunk, features, generator) for chunk in chunks)


def _expanded(
    tail: list[nn.Module], noise: dict, chunk: Tensor, features: Tensor, generator: torch.Generator
) -> Tensor:
    """The samples in ``chunk`` at once: ``(s, b, ...)``; fresh noise where none is given."""
    n_draws = len(chunk)
    h = features.expand(n_draws, *features.shape)
    for module in tail:
        if module in noise:
            h = module.forward_with(h, _some(noise[module], int(chunk[0]), n_draws))
        elif isinstance(module, StochasticLayer):
            h = module(h, "per_example", generator)
        else:
            h = module(h.flatten(0, 1)).unflatten(0, (n_draws, -1))
    return h


def _kept_units_only(tail: list[nn.Module], noise: dict, s: int, features: Tensor) -> Tensor:
    """Sample s as the sub-network that its noise leaves: ``(1, b, ...)``."""
    h, all_units = features, True
    for position, module in enumerate(tail):
        if module not in noise:
            h = module(h, "mean") if isinstance(module, StochasticLayer) else module(h)
            continue
        if not isinstance(module, UnitNoiseLinear):
            h = module.forward_with(h[None], _some(noise[module], s, 1))[0]
            continue
        kept, xi = _kept(noise[module][s, 0])
        weight, bias = module.weight, module.bias
        following = _next_linear(tail, position, noise)
        if following is not None:
            wanted, _ = _kept(noise[following][s, 0])
            weight = weight.index_select(0, wanted)
            bias = None if bias is None else bias[wanted]
        if all_units:
            h = h.index_select(1, kept)
        h = linear(h, weight.index_select(1, kept) * xi, bias)
        all_units = following is None
    return h[None]


def _some(draw: Tensor | tuple, start: int, n: int) -> Tensor | tuple:
    """Samples ``start`` to ``start + n`` of a draw; that of a block is a tuple of draws."""
    if isinstance(draw, tuple):
        return tuple(_some(part, start, n) for part in draw)
    return draw[start : start + n]


def _drops_units(module: nn.Module, draw: Tensor | tuple) -> bool:
    """Gaussian noise drops none: its weights would only be copied."""
    return isinstance(module, UnitNoiseLinear) and bool((draw == 0).any())


def _kept(xi: Tensor) -> tuple[Tensor, Tensor]:
    kept = xi.nonzero().squeeze(1)
    return kept, xi[kept]


def _next_linear(tail: list[nn.Module], position: int, noise: dict) -> nn.Module | None:
    """The noisy linear layer whose inputs are, unit by unit, the outputs at ``position``."""
    for module in tail[position + 1 :]:
        if isinstance(module, UnitNoiseLinear) and module in noise:
            return module
        if not isinstance(module, _ELEMENTWISE):
            return None
    return None


def _is_random(module: nn.Module) -> bool:
    return isinstance(module, StochasticLayer) and module.is_random


def _check(model, x, n_samples, sampling, generator, chunk_rows) -> None:
    if not isinstance(model, Network):
        raise TypeError(f"model must be a Network, got {type(model).__name__}")
    if sampling == "mean":
        raise ValueError("sampling must be 'example' or 'function'; 'mean' has nothing to draw")
    check_sampling(sampling, generator)
    if any(m.training for m in model.modules() if isinstance(m, _BATCH_NORMS)):
        raise ValueError(
            "model has a batch norm that uses the statistics of the batch: call model.eval()"
        )
    if n_samples < 1 or chunk_rows < 1:
        raise ValueError(f"n_samples and chunk_rows must be >= 1, got {n_samples} and {chunk_rows}")
    if len(x) == 0 or not torch.isfinite(x).all():
        raise ValueError(f"x must have rows and be finite, got shape {tuple(x.shape)}")
