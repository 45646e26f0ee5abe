r"""Monte Carlo prediction: T draws of a network's output, with a leading sample axis. Lesson 05.

.. math:: f_t(x) = f(x;\, w_t), \qquad w_t \sim q(w), \qquad t = 1, \dots, T

That is ``torch.stack([model(x, sampling, generator) for _ in range(T)])``. Here the T forward
passes are stacked into a few large ones, as many examples at a time as suit the device.
What else saves time lies in :mod:`bdl_lessons.inference.predict_fast`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from bdl_lessons.core import validation
from bdl_lessons.core.validation import typechecked
from bdl_lessons.inference.predict_fast import before_noise, drops_units, slice_draws, sub_network
from bdl_lessons.models import Network, Sampling, StochasticLayer
from bdl_lessons.models.layers.base import check_sampling
from bdl_lessons.models.layers.unit_noise import UnitNoiseLayer

_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d)
_ROWS_CPU, _ROWS_GPU = 2_000, 131_072
_BYTES = 2**31
"""What the activations of a chunk may take, or the weights that are drawn at a time; estimated."""


@typechecked
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
        sampling: ``"per_example"``: every example of every sample has its own draw of the weights.
            ``"shared"``: sample s is one function, evaluated at all examples.
        chunk_rows: how many examples are computed at a time (memory against overhead); ``None``
            picks a measured value for the device, fewer for examples of many bytes. It changes
            which numbers are drawn under ``"per_example"``, not the distribution of an example's
            outputs. (Hierarchical dropout shares its scales among the examples of a chunk.)

    Raises:
        TypeError: if an argument has another type than the signature says.
        ValueError: if ``n_samples`` or ``chunk_rows`` is below 1, ``x`` has no examples, is not
            finite or does not fit the model, ``sampling`` is ``"mean"``, or a batch norm is in
            training mode.
    """
    groups = _groups(model, x, n_samples, sampling, generator, chunk_rows)
    return torch.cat(
        [torch.cat([torch.cat(list(draws)) for draws in blocks], dim=1) for blocks in groups]
    )


@typechecked
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
        function: maps outputs ``(s, B, ...)`` to ``(s, B, ...)``, each draw and example on its own.

    The other arguments and errors are those of :func:`predict`. ValueError too if ``function``
    takes the mean over draws or examples itself.
    """

    def total(outputs: Tensor) -> Tensor:
        values = function(outputs)
        if values.shape[:2] != outputs.shape[:2]:
            raise ValueError(
                f"function must keep the axes of draws and examples, {tuple(outputs.shape[:2])}, "
                f"got a result of shape {tuple(values.shape)}"
            )
        return values.sum(0)

    groups = _groups(model, x, n_samples, sampling, generator, chunk_rows)
    return sum(
        torch.cat([sum(map(total, draws)) / n_samples for draws in blocks]) for blocks in groups
    )


def _groups(
    model: Network,
    x: Tensor,
    n_samples: int,
    sampling: Sampling,
    generator: torch.Generator,
    chunk_rows: int | None,
) -> Iterator[Iterator[Iterator[Tensor]]]:
    """The samples in groups whose draws fit in memory; of each what :func:`_blocks` gives."""
    row_bytes = _check(model, x, n_samples, sampling, generator, chunk_rows)
    if chunk_rows is None:
        chunk_rows = _ROWS_CPU if x.device.type == "cpu" else _ROWS_GPU
        chunk_rows = min(chunk_rows, max(1, _BYTES // row_bytes))
    at_once = n_samples
    if sampling == "shared":  # a draw of unit noise is small, one of weights has their size
        layers = [m for m in model.modules() if isinstance(m, nn.Linear | nn.Conv2d)]
        drawn = sum(m.weight.nbytes for m in layers if not isinstance(m, UnitNoiseLayer))
        at_once = max(1, _BYTES // max(1, drawn))
    for start in range(0, n_samples, at_once):
        n_group = min(at_once, n_samples - start)
        yield _blocks(model, x, n_group, sampling, generator, chunk_rows)


def _blocks(
    model: Network,
    x: Tensor,
    n_samples: int,
    sampling: Sampling,
    generator: torch.Generator,
    chunk_rows: int,
) -> Iterator[Iterator[Tensor]]:
    """For each block of examples an iterator over chunks ``(s, b, ...)`` of its samples."""
    prefix, tail = before_noise(model)
    draws = {}
    if sampling == "shared":  # drawn once, so that all blocks see the same functions
        random = [m for m in tail if isinstance(m, StochasticLayer) and m.is_random]
        draws = {layer: layer.sample_weights(n_samples, generator) for layer in random}
    sliced = drops_units(draws)
    for block in x.split(chunk_rows):
        features = prefix(block, "mean")
        if sliced and len(block) >= 64:  # for fewer, slicing the weights takes more than it saves
            yield (sub_network(tail, draws, s, features) for s in range(n_samples))
        else:
            chunks = torch.arange(n_samples).split(max(1, chunk_rows // len(block)))
            yield (_stacked(tail, draws, chunk, features, generator) for chunk in chunks)


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


def _check(model, x, n_samples, sampling, generator, chunk_rows) -> int:
    """The bytes that an example takes: four times the largest output of a module."""
    if sampling == "mean":
        raise ValueError("sampling must be 'per_example' or 'shared'; 'mean' has nothing to draw")
    check_sampling(sampling, generator)
    if any(m.training for m in model.modules() if isinstance(m, _BATCH_NORMS)):
        raise ValueError(
            "model has a batch norm that uses the statistics of the batch: call model.eval()"
        )
    validation.integer("n_samples", n_samples, 1)
    validation.integer("chunk_rows", 1 if chunk_rows is None else chunk_rows, 1)
    if len(x) == 0:
        raise ValueError(f"x must have examples, got shape {tuple(x.shape)}")
    validation.finite("x", x)
    largest = [1]

    def look(module: nn.Module, inputs: tuple, output: object) -> None:
        if isinstance(output, Tensor):
            largest.append(output.nbytes)

    try:  # slicing weights would hide a wrong width
        with torch.nn.modules.module.register_module_forward_hook(look):
            model(x[:1], "mean")
    except (RuntimeError, ValueError) as error:
        raise ValueError(f"x of shape {tuple(x.shape)} does not fit model: {error}") from error
    return 4 * max(largest)
