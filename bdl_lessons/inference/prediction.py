r"""Monte Carlo prediction: draws of a network's output, with a leading sample axis. Lesson 05.

.. math:: f_t(x) = f(x;\, w_t), \qquad w_t \sim q(w), \qquad t = 1, \dots, T

That is ``torch.stack([model(x, sampling, generator) for _ in range(T)])``. Here the T forward
passes are stacked into a few large ones, along the sample axis of the layers.
"""

import torch
from torch import Tensor, nn

from bdl_lessons.core import validation
from bdl_lessons.core.validation import typechecked
from bdl_lessons.models import Deterministic, Network, Sampling, StochasticLayer, UnitNoise
from bdl_lessons.models.networks import is_stochastic, refuse_own_draws

_ROWS_CPU = 2_000  # computed at a time, copies counted: measured values
_ROWS_GPU = 131_072


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
        x: ``(B, ...)``, of the dtype and on the device of the model.
        sampling: ``"per_example"``: every example of every sample has its own draw of the weights.
            ``"shared"``: sample s is one function, evaluated at all examples.
        generator: draws the weights. Many examples are computed in chunks, which changes which
            numbers are drawn, but not the distribution of an example's outputs. (Hierarchical
            dropout shares its scales among the examples of a chunk.)
        chunk_rows: how many examples are computed at a time, those of all samples counted, which
            bounds the memory for activations; ``None``: 2,000 on a CPU, 131,072 on a GPU.

    Raises:
        TypeError, ValueError: if ``n_samples`` or ``chunk_rows`` is no integer >= 1, ``x`` has no
            examples, is not finite or does not fit the model in shape, dtype or device,
            ``sampling`` is ``"mean"``, or ``model`` has a batch norm in training mode or a module
            that draws by itself, such as ``nn.Dropout``.

    >>> from functools import partial
    >>> from bdl_lessons.models import BinaryDropout, mlp
    >>> network = mlp((3, 50, 2), partial(BinaryDropout, p_drop=0.1))
    >>> draws = predict(network, torch.ones(4, 3), 100, generator=torch.Generator())
    >>> draws.shape
    torch.Size([100, 4, 2])
    """
    check_prediction(model, x, sampling)
    n_samples = validation.integer("n_samples", n_samples, least=1)
    if chunk_rows is None:
        chunk_rows = _ROWS_CPU if x.device.type == "cpu" else _ROWS_GPU
    chunk_rows = validation.integer("chunk_rows", chunk_rows, least=1)
    if sampling == "per_example":
        return torch.cat(
            [
                _in_chunks(model, block, n_samples, chunk_rows // len(block), sampling, generator)
                for block in x.split(chunk_rows)
            ],
            dim=1,
        )
    at_once = chunk_rows // (len(x) + rows_of_a_draw(model))
    return _in_chunks(model, x, n_samples, at_once, sampling, generator, chunk_rows)


def _in_chunks(
    model: Network,
    x: Tensor,
    n_samples: int,
    at_once: int,
    sampling: Sampling,
    generator: torch.Generator,
    block_rows: int | None = None,
) -> Tensor:
    """``(n_samples, B, ...)``: ``at_once`` samples, at least one, in each forward pass.

    Of one sample ``block_rows`` examples are computed at a time. They must share the draw of the
    weights, so the generator begins every block where it began the first.
    """
    chunks = []
    for numbers in torch.arange(n_samples).split(max(1, at_once)):
        start = generator.get_state()
        blocks = []
        for block in x.split(block_rows or len(x)):
            generator.set_state(start)
            blocks.append(_forward_pass(model, block, len(numbers), sampling, generator))
        chunks.append(torch.cat(blocks, dim=1))
    return torch.cat(chunks)


def _forward_pass(
    model: Network, x: Tensor, n_samples: int, sampling: Sampling, generator: torch.Generator
) -> Tensor:
    """One pass with a sample axis ``(S, B, ...)``, which modules without noise do not see."""
    h = x.expand(n_samples, *x.shape)
    for module in model:
        if is_stochastic(module):
            h = module(h, sampling, generator)
        else:
            h = module(h.flatten(0, 1)).unflatten(0, (n_samples, -1))
    return h


def rows_of_a_draw(model: nn.Module) -> int:
    """How many examples take the memory of a drawn matrix of weights: as many as it has rows."""
    rows = 0
    for module in model.modules():
        draws_weights = isinstance(module, StochasticLayer)
        if draws_weights and not isinstance(module, UnitNoise | Deterministic):
            rows = max(rows, module.weight.shape[0])
    return rows


def check_prediction(model: Network, x: Tensor, sampling: Sampling) -> None:
    """Raise unless ``predict`` can be called with these arguments."""
    if sampling == "mean":
        raise ValueError("sampling must be 'per_example' or 'shared'; 'mean' has nothing to draw")
    refuse_own_draws(model)
    norms = [m for m in model.modules() if isinstance(m, nn.BatchNorm1d | nn.BatchNorm2d)]
    if any(norm.training for norm in norms):
        raise ValueError("model has a batch norm that looks at the batch: call model.eval()")
    validation.shapes("x must be (B, ...)", x)
    validation.finite("x", x)
    state = (*model.parameters(), *model.buffers())
    weights = next(filter(Tensor.is_floating_point, state), x)
    validation.same_dtype("x", x, "the model", weights)
