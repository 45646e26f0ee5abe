"""Networks of one layer factory for the UCI experiment, all of them trained in one batch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from bdl_lessons.inference import BatchedNetworks, adam, fit_batched, predict_batched
from bdl_lessons.models import LayerFactory, Network, Sampling, StochasticLayer, initialise, mlp
from bdl_lessons.probability import gaussian_nll

Point = Mapping[str, float]
Config = Mapping[str, Any]
Predict = Callable[[Tensor, int, torch.Generator], Tensor]
"""``predict(x, n_samples, generator)``: ``(M, B, K)`` to draws ``(n_draws, M, B)``."""

_ROWS_AT_ONCE = 50_000


KL_WEIGHTS = (1.0, 0.1, 0.01, 1e-3, 1e-4, 1e-5, 1e-6)
"""Factors on the KL where the data term is half the squared error of standardised targets."""


@dataclass(frozen=True)
class Method:
    """A row of the tables.

    Args:
        note: what the report says about it.
        grid: the points that are trained for every split: dictionaries with a ``kl_weight``.
    """

    note: str
    grid: tuple[Point, ...] = tuple({"kl_weight": weight} for weight in KL_WEIGHTS)

    def train(
        self, points: Sequence[Point], x: Tensor, y: Tensor, config: Config, g: torch.Generator
    ) -> Predict:
        """Train for each point, on its own training set.

        Args:
            points: M of them: splits and points of the grid.
            x: ``(M, N, K)``, standardised. y: ``(M, N)``.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class Networks(Method):
    """Networks with the layers of one factory, ``n_networks`` for each point, in one batch.

    Args:
        layers: settings of a point of the grid -> the layers. Noise that is learned starts at
            ``p_drop = 0.05``.
        n_networks: how many networks predict together.
        sampling: which draw of the weights a training step uses.
    """

    layers: Callable[[Point], LayerFactory] = field(kw_only=True)
    n_networks: int = 1
    sampling: Sampling = "per_example"

    def train(
        self, points: Sequence[Point], x: Tensor, y: Tensor, config: Config, g: torch.Generator
    ) -> Predict:
        members = BatchedNetworks(
            [self._network(point, x, config, g) for _ in range(self.n_networks) for point in points]
        )
        fit_batched(
            members,
            self._for_each(x),
            self._for_each(y)[..., None],
            partial(gaussian_nll, tau=1.0),
            kl_weight=self._for_each(kl_weights_of(points, x)),
            generator=g,
            n_steps=config["n_steps"],
            batch_size=min(config["batch_size"], x.shape[-2]),
            sampling=self.sampling,
            optimizer=adam(config["learning_rate"]),
            schedule=cosine(config["n_steps"]),
        )

        def predict(x: Tensor, n_samples: int, generator: torch.Generator) -> Tensor:
            n_draws = n_samples if _is_random(members.network(0)) else 1
            rows = max(1, _ROWS_AT_ONCE // len(members))
            draws = predict_batched(
                members, self._for_each(x), n_draws, generator=generator, chunk_rows=rows
            )
            return draws[..., 0].unflatten(1, (self.n_networks, len(x))).flatten(0, 1)

        return predict

    def _network(self, point: Point, x: Tensor, config: Config, g: torch.Generator) -> Network:
        widths = (x.shape[-1], config["n_hidden"], 1)
        return initialise(mlp(widths, self.layers({"p_drop": 0.05} | point)).to(g.device), g)

    def _for_each(self, values: Tensor) -> Tensor:
        """The same for every network of an ensemble."""
        return values.repeat(self.n_networks, *[1] * (values.dim() - 1))


def cosine(n_steps: int) -> Callable[[int], float]:
    """Factor on the learning rate: half a cosine from 1 to 0."""
    return lambda step: (1 + math.cos(math.pi * step / n_steps)) / 2


def kl_weights_of(points: Sequence[Point], x: Tensor) -> Tensor:
    """One for each point, on the device of ``x``: ``(M,)``."""
    return torch.tensor([point["kl_weight"] for point in points], device=x.device)


def _is_random(network: Network) -> bool:
    return any(isinstance(layer, StochasticLayer) and layer.is_random for layer in network)
