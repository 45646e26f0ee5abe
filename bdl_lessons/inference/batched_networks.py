"""Networks of one architecture side by side: trained and asked together, each on its own.

Small networks leave a machine idle. M of them with stacked parameters do the same arithmetic in one
operation instead of M; Adam and momentum act on each number alone, so one optimiser over the stack
is M optimisers. The members may differ in their weights, in their data, in anything that is a
parameter or a buffer (a rate, an alpha), and in the likelihood and the weight of the KL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state

from bdl_lessons.core.autograd import vmap
from bdl_lessons.inference.train import OptimizerFactory, optimize
from bdl_lessons.models import Network, Sampling, StochasticLayer
from bdl_lessons.models.layers.base import check_sampling


class BatchedNetworks:
    """M networks with stacked parameters.

    What is neither a parameter nor a buffer, such as the prior, is that of the first network.

    Raises:
        ValueError: if there is no network, their parameters differ in name or shape, or a layer is
            random in one of them and not in another.
    """

    def __init__(self, networks: Sequence[Network]) -> None:
        if not networks:
            raise ValueError("networks must not be empty")
        if len({_structure(network) for network in networks}) > 1:
            raise ValueError("networks must have the same layers, parameters and random layers")
        self._networks = [deepcopy(network) for network in networks]
        parameters, self._buffers = stack_module_state(self._networks)
        self._parameters = {
            name: value.detach().clone().requires_grad_(value.requires_grad)
            for name, value in parameters.items()
        }

    def __len__(self) -> int:
        return len(self._networks)

    def __call__(
        self, x: Tensor, sampling: Sampling, generator: torch.Generator | None = None
    ) -> Tensor:
        """Every member on its own rows: ``x`` is ``(M, B, ...)``, the result ``(M, B, L)``."""
        check_sampling(sampling, generator)
        if len(x) != len(self):
            raise ValueError(f"x must have {len(self)} members first, got shape {tuple(x.shape)}")
        return vmap(lambda state, rows: self._call(state, rows, sampling, generator))(
            self._state, x
        )

    def kl(self) -> Tensor:
        """The KL of each member in nats, ``(M,)``."""
        return vmap(self._call)(self._state)

    def parameters(self) -> Iterator[Tensor]:
        """The stacked parameters, ``(M, ...)`` each."""
        return iter(self._parameters.values())

    def network(self, member: int) -> Network:
        """A copy of one member as a network of its own."""
        network = deepcopy(self._networks[member])
        state = {name: value[member].detach() for name, value in self._state.items()}
        with torch.no_grad():
            for name, value in [*network.named_parameters(), *network.named_buffers()]:
                value.copy_(state[name])
        return network

    def _call(self, state: dict[str, Tensor], *args) -> Tensor:
        named = {f"network.{name}": value for name, value in state.items()}
        return functional_call(_Call(self._networks[0]), named, args)

    @property
    def _state(self) -> dict[str, Tensor]:
        return self._parameters | self._buffers


def fit_batched(
    members: BatchedNetworks,
    x: Tensor,
    y: Tensor,
    nll: Callable[..., Tensor],
    *,
    n_steps: int,
    generator: torch.Generator,
    optimizer: OptimizerFactory,
    nll_args: tuple[Tensor, ...] = (),
    batch_size: int | None = None,
    kl_weight: float | Tensor | Callable[[int], float | Tensor] = 1.0,
    sampling: Sampling = "per_example",
    schedule: Callable[[int], float] | None = None,
) -> Tensor:
    """Train all members in place; returns the loss of each before each step, ``(n_steps, M)``.

    The arguments are those of :func:`bdl_lessons.inference.train.fit`, but for:

    Args:
        x, y: a training set for each member, ``(M, N, ...)``. For the same rows
            ``x.expand(M, *x.shape)``, which copies nothing: the minibatches still differ.
        nll: mean negative log likelihood of one member's minibatch.
        nll_args: further arguments of ``nll``, ``(M, ...)`` each: ``gaussian_nll_at`` takes the
            precision of each member.
        kl_weight: one for all or one for each, ``(M,)``, or a function of the step.

    Raises:
        ValueError: if shapes differ, or ``n_steps`` or ``batch_size`` cannot be.
        FloatingPointError: if a loss is NaN or infinite; the message names the step.
    """
    if x.shape[:2] != y.shape[:2] or len(x) != len(members) or x.shape[1] == 0:
        raise ValueError(
            f"x and y must be (M, N, ...) with M = {len(members)} and N > 0, "
            f"got {tuple(x.shape)} and {tuple(y.shape)}"
        )
    if n_steps < 1:
        raise ValueError(f"n_steps must be >= 1, got {n_steps}")
    n_train = x.shape[1]
    weight_at = kl_weight if callable(kl_weight) else lambda step: kl_weight
    minibatches = _minibatches(x, y, batch_size, generator)
    nll_of_each = vmap(nll)

    def loss_at(step: int) -> Tensor:
        inputs, targets = next(minibatches)
        loss = nll_of_each(members(inputs, sampling, generator), targets, *nll_args)
        weight = weight_at(step)
        charged = isinstance(weight, Tensor) or weight != 0
        return loss + weight / n_train * members.kl() if charged else loss

    return optimize(members.parameters(), loss_at, n_steps, optimizer, schedule)


@torch.no_grad()
def predict_members(
    members: BatchedNetworks,
    x: Tensor,
    n_samples: int,
    *,
    generator: torch.Generator,
    chunk_rows: int = 4000,
) -> Tensor:
    """``n_samples`` draws of every member's output: ``(S, M, B, L)``.

    Every row of every sample has its own draw of the weights (``"per_example"``).

    Args:
        x: rows for each member, ``(M, B, ...)``.
        chunk_rows: how many rows of a member go through at a time.

    Raises:
        ValueError: if ``n_samples`` or ``chunk_rows`` is below 1.
    """
    if n_samples < 1 or chunk_rows < 1:
        raise ValueError(f"n_samples and chunk_rows must be >= 1, got {n_samples} and {chunk_rows}")
    at_once = max(1, chunk_rows // x.shape[1])
    draws = []
    for start in range(0, n_samples, at_once):
        n_draws = min(at_once, n_samples - start)
        rows = x[:, None].expand(len(x), n_draws, *x.shape[1:]).flatten(1, 2)
        outputs = members(rows, "per_example", generator).unflatten(1, (n_draws, -1))
        draws.append(outputs.transpose(0, 1))
    return torch.cat(draws)


class _Call(nn.Module):
    """What ``functional_call`` can call: the network, or without arguments its KL."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network

    def forward(self, *args) -> Tensor:
        return self.network(*args) if args else self.network.kl()


def _minibatches(
    x: Tensor, y: Tensor, batch_size: int | None, generator: torch.Generator
) -> Iterator[tuple[Tensor, Tensor]]:
    """Rows of each member without replacement within an epoch, for as long as they are wanted."""
    n_train = x.shape[1]
    if batch_size is None or batch_size == n_train:
        while True:
            yield x, y
    if not 1 <= batch_size <= n_train:
        raise ValueError(f"batch_size must be in 1..{n_train}, got {batch_size}")
    member = torch.arange(len(x), device=x.device)[:, None]
    while True:
        keys = torch.rand(len(x), n_train, generator=generator, device=generator.device)
        order = keys.argsort(1).to(x.device)[:, : n_train // batch_size * batch_size]
        for rows in order.split(batch_size, 1):
            yield x[member, rows], y[member, rows]


def _structure(network: Network) -> tuple:
    shapes = {name: tuple(value.shape) for name, value in network.state_dict().items()}
    layers = [m.is_random for m in network.modules() if isinstance(m, StochasticLayer)]
    return str(shapes), str(layers)
