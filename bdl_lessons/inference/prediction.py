r"""Monte Carlo prediction: T draws of a network's output, with a leading sample axis. Lesson 05.

.. math:: f_t(x) = f(x;\, w_t), \qquad w_t \sim q(w), \qquad t = 1, \dots, T

That is ``torch.stack([model(x, sampling, generator) for _ in range(T)])``. Here the T forward
passes are stacked into a few large ones, as many examples at a time as suit the device. The layers
before the first noise give the same in every draw and are computed once.
"""

from itertools import chain

import torch
from torch import Tensor, nn

from bdl_lessons.core import validation
from bdl_lessons.core.validation import typechecked
from bdl_lessons.models import Network, Sampling, StochasticLayer
from bdl_lessons.models.layers.base import UnitNoiseLayer, check_call

_ROWS_CPU, _ROWS_GPU = 2_000, 131_072  # computed at a time, copies counted: measured values
_BYTES = 2**31  # for the activations of a chunk, or the weights that are drawn at a time


@typechecked
@torch.no_grad()
def predict(
    model: Network,
    x: Tensor,
    n_samples: int,
    sampling: Sampling = "per_example",
    *,
    generator: torch.Generator,
) -> Tensor:
    """``n_samples`` draws of ``model(x)``: ``(S, B, ...)`` without gradient.

    Args:
        x: ``(B, ...)``, of the dtype and on the device of the model.
        sampling: ``"per_example"``: every example of every sample has its own draw of the weights.
            ``"shared"``: sample s is one function, evaluated at all examples.
        generator: draws the weights. Many examples are computed in chunks, which changes which
            numbers are drawn under ``"per_example"``, but not the distribution of an example's
            outputs. (Hierarchical dropout shares its scales among the examples of a chunk.)

    Raises:
        TypeError, ValueError: if ``n_samples`` is no integer >= 1, ``x`` has no examples, is not
            finite or does not fit the model in shape, dtype or device, ``sampling`` is ``"mean"``,
            or a batch norm is in training mode.

    >>> from bdl_lessons.models import BinaryDropout, mlp
    >>> network = mlp((3, 50, 2), BinaryDropout(0.1))
    >>> draws = predict(network, torch.ones(4, 3), 100, generator=torch.Generator())
    >>> draws.shape
    torch.Size([100, 4, 2])
    """
    n_rows = min(_ROWS_CPU if x.device.type == "cpu" else _ROWS_GPU, _rows_in_memory(model, x))
    if sampling == "mean":
        raise ValueError("sampling must be 'per_example' or 'shared'; 'mean' has nothing to draw")
    check_call(x, sampling, generator)
    at_once = n_samples = validation.integer("n_samples", n_samples, 1)
    if sampling == "shared":  # a draw of unit noise is small, one of weights has their size
        layers = [m for m in model.modules() if isinstance(m, nn.Linear | nn.Conv2d)]
        drawn = sum(m.weight.nbytes for m in layers if not isinstance(m, UnitNoiseLayer))
        at_once = max(1, _BYTES // max(1, drawn))
    first = next((i for i, module in enumerate(model) if _is_random(module)), len(model))
    before_noise = model[:first]
    others = list(model)[first:]
    groups = []
    for numbers in torch.arange(n_samples).split(at_once):
        draws = {}
        if sampling == "shared":  # drawn once, so that all blocks see the same functions
            random = filter(_is_random, others)
            draws = {layer: layer.sample_weights(len(numbers), generator) for layer in random}
        blocks = []
        for block in x.split(n_rows):
            h = before_noise(block, "mean")
            chunks = torch.arange(len(numbers)).split(max(1, n_rows // len(block)))
            blocks.append(torch.cat([_stacked(others, draws, c, h, generator) for c in chunks]))
        groups.append(torch.cat(blocks, dim=1))
    return torch.cat(groups)


def slice_draws(draws: Tensor | tuple, start: int, n: int) -> Tensor | tuple:
    """Samples ``start`` to ``start + n``; the draws of a block of layers are a tuple."""
    if isinstance(draws, tuple):
        return tuple(slice_draws(part, start, n) for part in draws)
    return draws[start : start + n]


def _is_random(module: nn.Module) -> bool:
    return isinstance(module, StochasticLayer) and module.is_random


def _stacked(
    modules: list[nn.Module], draws: dict, chunk: Tensor, h: Tensor, generator: torch.Generator
) -> Tensor:
    """The samples in ``chunk`` in one pass: ``(s, b, ...)``; new noise where none was drawn."""
    n_draws = len(chunk)
    h = h.expand(n_draws, *h.shape)
    for module in modules:
        if module in draws:
            h = module.forward_with(h, slice_draws(draws[module], int(chunk[0]), n_draws))
        elif isinstance(module, StochasticLayer):
            h = module(h, "per_example", generator)
        else:
            h = module(h.flatten(0, 1)).unflatten(0, (n_draws, -1))
    return h


def _rows_in_memory(model: Network, x: Tensor) -> int:
    """How many examples fit, if one takes four times the largest output of a module; checks x."""
    norms = (m for m in model.modules() if isinstance(m, nn.BatchNorm1d | nn.BatchNorm2d))
    if any(norm.training for norm in norms):
        raise ValueError("model has a batch norm that looks at the batch: call model.eval()")
    validation.shapes("x must be (B, ...)", x)
    state = chain(model.parameters(), model.buffers())
    weights = next(filter(Tensor.is_floating_point, state), x)
    validation.same_dtype("x", validation.finite("x", x), "the model", weights)
    largest = [1]

    def look(module: nn.Module, inputs: tuple, output: object) -> None:
        if isinstance(output, Tensor):
            largest.append(output.nbytes)

    try:
        with torch.nn.modules.module.register_module_forward_hook(look):
            model(x[:1], "mean")
    except (RuntimeError, ValueError) as error:
        raise ValueError(f"x of shape {tuple(x.shape)} does not fit model: {error}") from error
    return max(1, _BYTES // (4 * max(largest)))
