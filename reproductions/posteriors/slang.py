r"""SLANG: a Gaussian over all weights of a network, with a low-rank plus diagonal *precision*.

.. math:: q(w) = \mathcal N\big(\mu,\; (V V^\top + \mathrm{diag}(d))^{-1}\big),
          \qquad V: D \times L

(Mishkin, Kunstner, Nielsen, Schmidt and Khan, NeurIPS 2018.) A natural-gradient step moves the
precision towards the empirical Fisher matrix of the data, the mean of ``g g'`` over gradients g of
single examples, and the mean by a step measured in it. No batch norm. Lesson 13.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import functional_call, grad
from torch.linalg import solve_triangular

from bdl_lessons.core.autograd import cholesky, vmap
from bdl_lessons.core.random import standard_normal
from bdl_lessons.models import Network

SHARE = 0.01
"""Of the new curvature in a step: one minus the beta of the public code."""
MOMENTUM = 0.9
"""Of the mean gradient."""


@dataclass(frozen=True)
class LowRankPrecision:
    """``N(mean, (factor factor' + diag(diagonal))^-1)`` over D numbers; no D x D matrix is made.

    ``mean`` and ``diagonal`` are ``(..., D)``, the diagonal > 0; ``factor`` is ``(..., D, L)``.
    """

    mean: Tensor
    factor: Tensor
    diagonal: Tensor

    def solve(self, b: Tensor) -> Tensor:
        """Covariance times ``b``, ``(..., D)``, by Woodbury's identity: an L x L system."""
        scaled = self.factor / self.diagonal[..., None]
        inner = torch.cholesky_solve(scaled.mT @ b[..., None], self._cholesky())
        return b / self.diagonal - (scaled @ inner)[..., 0]

    def draw(self, n_samples: int, generator: torch.Generator) -> Tensor:
        r"""``n_samples`` draws ``(S, ..., D)``.

        With :math:`F = d^{-1/2} V` and the Cholesky factor M of ``I + F'F`` a root of the
        covariance is :math:`d^{-1/2} (I - F M^{-\top} (M + I)^{-1} F^\top)`, for V of any rank.
        """
        noise = standard_normal((n_samples, *self.mean.shape), generator, self.mean)
        root = self.diagonal.sqrt()
        F = self.factor / root[..., None]
        M = self._cholesky()
        eye = torch.eye(M.shape[-1], dtype=M.dtype, device=M.device)
        inner = solve_triangular(M + eye, F.mT @ noise[..., None], upper=False)
        inner = solve_triangular(M.mT, inner, upper=True)
        return self.mean + (noise - (F @ inner)[..., 0]) / root

    def _cholesky(self) -> Tensor:
        """The Cholesky factor of ``I + V' d^-1 V``, ``(..., L, L)``."""
        gram = self.factor.mT @ (self.factor / self.diagonal[..., None])
        eye = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
        return cholesky(gram + eye)


def updated(
    q: LowRankPrecision,
    gradients: Tensor,
    direction: Tensor,
    n_train: float,
    prior_precision: float,
    lr: float,
) -> LowRankPrecision:
    """One natural-gradient step.

    Args:
        gradients: of the negative log likelihood of single examples, ``(..., P, D)``.
        direction: an estimate of their mean, ``(..., D)``.
        n_train: N over the ``kl_weight``.

    With ``SHARE`` beta ``(1 - beta) V V' + beta N mean(g g') = X X'`` is kept in its L leading
    directions, ``X Q`` with the eigenvectors Q of the small ``X'X``; of the rest the diagonal goes
    into d, which also takes a step towards the prior's precision.
    """
    weight_of_gradient = SHARE * n_train / gradients.shape[-2]
    old_part = (1 - SHARE) ** 0.5 * q.factor
    new_part = weight_of_gradient**0.5 * gradients.mT
    X = torch.cat([old_part, new_part], dim=-1)
    rank = q.factor.shape[-1]
    leading = torch.linalg.eigh(X.mT @ X).eigenvectors[..., -rank:]
    factor = X @ leading
    remainder = (X.square().sum(-1) - factor.square().sum(-1)).clamp_min(0)
    diagonal = (1 - SHARE) * q.diagonal + SHARE * prior_precision + remainder
    precision = LowRankPrecision(q.mean, factor, diagonal)
    step = precision.solve(n_train * direction + prior_precision * q.mean)
    return LowRankPrecision(q.mean - lr * step, factor, diagonal)


def fit_slang(
    network: Network | Sequence[Network],
    x: Tensor,
    y: Tensor,
    nll: Callable[..., Tensor],
    *,
    n_steps: int,
    generator: torch.Generator,
    nll_args: tuple[Tensor, ...] = (),
    batch_size: int = 10,
    rank: int = 1,
    n_samples: int = 4,
    lr: float = 0.01,
    prior_precision: float = 1.0,
    init_precision: float = 1.0,
    kl_weight: float = 1.0,
) -> LowRankPrecision:
    """The posterior of a network of plain layers, from the weights it has; defaults as published.

    With M networks of one architecture ``x`` and ``y`` are ``(M, N, ...)`` and so are the results.

    Args:
        nll: mean negative log likelihood of a minibatch in nats; ``nll_args``, ``(M, ...)`` each,
            are further arguments.
        rank: L. n_samples: S, draws of the weights in a step.
        prior_precision: of the weights and biases. (Published: 1e-6 of the biases.)
        init_precision: of all weights at the start; well above 1 for weights that already fit.
        kl_weight: q approaches prior times likelihood to the power ``1 / kl_weight``. A factor on
            ``nll`` would not do: the empirical Fisher matrix has its square.
    """
    is_alone = isinstance(network, Network)
    if is_alone:
        network = [network]
        x = x[None]
        y = y[None]
    n_train = x.shape[1]
    template = network[0]
    mean = torch.stack([_flat_weights(member) for member in network])
    q = LowRankPrecision(
        mean,
        factor=mean.new_zeros(*mean.shape, rank),
        diagonal=torch.full_like(mean, init_precision),
    )

    def gradients_of_member(theta: Tensor, *minibatch: Tensor) -> Tensor:
        return example_gradients(template, nll, theta, *minibatch)

    average = torch.zeros_like(mean)
    member = torch.arange(len(x), device=x.device)[:, None]
    for step in range(1, n_steps + 1):
        keys = torch.rand(x.shape[:2], generator=generator, device=generator.device)
        rows = keys.argsort(1)[:, :batch_size].to(x.device)
        theta = q.draw(n_samples, generator).transpose(0, 1)
        gradients = vmap(gradients_of_member)(theta, x[member, rows], y[member, rows], *nll_args)
        gradients = gradients.flatten(1, 2)  # of all draws and examples of a member
        average = MOMENTUM * average + (1 - MOMENTUM) * gradients.mean(1)
        direction = average / (1 - MOMENTUM**step)
        q = updated(q, gradients, direction, n_train / kl_weight, prior_precision, lr)
    if is_alone:
        return LowRankPrecision(q.mean[0], q.factor[0], q.diagonal[0])
    return q


def example_gradients(
    network: Network, nll: Callable[..., Tensor], theta: Tensor, x: Tensor, y: Tensor, *args: Tensor
) -> Tensor:
    """Gradients ``(S, B, D)`` of the nll of each example at each weight vector ``theta (S, D)``."""

    def loss(theta: Tensor, x: Tensor, y: Tensor) -> Tensor:
        output = _output(network, theta, x[None])
        return nll(output, y[None], *args)

    of_examples = torch.func.vmap(grad(loss), (None, 0, 0))
    return vmap(lambda theta: of_examples(theta, x, y))(theta)


@torch.no_grad()
def predict_slang(
    q: LowRankPrecision, network: Network, x: Tensor, n_samples: int, *, generator: torch.Generator
) -> Tensor:
    """``n_samples`` functions drawn from ``q`` at ``x (B, ...)``: ``(S, B, ...)``.

    Of M Gaussians at ``x (M, B, ...)``: ``(S, M, B, ...)``. The weights of ``network`` itself are
    not used.
    """
    outputs = _output if q.mean.dim() == 1 else vmap(_output, (None, 0, 0))
    draws = q.draw(n_samples, generator)
    return torch.stack([outputs(network, theta, x) for theta in draws])


def _flat_weights(network: Network) -> Tensor:
    """All weights and biases as one vector, ``(D,)``, whatever their layout in memory."""
    return torch.cat([parameter.detach().flatten() for parameter in network.parameters()])


def _output(network: Network, theta: Tensor, x: Tensor) -> Tensor:
    """The output of the network with the weights ``theta``, ``(D,)``."""
    parameters = dict(network.named_parameters())
    pieces = theta.split([parameter.numel() for parameter in parameters.values()])
    weights = {}
    for (name, parameter), piece in zip(parameters.items(), pieces, strict=True):
        weights[name] = piece.view_as(parameter)
    return functional_call(network, weights, (x, "mean"))
