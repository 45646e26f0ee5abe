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
from bdl_lessons.core.validation import typechecked
from bdl_lessons.models import Network

Estimator = Literal["local", "per example", "per minibatch", "no noise"]
Quantity = Literal["loss", "mu", "log_sigma2"]


def noisy_outputs(
    model: Network, x: Tensor, estimator: Estimator, generator: torch.Generator
) -> Tensor:
    """The model's outputs ``(M, ...)`` for a minibatch ``x`` under one of the four estimators.

    ``"local"``: the local reparameterization trick. ``"per example"``: M draws of all weights, the
    same distribution with M weight matrices per layer. ``"per minibatch"``: one draw of the weights
    for all examples. ``"no noise"``: the mean weights. Raises ValueError if ``estimator`` is none
    of the four.

    >>> from bdl_lessons.models import BayesByBackprop, mlp
    >>> model = mlp((4, 2), BayesByBackprop())
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


@typechecked
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


class VarianceParts(NamedTuple):
    """The parts of the variance of one example's term: ``Var[L_i] = data + noise``.

    Attributes:
        data: variance over examples of the term's mean over noise.
        noise: mean over examples of the term's variance over noise.
        shared: ``Cov[L_i, L_j]`` of two examples drawn at random; 0 if they share no noise.
    """

    data: float
    noise: float
    shared: float

    def at(self, batch_size: float, n_train: int) -> "VarianceParts":
        """The parts of the minibatch estimator's variance; they sum to it.

        Examples are drawn with replacement. Data and noise fall as ``1 / batch_size``; ``shared``
        grows to its full size. Raises ValueError if ``batch_size`` or ``n_train`` is not at least
        1.

        >>> VarianceParts(data=3.0, noise=2.0, shared=0.5).at(batch_size=4, n_train=10)
        VarianceParts(data=75.0, noise=50.0, shared=37.5)
        """
        if not (batch_size >= 1 and n_train >= 1):
            raise ValueError(f"batch_size and n_train must be >= 1, got {batch_size} and {n_train}")
        scale = n_train**2 / batch_size
        shared = scale * (batch_size - 1) * self.shared
        return VarianceParts(scale * self.data, scale * self.noise, shared)


def regression_parts(
    x: Tensor,
    y: Tensor,
    mu: Tensor,
    var: Tensor,
    tau: float,
    quantity: Quantity,
    estimator: Estimator,
) -> VarianceParts:
    r"""The parts in closed form for :math:`L_i = \frac\tau2 (y_i - x_i^\top w)^2`.

    With ``w ~ N(mu, diag(var))`` the errors :math:`e_i = x_i^\top (w - \mu)` are jointly Gaussian
    with covariance :math:`\Delta_{ij} = \sum_k x_{ik} x_{jk} \sigma_k^2`, so every moment is
    elementary; means over pairs of examples become products of means over examples. For one
    example and ``tau = 2`` this is the variance of the gradient of :math:`(b - t)^2`.

    Args:
        x: ``(N, K)``. y: ``(N,)``. mu, var: ``(K,)``, mean and variance of the weights.
        tau: noise precision of y.
        quantity: the loss, or its gradient for ``mu`` or ``log_sigma2`` (averaged over the K).
        estimator: how the weights are drawn; not ``"no noise"``.

    Raises:
        TypeError, ValueError: for an unknown quantity or estimator, another shape, a value that is
            not finite, a negative variance, or a ``tau`` that is not positive.

    >>> one, two = torch.ones(1, 1), torch.tensor([2.0])
    >>> regression_parts(one, torch.zeros(1), two, two, 1.0, "mu", "local")
    VarianceParts(data=0.0, noise=2.0, shared=0.0)
    """
    validation.one_of("quantity", quantity, Quantity)
    for name, value in {"x": x, "y": y, "mu": mu, "var": var}.items():
        validation.floating(name, value)
    validation.shapes("x must be (N, K), y (N,), mu (K,) and var (K,)", x, y, mu, var)
    validation.positive("tau", tau)
    validation.variance("var", var, zero=True)
    if validation.one_of("estimator", estimator, Estimator) == "no noise":
        raise ValueError("estimator must draw weights; without noise only the data part is left")
    r, delta = y - x @ mu, x.square() @ var
    xr, xx = (x * r[:, None]).mean(0), x.T @ x / len(x)
    covered = xx.square() @ var  # mean over i, j of x_ik x_jk Delta_ij
    if quantity == "loss":
        mean = tau / 2 * (r.square() + delta)
        noise = tau**2 * (r.square() * delta + delta.square() / 2)
        shared = tau**2 * (xr.square() @ var + covered @ var / 2)
    elif quantity == "mu":
        mean = -tau * x * r[:, None]
        noise = tau**2 * x.square() * delta[:, None]
        shared = tau**2 * covered
    else:
        r2, d = r.square()[:, None], delta[:, None]
        mean = tau / 2 * var * x.square()
        if estimator == "local":
            noise = mean.square() * (r2 / d.clamp_min(torch.finfo(d.dtype).tiny) + 2)
        else:
            noise = tau**2 / 4 * var * x.square() * (r2 + d + var * x.square())
        shared = tau**2 / 4 * var * (xr.square() + covered + var * xx.diagonal().square())
    return VarianceParts(
        data=mean.var(0, correction=0).mean().item(),
        noise=noise.mean().item(),
        shared=shared.mean().item() if estimator == "per minibatch" else 0.0,
    )
