r"""SWAG: the weights that stochastic gradient descent visits, taken as a Gaussian posterior.

(Maddox, Garipov, Izmailov, Vetrov and Wilson, NeurIPS 2019.) Train, then keep a constant learning
rate and look at the weights once an epoch. Their mean, the variance of each and their last K
deviations from the running mean, the columns of D, make the posterior

.. math:: q(w) = \mathcal N\Big(\bar w,\; \tfrac12 \mathrm{diag}(\sigma^2)
          + \tfrac{1}{2 (K - 1)} D D^\top\Big)

over all weights of the network together. There is no KL: the variance is that of the noise of the
minibatches. Lesson 13.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor
from torch.optim.swa_utils import update_bn

from bdl_lessons.core.random import standard_normal
from bdl_lessons.inference import BatchedNetworks, fit, fit_batched
from bdl_lessons.inference.train import OptimizerFactory
from bdl_lessons.models import Network

MAX_RANK = 20  # K, how many deviations are kept; as published


class SWAG:
    """What is collected of ``parameters``, of one network or a batch, and draws from it."""

    def __init__(self, parameters: Iterable[Tensor]) -> None:
        self._parameters = list(parameters)
        self.n_collected = 0
        self.mean = [torch.zeros_like(p) for p in self._parameters]
        self.var = [torch.zeros_like(p) for p in self._parameters]
        self.deviations: deque[list[Tensor]] = deque(maxlen=MAX_RANK)

    @torch.no_grad()
    def collect(self) -> None:
        """Take in the parameters as they are now."""
        self.n_collected += 1
        deviations = []
        for p, mean, var in zip(self._parameters, self.mean, self.var, strict=True):
            from_old_mean = p - mean
            mean += from_old_mean / self.n_collected
            from_new_mean = p - mean
            var += (from_old_mean * from_new_mean - var) / self.n_collected
            deviations.append(from_new_mean)
        self.deviations.append(deviations)

    def draw(self, generator: torch.Generator) -> list[Tensor]:
        """One draw of all parameters, of two or more collected models."""
        rank = len(self.deviations)
        shared_eps = standard_normal((rank,), generator, self.mean[0])
        draws = []
        for mean, var, *deviations in zip(self.mean, self.var, *self.deviations, strict=True):
            D = torch.stack(deviations)
            shared_noise = torch.tensordot(shared_eps, D, dims=1) / (rank - 1) ** 0.5
            own_noise = var.sqrt() * standard_normal(mean.shape, generator, mean)
            draws.append(mean + 0.5**0.5 * (own_noise + shared_noise))
        return draws

    @torch.no_grad()
    def put(self, values: Sequence[Tensor]) -> None:
        """Write ``values``, one for each parameter, into the parameters."""
        for p, value in zip(self._parameters, values, strict=True):
            p.copy_(value)


def fit_swag(
    model: Network | BatchedNetworks,
    x: Tensor,
    y: Tensor,
    nll: Callable[..., Tensor],
    *,
    n_epochs: int,
    collect_from: int,
    batch_size: int,
    optimizer: OptimizerFactory,
    final_factor: float,
    **settings: object,
) -> SWAG:
    """Train ``model`` in place and collect once an epoch from epoch ``collect_from`` on.

    The learning rate of ``optimizer``, descent with momentum (Adam scales the noise away), falls
    from half of ``collect_from`` to 0.9 of it in a straight line to ``final_factor`` times itself.
    Published for CIFAR-10: 300 epochs, collected from 161 on, ``sgd(0.05)``, a factor of 0.2. Other
    arguments are those of ``fit`` or ``fit_batched``.
    """
    if isinstance(model, BatchedNetworks):
        train = fit_batched
        n_train = x.shape[1]
    else:
        train = fit
        n_train = len(x)
    with_momentum = optimizer(model.parameters())  # one for all epochs: it holds the momentum
    (group,) = with_momentum.param_groups
    rate = group["lr"]
    swag = SWAG(model.parameters())
    for epoch in range(n_epochs):
        progress = epoch / max(collect_from, 1)
        fall = min(max((progress - 0.5) / 0.4, 0.0), 1.0)
        group["lr"] = rate * (1 + (final_factor - 1) * fall)
        train(
            model,
            x,
            y,
            nll,
            n_steps=max(1, n_train // batch_size),
            optimizer=with_momentum,
            batch_size=min(batch_size, n_train),
            sampling="mean",
            **settings,
        )
        if epoch >= collect_from:
            swag.collect()
    return swag


@torch.no_grad()
def predict_swag(
    swag: SWAG,
    model: Network | BatchedNetworks,
    x: Tensor,
    n_samples: int,
    *,
    generator: torch.Generator,
    train_x: Tensor | None = None,
) -> Tensor:
    """``n_samples`` functions drawn from the posterior, at ``x``: ``(S, B, ...)`` like ``predict``.

    Leaves ``model`` at the mean weights. A network with batch norm needs ``train_x``, the training
    inputs: every draw collects the statistics of its own weights.
    """
    outputs = []
    for number in range(n_samples + 1):
        swag.put(swag.draw(generator) if number < n_samples else swag.mean)
        if train_x is not None:
            n_parts = -(-len(train_x) // 500)  # of one size: update_bn weights them alike
            with model.register_forward_pre_hook(lambda _, args: (*args, "mean")):
                update_bn(train_x.tensor_split(n_parts), model)
        outputs.append(model(x, "mean"))
    return torch.stack(outputs[:-1])
