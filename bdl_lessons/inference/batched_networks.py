"""Batched networks: M networks of one architecture, trained and evaluated in one operation.

Small networks leave a machine idle. M of them with stacked parameters do the same arithmetic at
once; Adam and momentum act on each number alone, so one optimizer over the stack is M optimizers.
The networks may differ in their data, in what is a parameter or a buffer (a weight, a rate, an
alpha), and in the likelihood and the weight of the KL. Lesson 13.
"""

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from functools import partial

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state
from torch.optim import Optimizer

from bdl_lessons.core import validation
from bdl_lessons.core.autograd import vmap
from bdl_lessons.core.validation import typechecked
from bdl_lessons.inference import train
from bdl_lessons.models import Network, Sampling


class BatchedNetworks:
    """M networks with stacked parameters.

    Raises ValueError if there is no network, or they differ in more than values and starts: in
    modules, shapes, which layers are random, or a setting such as the prior.

    >>> from bdl_lessons.models import BinaryDropout, mlp
    >>> rates = (0.1, 0.2, 0.5)
    >>> methods = [partial(BinaryDropout, p_drop=rate) for rate in rates]
    >>> three = BatchedNetworks([mlp((4, 8, 2), method) for method in methods])
    >>> three(torch.ones(3, 20, 4), "mean").shape, three.kl().shape
    (torch.Size([3, 20, 2]), torch.Size([3]))
    """

    @typechecked
    def __init__(self, networks: Sequence[Network]) -> None:
        if not networks:
            raise ValueError("networks must not be empty")
        first, *others = map(_settings_in_common, networks)
        for other in others:
            differing = [name for name in first | other if first.get(name) != other.get(name)]
            if differing:
                raise ValueError(f"networks must be alike, they differ in {differing}")
        self._networks = [deepcopy(network) for network in networks]
        stackable = [_with_settings_as_buffers(network) for network in networks]
        self._first = stackable[0]
        parameters, self._buffers = stack_module_state(stackable)
        self._parameters = {
            name: value.detach().clone().requires_grad_(value.requires_grad)
            for name, value in parameters.items()
        }

    def __len__(self) -> int:
        return len(self._networks)

    def __call__(
        self, x: Tensor, sampling: Sampling, generator: torch.Generator | None = None
    ) -> Tensor:
        """Every network on its own examples: ``x`` is ``(M, B, ...)``, the result ``(M, B, L)``."""
        validation.floating_type("x", x)
        validation.shapes(f"x must be (M, ...) for M = {len(self)} networks", x, M=len(self))
        return vmap(lambda state, x: self._call(state, x, sampling, generator))(self._state, x)

    def kl(self) -> Tensor:
        """The KL of each network in nats, ``(M,)``."""
        return vmap(self._call)(self._state)

    def parameters(self) -> Iterator[Tensor]:
        """The stacked parameters, ``(M, ...)`` each."""
        return iter(self._parameters.values())

    def network(self, number: int) -> Network:
        """A copy of one of them as a network of its own."""
        network = deepcopy(self._networks[number])
        trained = {name: value[number] for name, value in self._parameters.items()}
        network.load_state_dict(trained, strict=False)  # buffers are not trained
        return network

    def _call(self, state: dict[str, Tensor], *args) -> Tensor:
        named = {f"network.{name}": value for name, value in state.items()}
        return functional_call(_Call(self._first), named, args)

    @property
    def _state(self) -> dict[str, Tensor]:
        return self._parameters | self._buffers


@typechecked
def fit_batched(
    networks: BatchedNetworks,
    x: Tensor,
    y: Tensor,
    nll: Callable[..., Tensor],
    *,
    n_steps: int,
    generator: torch.Generator,
    optimizer: Optimizer | train.OptimizerFactory,
    nll_args: tuple[Tensor, ...] = (),
    batch_size: int | None = None,
    kl_weight: train.KLWeight = 1.0,
    sampling: Sampling = "per_example",
    schedule: Callable[[int], float] | None = None,
    progress: bool = True,
) -> Tensor:
    """Train all networks in place; returns the loss of each before each step, ``(n_steps, M)``.

    Arguments and errors are those of :func:`bdl_lessons.inference.fit`, without ``callback``, but
    for these:

    Args:
        x, y: a training set for each network, ``(M, N, ...)``. For the same examples
            ``x.expand(M, *x.shape)``, which copies nothing: the minibatches still differ.
        nll: mean negative log-likelihood of one network's minibatch.
        nll_args: further arguments of ``nll``, ``(M, ...)`` each: with ``gaussian_nll`` the
            precision ``tau`` of each network.
        kl_weight: one for all or one for each, ``(M,)``, or a function of the step.

    >>> from torch.nn.functional import cross_entropy
    >>> from bdl_lessons.models import BinaryDropout, mlp
    >>> method = partial(BinaryDropout, p_drop=0.1)
    >>> three = BatchedNetworks([mlp((4, 8, 2), method) for _ in range(3)])
    >>> from bdl_lessons.inference import adam
    >>> x, y = torch.ones(3, 20, 4), torch.zeros(3, 20).long()
    >>> losses = fit_batched(
    ...     three,
    ...     x,
    ...     y,
    ...     cross_entropy,
    ...     n_steps=5,
    ...     optimizer=adam(1e-3),
    ...     generator=torch.Generator(),
    ... )
    >>> losses.shape
    torch.Size([5, 3])
    """
    rule = f"x must be (M, N, ...) and y (M, N, ...) with M = {len(networks)}"
    validation.shapes(rule, x, y, M=len(networks))
    train.check_data(x, y, "the networks' parameters", next(networks.parameters()))
    n_steps = validation.integer("n_steps", n_steps, 1)
    n_train = x.shape[1]
    nll_of_each = vmap(partial(train.mean_of, nll))
    batches = train.minibatches(x, y, batch_size, generator, batched=True)

    def loss_at(step: int) -> Tensor:
        inputs, targets = next(batches)
        nll_mean = nll_of_each(networks(inputs, sampling, generator), targets, *nll_args)
        return train.with_kl(nll_mean, networks, n_train, kl_weight, step)

    run = train.Run(n_steps, n_train // int(batch_size or n_train), kl_weight, nll)
    return train.optimize(networks.parameters(), loss_at, run, optimizer, schedule, progress)


@typechecked
@torch.no_grad()
def predict_batched(
    networks: BatchedNetworks,
    x: Tensor,
    n_samples: int,
    *,
    generator: torch.Generator,
    chunk_rows: int = 4000,
) -> Tensor:
    """``n_samples`` draws of every network's output: ``(S, M, B, L)``.

    Every example of every sample has its own draw of the weights (``"per_example"``).

    ``x`` has examples for each network, ``(M, B, ...)``, of which ``chunk_rows`` at a time are
    computed. TypeError or ValueError if ``n_samples`` or ``chunk_rows`` is no integer >= 1, or
    ``x`` is not finite or has no examples.

    >>> from bdl_lessons.models import BinaryDropout, mlp
    >>> method = partial(BinaryDropout, p_drop=0.1)
    >>> three = BatchedNetworks([mlp((4, 8, 2), method) for _ in range(3)])
    >>> predict_batched(three, torch.ones(3, 20, 4), 100, generator=torch.Generator()).shape
    torch.Size([100, 3, 20, 2])
    """
    n_samples = validation.integer("n_samples", n_samples, 1)
    validation.shapes("x must be (M, B, ...)", validation.floating("x", x))
    validation.same_dtype("x", x, "the networks' parameters", next(networks.parameters()))
    at_once = max(1, validation.integer("chunk_rows", chunk_rows, 1) // x.shape[1])
    draws = []
    for start in range(0, n_samples, at_once):
        n_draws = min(at_once, n_samples - start)
        copies = x[:, None].expand(len(x), n_draws, *x.shape[1:])
        draws.append(networks(copies, "per_example", generator).transpose(0, 1))
    return torch.cat(draws)


class _Call(nn.Module):
    """What ``functional_call`` can call: the network, or without arguments its KL."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network

    def forward(self, *args) -> Tensor:
        return self.network(*args) if args else self.network.kl()


def _settings_in_common(network: Network) -> dict[str, object]:
    """What may not differ: modules, shapes, and settings but for a layer's ``batch_may_differ``."""
    settings: dict[str, object] = {
        name: value.shape for name, value in network.state_dict().items()
    }
    for name, module in network.named_modules():
        settings[f"{name}.type"] = type(module)
        may_differ = ("training", *getattr(module, "batch_may_differ", ()))
        for key, value in vars(module).items():
            if not key.startswith("_") and key not in may_differ:
                settings[f"{name}.{key}"] = value
    return settings


def _with_settings_as_buffers(network: Network) -> Network:
    """A copy whose ``batch_may_differ`` are buffers, which ``vmap`` can give each network its own
    of."""
    network = deepcopy(network)
    for module in network.modules():
        for name in getattr(module, "batch_may_differ", ()):
            value = torch.tensor(getattr(module, name), device=module.weight.device)
            delattr(module, name)
            module.register_buffer(name, value, persistent=False)
    return network
