r"""Deep ensembles: networks from different starts, trained on the same data and averaged.

(Lakshminarayanan, Pritzel and Blundell, NeurIPS 2017.) No prior, no KL: where the data say little,
networks that began apart stay apart, and their disagreement is the uncertainty. In regression each
network also predicts its noise: it has 2 D outputs, D means and D numbers that a softplus turns
into variances. The prediction is the mixture

.. math:: p(y \mid x) = \frac1M \sum_m \mathcal N\big(y; \mu_m(x), \sigma_m^2(x)\big)

Five networks cost five times the time and memory of one; side by side small ones cost little more
than one. The adversarial examples of the paper, optional there, are left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn.functional import softplus

from bdl_lessons.core import validation
from bdl_lessons.inference import BatchedNetworks, fit_batched
from bdl_lessons.inference.train import OptimizerFactory
from bdl_lessons.models import Network

MIN_VAR = 1e-6
"""Added to every predicted variance, as published: in units of standardised targets."""


def fit_ensemble(
    networks: Sequence[Network],
    x: Tensor,
    y: Tensor,
    nll: Callable[[Tensor, Tensor], Tensor],
    *,
    n_steps: int,
    generator: torch.Generator,
    optimizer: OptimizerFactory,
    batch_size: int | None = None,
    kl_weight: float = 0.0,
) -> BatchedNetworks:
    """Train networks with starts of their own on the same rows, in minibatches of their own.

    Args:
        networks: M of one architecture (published: M = 5), each from its own ``initialise``.
        x, y: the training set, ``(N, ...)`` each, the same for all.
        nll: :func:`heteroscedastic_nll`, ``torch.nn.functional.cross_entropy``, ...
        kl_weight: 0 is maximum likelihood. 1 with ``Deterministic()`` layers is weight decay.

    Raises:
        ValueError, FloatingPointError: see :func:`bdl_lessons.inference.fit_batched`.
    """
    members = BatchedNetworks(networks)
    fit_batched(
        members,
        x.expand(len(members), *x.shape),
        y.expand(len(members), *y.shape),
        nll,
        n_steps=n_steps,
        generator=generator,
        optimizer=optimizer,
        batch_size=batch_size,
        kl_weight=kl_weight,
        sampling="mean",
    )
    return members


@torch.no_grad()
def predict_ensemble(members: BatchedNetworks, x: Tensor) -> Tensor:
    """Every member at the same rows ``x``: ``(M, B, ...)``, what ``predict`` calls draws."""
    return members(x.expand(len(members), *x.shape), "mean")


def mean_and_var(output: Tensor) -> tuple[Tensor, Tensor]:
    """Outputs ``(..., 2 D)`` as means and variances, ``(..., D)`` each; the variances are > 0.

    Raises:
        ValueError: if the number of outputs is odd.
    """
    if output.shape[-1] % 2:
        raise ValueError(f"output needs D means and D variances, got {output.shape[-1]} numbers")
    mean, raw = output.chunk(2, -1)
    return mean, softplus(raw) + MIN_VAR


def heteroscedastic_nll(output: Tensor, y: Tensor) -> Tensor:
    """``-log N(y; mean, var)`` of outputs ``(B, 2 D)``: sum over D, mean over B, in nats."""
    mean, var = mean_and_var(output)
    return -_log_normal(y, mean, var).mean()


def mixture_moments(mean: Tensor, var: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of an equal mixture of M Gaussians, ``(M, B, D)`` to ``(B, D)`` each.

    The variance is the average variance plus the variance of the means. The paper scores the
    Gaussian with these moments: ``mixture_log_likelihood(*(m[None] for m in moments), y)``.
    """
    return mean.mean(0), var.mean(0) + mean.var(0, correction=0)


def mixture_log_likelihood(mean: Tensor, var: Tensor, y: Tensor) -> Tensor:
    """``log (1/M) sum_m N(y; mean_m, diag var_m)`` in nats for each row, ``(B,)``.

    For targets in original units bring ``mean`` and ``var`` there first: times ``y_std`` (plus
    ``y_mean``) and times ``y_std ** 2``.

    Args:
        mean, var: ``(M, B, D)``. y: ``(B, D)``.

    Raises:
        ValueError: if shapes do not fit, or a variance is not positive and finite.
    """
    validation.finite("mean", mean)
    validation.variance("var", var)
    return _log_normal(y, mean, var).logsumexp(0) - math.log(len(mean))


def _log_normal(y: Tensor, mean: Tensor, var: Tensor) -> Tensor:
    if y.shape != mean.shape[-y.dim() :] or mean.shape != var.shape:
        raise ValueError(
            f"y, mean and var must agree, got {tuple(y.shape)}, {tuple(mean.shape)} and "
            f"{tuple(var.shape)}"
        )
    return -0.5 * ((y - mean).square() / var + (2 * math.pi * var).log()).sum(-1)
