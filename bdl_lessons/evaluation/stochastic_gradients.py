r"""Variance of stochastic gradients, and which part of it a larger minibatch removes. Lesson 06.

The minibatch estimator of :math:`\sum_n L_n` is :math:`\frac NM \sum_{m=1}^M L_m` over M examples
drawn at random, each with its own or a shared draw of the weights. Its variance over examples and
draws is (Kingma, Salimans and Welling, NeurIPS 2015, section 2.2)

.. math:: N^2 \Big( \frac1M \mathrm{Var}[L_i] + \frac{M-1}{M}\, \mathrm{Cov}[L_i, L_j] \Big).

The same holds for every component of the gradient. Variance here means variance *over draws*, of
one number; for a gradient it is then averaged over the parameters. The variance over the entries
of one gradient is something else: parameters have different gradients.
"""

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from bdl_lessons.core import validation
from bdl_lessons.core.devices import float64
from bdl_lessons.models import Network

Estimator = Literal["local", "per example", "per minibatch", "no noise"]


def noisy_outputs(
    model: Network, x: Tensor, estimator: Estimator, generator: torch.Generator
) -> Tensor:
    """The model's outputs ``(M, ...)`` for a minibatch ``x`` under one of the four estimators.

    ``"local"``: the local reparameterization trick. ``"per example"``: M draws of all weights, the
    same distribution with M weight matrices per layer. ``"per minibatch"``: one draw of the weights
    for all examples. ``"no noise"``: the mean weights. Raises ValueError if ``estimator`` is none
    of the four.

    >>> from bdl_lessons.models import BayesByBackprop, mlp
    >>> model = mlp((4, 2), BayesByBackprop)
    >>> noisy_outputs(model, torch.ones(5, 4), "local", torch.Generator()).shape
    torch.Size([5, 2])
    """
    validation.one_of("estimator", estimator, Estimator)
    if estimator == "per example":
        return model(x[:, None], "shared", generator)[:, 0]
    modes = {"local": "per_example", "per minibatch": "shared", "no noise": "mean"}
    return model(x, modes[estimator], generator)


class Estimate(NamedTuple):
    """A Monte Carlo estimate and its standard error, in the same units."""

    value: float | Tensor
    std_err: float | Tensor


def gradient_variance(gradients: Tensor) -> Estimate:
    """Variance over draws, then the mean over parameters, in squared units of the gradient.

    Its jackknife standard error is taken over draws: right also when parameters vary together.

    Args:
        gradients: ``(S, ...)``, S >= 3 independent draws of the gradient of one set of parameters,
            finite, else ValueError.

    >>> gradient_variance(torch.tensor([[1.0], [2.0], [3.0]])).value
    1.0
    """
    validation.shapes("gradients must be (S, P, ...)", validation.floating("gradients", gradients))
    n_draws = validation.integer("the number of draws of gradients", len(gradients), 3)
    flat = float64(gradients.flatten(1))
    distance = (flat - flat.mean(0)).square().mean(1)
    value = distance.sum() / (n_draws - 1)
    std_err = distance.std(correction=0) * n_draws / ((n_draws - 2) * (n_draws - 1) ** 0.5)
    return Estimate(value.item(), std_err.item())
