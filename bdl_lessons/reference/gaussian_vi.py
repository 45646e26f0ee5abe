"""Gaussian variational inference: the Gaussian with the largest ELBO. Lesson 02."""

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from bdl_lessons.core.validation import flag, floating, instance, integer, shapes

LogJoint = Callable[[Tensor], Tensor]


def gauss_hermite(n_nodes: int, dim: int) -> tuple[Tensor, Tensor]:
    """Nodes ``(S, dim)`` and weights ``(S,)`` with ``sum_s weights_s f(nodes_s) = E[f(N(0, I))]``.

    ``S = n_nodes ** dim``, float64. Exact up to degree ``2 * n_nodes - 1`` in each variable.

    >>> nodes, weights = gauss_hermite(n_nodes=3, dim=1)
    >>> round((weights @ nodes[:, 0] ** 4).item(), 6)
    3.0
    """
    integer("dim", dim, 1)
    x, w = np.polynomial.hermite_e.hermegauss(integer("n_nodes", n_nodes, 1))
    nodes = _grid(torch.from_numpy(x), dim)
    weights = _grid(torch.from_numpy(w / w.sum()), dim).prod(-1)
    return nodes, weights


def _grid(values: Tensor, dim: int) -> Tensor:
    """All combinations of ``dim`` of the ``values (n,)``, ``(n ** dim, dim)``."""
    return torch.cartesian_prod(*[values] * dim).view(-1, dim)


def gaussian_elbo(
    log_joint: LogJoint, mean: Tensor, scale_tril: Tensor, nodes: Tensor, weights: Tensor
) -> Tensor:
    r"""Evidence lower bound of ``q = N(mean, L L')``, ``L = scale_tril``, 0-dim, nats.

    .. math:: \mathbb{E}_q[\log p(D, w)] + H(q), \qquad
              H(q) = \tfrac{K}{2}\log 2\pi e + \sum_i \log |L_{ii}|

    The expectation is taken over :math:`w_s = \mu + L \epsilon_s`: the noise stays where it is and
    the parameters of ``q`` move it, so the bound is a smooth function of them.

    Args:
        log_joint: ``(S, K)`` weights to ``(S,)`` values of ``log p(D, w)``.
        mean, scale_tril: ``(K,)``, and ``(K, K)``, lower triangular, else ValueError.
        nodes, weights: ``(S, K)`` and ``(S,)``, standard normal nodes from ``gauss_hermite``, or
            draws with weights ``1 / S``.

    >>> rule = gauss_hermite(n_nodes=3, dim=1)
    >>> zero, one = torch.zeros(1).double(), torch.eye(1).double()
    >>> bound = gaussian_elbo(lambda w: -w.square().sum(-1) / 2, zero, one, *rule)
    >>> round(bound.item(), 4)  # the evidence, since q is the posterior: log sqrt(2 pi)
    0.9189
    """
    shapes("mean must be (K,) and scale_tril (K, K)", mean, scale_tril)
    if scale_tril.triu(1).any():
        raise ValueError("scale_tril must be lower triangular: the entropy reads its diagonal")
    values = log_joint(mean + nodes @ scale_tril.mT)
    shapes("log_joint must give (S,) for as many nodes with weights (S,)", values, weights)
    entropy = 0.5 * len(mean) * math.log(2 * math.pi * math.e)
    return weights @ values + (entropy + scale_tril.diagonal().abs().log().sum())


def fit_gaussian(
    log_joint: LogJoint,
    mean: Tensor,
    scale: Tensor,
    *,
    mean_field: bool = False,
    n_nodes: int = 20,
    n_steps: int = 200,
) -> tuple[Tensor, Tensor]:
    """The Gaussian ``q`` with the largest ELBO, found by L-BFGS from ``N(mean, diag(scale ** 2))``.

    Returns its mean ``(K,)`` and ``scale_tril`` ``(K, K)``, without gradients.

    Args:
        log_joint: as in ``gaussian_elbo``; must be differentiable.
        mean, scale: ``(K,)`` each, ``scale`` positive: a start inside the bulk of the posterior.
        mean_field: keep the covariance diagonal.
        n_nodes: quadrature nodes per weight (``n_nodes ** K`` evaluations per step).
        n_steps: most steps to take; RuntimeError if the gradient is not 0 after them.

    >>> start = torch.zeros(2).double(), 0.5 * torch.ones(2).double()
    >>> mean, scale_tril = fit_gaussian(lambda w: -(w - 1).square().sum(-1) / 2, *start)
    >>> [round(value, 4) for value in mean.tolist()]
    [1.0, 1.0]
    """
    instance("log_joint", log_joint, Callable)
    shapes("mean must be (K,) and scale (K,)", floating("mean", mean), floating("scale", scale))
    flag("mean_field", mean_field)
    integer("n_steps", n_steps, 1)
    if not (scale > 0).all():
        raise ValueError(f"scale must be positive, got {scale.tolist()}")
    nodes, weights = gauss_hermite(n_nodes, len(mean))
    nodes = nodes.to(mean)
    weights = weights.to(mean)
    mean = mean.detach().clone().requires_grad_()
    log_diag = scale.detach().log().requires_grad_()
    below = torch.zeros(len(mean), len(mean)).to(mean).requires_grad_(not mean_field)
    leaves = [leaf for leaf in (mean, log_diag, below) if leaf.requires_grad]

    def scale_tril() -> Tensor:
        return below.tril(-1) + log_diag.exp().diag()

    def loss() -> Tensor:
        optimizer.zero_grad()
        value = -gaussian_elbo(log_joint, mean, scale_tril(), nodes, weights)
        value.backward()
        return value

    optimizer = torch.optim.LBFGS(
        leaves,
        max_iter=n_steps,
        tolerance_grad=1e-9,
        tolerance_change=0.0,
        line_search_fn="strong_wolfe",
    )
    optimizer.step(loss)
    value = loss()
    largest = max(leaf.grad.abs().max().item() for leaf in leaves)
    if not (value.isfinite() and largest < 1e-4):
        end = f"the bound is {-value.item():g} with a gradient of {largest:g} after {n_steps} steps"
        raise RuntimeError(f"{end}; start closer to the posterior or allow more steps")
    return mean.detach(), scale_tril().detach()
